"""Run one part of the GPU's path on the device of support/pretend.py, and print what was seen as JSON.

    export PRETEND=pretend.so PYTHONPATH=.:tests  # pretend.cpp, compiled as test_without_a_gpu.py does
    python tests/gpu/trace.py step base
    python tests/gpu/trace.py step base --break wait

A broken part shows that what is tested can fail.
"""

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from unittest.mock import patch

from support.pretend import CUDA, FAKE, Watch, install  # isort: skip (before torch)

import numpy as np
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.decomposition import select_decomp_table

install()

from benchmarks.workload import CONFIG, of_paper  # noqa: E402 (after `install`)
from transformer.config.experiment import read_yaml  # noqa: E402
from transformer.model import attention  # noqa: E402
from transformer.model.packed import bounds  # noqa: E402
from transformer.runtime.distributed import World  # noqa: E402
from transformer.training import compiling  # noqa: E402
from transformer.training import step as step_module  # noqa: E402
from transformer.training.loss import batch_losses  # noqa: E402
from transformer.training.step import Learner  # noqa: E402
from transformer.translation.decoder import CachedDecoder  # noqa: E402
from transformer.translation.search import expand  # noqa: E402

PAIRS = 20_000  # random sentences: some twenty batches
WORLD = World(0, 1, CUDA)


def waiting(model, batch, epsilon, dtype):
    """Compute the losses, and ask for one of them."""
    losses = batch_losses(model, batch, epsilon, dtype)
    losses[1].item()
    return losses


def growing(model, batch, epsilon, dtype):
    """Compute the losses of those tokens alone that are no padding, whose number only the GPU knows."""
    labels = batch.labels[batch.labels.nonzero().flatten()]
    return batch_losses(model, replace(batch, labels=labels), epsilon, dtype)


def wide(flash):
    """Return flash attention that is given float32."""
    return lambda Q, K, V, *rest: flash(Q.float(), K.float(), V.float(), *rest).to(Q.dtype)


BREAKS = {
    "nothing": lambda: patch.object(step_module, "batch_losses", batch_losses),
    "wait": lambda: patch.object(step_module, "batch_losses", waiting),
    "shape": lambda: patch.object(step_module, "batch_losses", growing),
    "float32": lambda: patch.object(attention, "flash", wide(attention.flash)),
}


def step(name: str) -> dict:
    """Train the model by one eager step, at full size."""
    return eager(learner_of(name))


def eager(learner: Learner) -> dict:
    """Make one step; return what it did, and whether the gradients are still views of one buffer."""
    (batch, *_) = learner.batches_of(0)
    with FAKE, Watch() as seen:
        learner.update("step 1", batch, 1, False)
    views = [parameter.grad._base is learner.gradients for parameter in learner.model.parameters()]
    return {"views": all(views), "parameters": len(views), **report(seen)}


def learner_of(name: str, layers: int | None = None) -> Learner:
    """Return the learner of a row's model at the paper's size, or with at most so many layers, on random sentences."""
    work = of_paper(name, PAIRS)
    model = replace(work.experiment.model, N=min(work.experiment.model.N, layers or math.inf))
    measures_memory = patch.object(Learner, "accumulations", lambda *_: 1)
    compiles = patch.object(step_module, "WORTH_COMPILING", math.inf)
    moves = patch.object(torch.nn.Module, "to", lambda model, _: model)  # fake parameters are made where they belong
    with FAKE, CUDA, measures_memory, compiles, moves:
        return Learner(replace(work.experiment, model=model), work.text, None, WORLD, 0)


def compiled(name: str) -> dict:
    """Compile the step for two batches of each pair of length bounds."""
    learner, by_bounds = learner_of(name), defaultdict(list)
    for batch in learner.batches_of(0):
        by_bounds[bounds(learner.text.lengths[:, batch])].append(batch)
    chosen = [batch for group in by_bounds.values() for batch in group[:2]]
    return {"bounds": len(by_bounds), "batches": len(chosen), **compile_step(learner, chosen)}


