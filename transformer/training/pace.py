"""The speed of this machine: a few real steps of a scale's models, on made-up sentences of WMT's mean length."""

import time

import numpy as np
import torch
from msgspec import UNSET
from msgspec.structs import replace

from transformer.config.experiment import EOS, Experiment
from transformer.data.corpus import TokenArray
from transformer.device import best_device
from transformer.model.cost import SENTENCE
from transformer.pipeline.plan import Speed, run_flops
from transformer.storage import provenance
from transformer.training.batches import ParallelText
from transformer.training.distributed import World
from transformer.training.step import Learner

_SECONDS = 2.0  # of each model
_MOST = {"cpu": 3e11, "cuda": 1e14}  # FLOPs of a step that is timed: of larger ones a part, whose time is scaled
_SIDES = ("source_tokens", "target_tokens")


def measured(base: Experiment, largest: Experiment) -> Speed:
    """Return this machine's speed, by a straight line through two models' times of a layer's step over its FLOPs."""
    device = best_device()
    torch.set_num_threads(1)
    begun = time.process_time()  # a training starts as this process has
    flops, seconds = (part / base.model.N for part in _timed(base, device))
    rate, overhead = flops / seconds, 0.0
    whole = max(_flops(base), _flops(largest)) <= _MOST[device.type]
    if whole and _flops(largest) / largest.model.N > 1.5 * flops:
        more, longer = (part / largest.model.N for part in _timed(largest, device))
        rate = (more - flops) / max(longer - seconds, longer / 2)
        overhead = max(0.0, seconds - flops / rate)
    source = f"measured now on {provenance.hardware(device)}: a step of base takes {seconds * base.model.N:.3g} s"
    source += "." if whole else f", for the {flops * base.model.N / _flops(base):.2g} of its batch that was timed."
    unit = "core" if device.type == "cpu" else "GPU"
    return Speed(unit, "core" if unit == "core" else "GPU of this machine", rate, source, overhead, begun)


def _flops(run: Experiment) -> float:
    return run_flops(run) / run.training.steps


def _timed(run: Experiment, device: torch.device) -> tuple[float, float]:
    """Return the FLOPs and the seconds of a step: processor time on a processor, which others use, too."""
    part = min(1.0, _MOST[device.type] / _flops(run))
    budgets = {side: max(2 * SENTENCE, int(getattr(run.training, side) * part)) for side in _SIDES}
    training = {"steps": 1, "averaged_checkpoints": 1} | budgets  # so few are not compiled
    training |= {"initial_weights": UNSET, "max_length": UNSET}
    positions = "sinusoid" if run.model.positions == "words" else run.model.positions  # words need a vocabulary
    run = replace(run, model=replace(run.model, positions=positions), training=replace(run.training, **training))
    text = ParallelText(*(_sentences(run, rows) for rows in (run.model.embedding_rows, run.model.output_rows)))
    learner = Learner(run, text, None, World(0, 1, device), 2**50)
    (batch, *_), clock = learner.batches_of(0), time.process_time if device.type == "cpu" else time.monotonic
    learner.update("", batch, 1, stopping=False).check()
    times = [clock()]
    while times[-1] - times[0] < _SECONDS:
        learner.update("", batch, len(times), stopping=False).check()
        times.append(clock())
    return _flops(run), float(np.median(np.diff(times)))


def _sentences(run: Experiment, rows: int) -> TokenArray:
    count = max(getattr(run.training, side) for side in _SIDES) // SENTENCE
    ids = np.random.default_rng(0).integers(EOS + 2, rows, (count, SENTENCE)).astype(np.uint16)
    ids[:, -1] = EOS
    return TokenArray(ids.reshape(-1), np.arange(count + 1) * SENTENCE)
