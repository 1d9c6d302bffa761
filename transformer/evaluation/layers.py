"""§4, Table 1: layers of each type, with their multiplications, time, and path lengths of signals.

All layers map one sequence [n, d] to [n, d]. Symbols: n positions, d width, k kernel, r neighbours. As in the paper,
only matrix products count, not softmax, tanh or biases.
"""

import itertools
import math
from collections.abc import Callable
from time import perf_counter, process_time
from types import SimpleNamespace
from typing import Any

import networkx
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.benchmark import Timer

from transformer.model.attention import attention
from transformer.model.cost import COSTS, multiply_adds
from transformer.storage import provenance

THREADS = 1
_QUERIES = 64  # queries per block of additive attention, which needs d numbers per pair of query and key


def measure_layers(params: SimpleNamespace) -> dict[str, Any]:
    """Measure all layer types with the settings `table1` of config.yaml.

    Each type is timed for all `lengths` at one `width`, then for all `widths` at one `length`. Time is processor time
    without gradients: the median over the blocks of calls that fit into `seconds`. Paths are measured at `paths`.
    """
    started = perf_counter()
    torch.set_num_threads(THREADS)
    sizes = [("n", n, params.width) for n in params.lengths] + [("d", params.length, d) for d in params.widths]
    times = []
    for name, (grid, n, d) in itertools.product(COSTS, sizes):
        variables = {"layer": LAYERS[name](d, params.k, params.r, 0), "x": torch.randn(n, d)}
        with torch.no_grad():
            timer = Timer("layer(x)", globals=variables, timer=process_time, num_threads=THREADS)
            blocks = timer.blocked_autorange(min_run_time=params.seconds)
        found = {"layer": name, "grid": grid, "n": n, "d": d, "k": params.k, "r": params.r}
        found["multiply_adds"] = multiply_adds(COSTS[name], found)
        times.append(found | {"seconds": blocks.median, "quartiles": blocks.iqr, "blocks": len(blocks.times)})
    return {
        "times": times,
        "connections": [_connected(name, n, params.k, params.r) for name in LAYERS for n in params.paths],
        "seconds": perf_counter() - started,
        "hardware": provenance.hardware(torch.device("cpu")),
        "threads": THREADS,
        "versions": provenance.versions(),
        "commit": provenance.commit(),
        "date": provenance.now(),
    }