def compile_step(learner: Learner, batches: list[np.ndarray]) -> dict:
    """Compile the step for these batches, up to the graphs that Inductor is given; return what is known of them."""
    graphs = {"forward": [], "backward": []}

    def keep(kind: str) -> Callable:
        def compiler(graph: torch.fx.GraphModule, _) -> Callable:
            graphs[kind].append(graph)
            return make_boxed_func(graph)

        return compiler

    backend = aot_autograd(
        fw_compiler=keep("forward"),
        bw_compiler=keep("backward"),
        partition_fn=min_cut_rematerialization_partition,
        decompositions=select_decomp_table(),
    )
    with patch.object(torch, "compile", partial(torch.compile, backend=backend)):
        compute = compiling.compiled()
    with FAKE:
        for indices in batches:
            batch = learner.text.batch(indices, CUDA, learner.room)
            compute(learner.model, batch, 0.1, torch.bfloat16)[0].backward()
    return {
        "graphs": [len(graphs["forward"]), len(graphs["backward"])],
        "breaks": sum(counters["graph_break"].values()),
        "saved_bytes": max(map(saved, graphs["forward"])),
    }


def saved(graph: torch.fx.GraphModule) -> int:
    """Return the bytes that a forward graph hands to its backward graph, without its own inputs."""
    (outputs,) = graph.graph.find_nodes(op="output")[0].args
    values = [node.meta["val"] for node in outputs if isinstance(node, torch.fx.Node) and node.op != "placeholder"]
    return sum(value.numel() * value.element_size() for value in values if isinstance(value, torch.Tensor))


def rows(_: str) -> dict:
    """Compile one batch of each model of Tables 3 and 5, with two layers; without flash attention, run it eagerly."""
    config, models, found = read_yaml(CONFIG), [], {}
    for name in config["experiments"] | config["claims"]:
        learner = learner_of(name, layers=2)
        if (model := learner.experiment.model) in models:
            continue
        models.append(model)
        torch._dynamo.reset()
        result = compile_step(learner, learner.batches_of(0)[:1]) if learner.flash else eager(learner)
        found[name] = {"flash": learner.flash, **result}
    return found


def evaluation(name: str) -> dict:
    """Compute the dev perplexity's losses for one batch."""
    work, model = of_paper(name, PAIRS), learner_of(name).model
    with FAKE, torch.no_grad(), Watch() as seen:
        batch_losses(model.eval(), work.dev.batch(np.arange(40), CUDA), 0.0, torch.bfloat16)
    return report(seen)


def decoding(name: str) -> dict:
    """Take a step of beam search up to the one transfer of its ranking, with a batch of sentences."""
    work, model = of_paper(name, PAIRS), learner_of(name).model.eval()
    with FAKE, torch.inference_mode():
        decoder = CachedDecoder(model, work.dev.batch(np.arange(40), CUDA).source, 37_000)
        tokens, alive = torch.zeros(40, 4, dtype=torch.long, device=CUDA), torch.zeros(40, 4, device=CUDA)
        with Watch() as seen:
            ranked = expand(alive, decoder.step(tokens), 8)
    return {"shapes": [list(x.shape) for x in ranked], "devices": [str(x.device) for x in ranked], **report(seen)}


def report(seen: Watch) -> dict:
    return {"operators": seen.operators.total(), "attention": sorted(seen.attention)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("step", "compiled", "rows", "evaluation", "decoding"))
    parser.add_argument("model", nargs="?", default="base")
    parser.add_argument("--break", dest="broken", choices=BREAKS, default="nothing")
    args = parser.parse_args()
    # The numbers of a step go to the processor by pinned memory and an event, which have no fake.
    with BREAKS[args.broken](), patch.object(step_module, "on_its_way", lambda numbers: (numbers, None)):
        print(json.dumps(globals()[args.part](args.model)))


if __name__ == "__main__":
    main()
