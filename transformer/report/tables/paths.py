"""§4: how far a signal travels through layers, and which operators wait for which, as gradients show it.

Nothing here knows what a layer computes, except that a recurrent layer is a chain of steps.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import networkx
import torch
from torch import Tensor, nn

from transformer.report.tables.layers import Recurrent


class Connections(NamedTuple):
    """Connections in a stack of `layers` layers, which are as few as connect all that more of them would.

    path: the longest of the shortest paths, in edges, between an input and an output position that are connected.
    sequential: the longest chain of operators in one layer, each of which waits for the one before.
    """

    layers: int
    path: int
    sequential: int


def connections(layer: Callable[[int], nn.Module], n: int, d: int) -> Connections:
    """Return what connects n positions (2 or more). `layer` makes layer number 0, 1, ... of a stack, of width d."""
    layers = stack(layer, n, d)
    output = layers[0].requires_grad_(False)(torch.randn(n, d, dtype=torch.float64, requires_grad=True))
    chain = networkx.dag_longest_path_length(operators(output.grad_fn))
    return Connections(len(layers), longest_path(layers, n, d), chain)


def stack(layer: Callable[[int], nn.Module], n: int, d: int) -> list[nn.Module]:
    """Return the first layers, until another one would connect no further output with an input; at least one."""
    layers, reach = [], torch.eye(n)
    while True:
        added = layer(len(layers)).double()
        wider = (depends(added, n, d).float() @ reach).clamp(max=1)
        if layers and wider.equal(reach):
            return layers
        layers.append(added)
        reach = wider


def depends(function: Callable[[Tensor], Tensor], n: int, d: int) -> Tensor:
    """Return [outputs, n]: whether an output position depends on an input position.

    The gradient at random numbers decides, of a random mixture of an output's features in double precision, so that no
    gradient that exists comes out as zero.
    """
    mixture = torch.randn(d, dtype=torch.float64)
    x = torch.randn(n, d, dtype=torch.float64)
    return (torch.autograd.functional.jacobian(lambda x: function(x) @ mixture, x) != 0).any(dim=2)


def longest_path(layers: list[nn.Module], n: int, d: int) -> int:
    """Return how far the farthest output is that an input of the stack reaches, by breadth-first search."""
    graph = networkx.DiGraph()
    for level, layer in enumerate(layers):
        graph.add_edges_from(edges(layer, level, n, d))
    return max(
        distance
        for i in range(n)
        for (level, _), distance in networkx.single_source_shortest_path_length(graph, (0, i)).items()
        if level == len(layers)
    )


def edges(layer: nn.Module, level: int, n: int, d: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return edges from inputs (level, i) to outputs (level + 1, j) of a layer; a recurrent one's go step by step."""
    if not isinstance(layer, Recurrent):
        return [((level, i), (level + 1, j)) for j, i in depends(layer, n, d).nonzero().tolist()]
    from_input, from_state = depends(lambda pair: layer(pair[:1], pair[1:]), 2, d)[0]
    inputs = [((level, t), (level + 1, t)) for t in range(n)] if from_input else []
    states = [((level + 1, t - 1), (level + 1, t)) for t in range(1, n)] if from_state else []
    return inputs + states


def operators(last: Any) -> networkx.DiGraph:
    """Return autograd's graph behind an operator. The leaf, which is no operator, is a node of it."""
    graph, waiting = networkx.DiGraph(), [last]
    while waiting:
        operator = waiting.pop()
        before = [function for function, _ in operator.next_functions if function is not None]
        waiting += [function for function in before if function not in graph]
        graph.add_edges_from((operator, function) for function in before)
    return graph