def _dot_attention(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
    """Apply the model's attention with one head: Q [B, L_q, d], K and V [B, L_k, d] to [B, L_q, d]."""
    return attention(Q[:, None], K[:, None], V[:, None], mask, causal=False, P_drop=0.0)[:, 0]


class _SelfAttention(nn.Module):
    """Attention of §3.2.1, counted by O(n^2 · d), or with the projections W^Q, W^K, W^V and W^O of §3.2.2.

    It has one head. h heads of width d / h need the same number of multiplications.
    """

    def __init__(self, d: int, projected: bool):
        super().__init__()
        projections = [nn.Linear(d, d, bias=False) if projected else nn.Identity() for _ in range(4)]
        self.inputs, self.output = nn.ModuleList(projections[:3]), projections[3]

    def forward(self, x: Tensor) -> Tensor:
        return self.output(_dot_attention(*(projection(x)[None] for projection in self.inputs))[0])


class _Additive(nn.Module):
    """Additive attention of §3.2.1 with Q = K = V = x, in blocks of queries that fit into memory."""

    def __init__(self, d: int):
        super().__init__()
        self.additive = nn.Parameter(torch.randn(1, d))

    def forward(self, x: Tensor) -> Tensor:
        K = x[None, None]
        parts = x.split(_QUERIES)
        heads = [attention(Q[None, None], K, K, None, False, 0.0, additive=self.additive) for Q in parts]
        return torch.cat(heads, dim=2)[0, 0]


class _Restricted(nn.Module):
    """Restricted attention of §4. Each position multiplies only the r positions around it, including itself."""

    def __init__(self, r: int):
        super().__init__()
        self.r = r

    def forward(self, x: Tensor) -> Tensor:
        ends = (self.r // 2, (self.r - 1) // 2)  # padding with zeros, which the mask hides
        K = F.pad(x, (0, 0, *ends)).unfold(0, self.r, 1).transpose(1, 2)  # [n, r, d], a view
        mask = F.pad(x.new_zeros(len(x)), ends, value=-math.inf).unfold(0, self.r, 1)
        return _dot_attention(x[:, None], K, K, mask[:, None, None])[:, 0]


class _Recurrent(nn.RNN):
    """A layer h_t = tanh(W x_t + U h_{t-1} + b). `state` [1, d] precedes the sequence; its default is zero."""

    def forward(self, x: Tensor, state: Tensor | None = None) -> Tensor:
        return super().forward(x, state)[0]


class _Convolutional(nn.Conv1d):
    """A causal layer over k positions with distance `dilation`. Zeros precede the sequence."""

    def __init__(self, d: int, k: int, dilation: int = 1, groups: int = 1):
        super().__init__(d, d, k, dilation=dilation, groups=groups)
        self.before = (k - 1) * dilation

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.pad(x.T, (self.before, 0))).T


# Each function makes layer number `level` of a stack from d, k, r and level. First the paper's layers, then four more:
# §4's contiguous and separable kernels, §3.2.2's whole layer, and §3.2.1's additive attention.
LAYERS: dict[str, Callable[[int, int, int, int], nn.Module]] = {
    "Self-Attention": lambda d, k, r, level: _SelfAttention(d, projected=False),
    "Recurrent": lambda d, k, r, level: _Recurrent(d, d),
    "Convolutional": lambda d, k, r, level: _Convolutional(d, k, k**level),
    "Self-Attention (restricted)": lambda d, k, r, level: _Restricted(r),
    "Convolutional, contiguous kernels": lambda d, k, r, level: _Convolutional(d, k),
    "Convolutional, separable": lambda d, k, r, level: nn.Sequential(
        _Convolutional(d, k, k**level, d), nn.Linear(d, d)
    ),
    "Self-Attention with projections": lambda d, k, r, level: _SelfAttention(d, projected=True),
    "Self-Attention, additive": lambda d, k, r, level: _Additive(d),
}


def _connected(name: str, n: int, k: int, r: int, d: int = 4) -> dict[str, Any]:
    """Stack layers of a type until another layer connects no further positions of n ≥ 2, and measure the paths.

    `path` is the maximum, over connected input and output positions, of the shortest path in edges. `sequential` is
    the longest chain of dependent operations in one layer. Neither depends on d.
    """
    layers, reach = [], torch.eye(n)
    while True:
        added = LAYERS[name](d, k, r, len(layers)).double()
        wider = (_depends(added, n, d).float() @ reach).clamp(max=1)
        if layers and wider.equal(reach):
            break
        layers.append(added)
        reach = wider
    graph = networkx.DiGraph(edge for level, layer in enumerate(layers) for edge in _edges(layer, level, n, d))
    reached = (networkx.single_source_shortest_path_length(graph, (0, i)).items() for i in range(n))
    path = max(distance for of_input in reached for (level, _), distance in of_input if level == len(layers))
    output = layers[0].requires_grad_(False)(torch.randn(n, d, dtype=torch.float64, requires_grad=True))
    operators, waiting = networkx.DiGraph(), [output.grad_fn]
    while waiting:
        operator = waiting.pop()
        before = [function for function, _ in operator.next_functions if function is not None]
        waiting += [function for function in before if function not in operators]
        operators.add_edges_from((operator, function) for function in before)
    chain = networkx.dag_longest_path_length(operators)
    return {"layer": name, "n": n, "k": k, "r": r, "layers": len(layers), "path": path, "sequential": chain}


def _depends(function: Callable[[Tensor], Tensor], n: int, d: int) -> Tensor:
    """Find which output positions depend on which input positions: [outputs, n].

    The method is the gradient of a random mixture of an output's features. A true dependency never gives zero.
    """
    mixture = torch.randn(d, dtype=torch.float64)
    x = torch.randn(n, d, dtype=torch.float64)
    return (torch.autograd.functional.jacobian(lambda x: function(x) @ mixture, x) != 0).any(dim=2)


def _edges(layer: nn.Module, level: int, n: int, d: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """List edges from inputs (level, i) to outputs (level + 1, j). A recurrent layer has edges between its steps."""
    if not isinstance(layer, _Recurrent):
        return [((level, i), (level + 1, j)) for j, i in _depends(layer, n, d).nonzero().tolist()]
    from_input, from_state = _depends(lambda pair: layer(pair[:1], pair[1:]), 2, d)[0]
    inputs = [((level, t), (level + 1, t)) for t in range(n)] if from_input else []
    states = [((level + 1, t - 1), (level + 1, t)) for t in range(1, n)] if from_state else []
    return inputs + states
