"""The cost of a scale before anything starts: FLOPs, hours of one GPU or core, and disk space."""

import re
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from transformer.config.experiment import Experiment, resolve
from transformer.config.scales import PARSER, RunName, all_runs, downloads_of, files_of, parts, places_of
from transformer.model.cost import SENTENCE, mean_lengths
from transformer.pipeline.scale import Pipeline
from transformer.storage.files import InputError
from transformer.storage.records import read_json

_BENCHMARKS = Path("benchmarks/results")  # in the project's folder
_BENCHMARK = "python -m benchmarks.train --model base"
WEIGHT = 4  # bytes of float32
STATE = 3  # the weights and Adam's two moments
STATES = 2  # resume states that a run keeps (training/states.py)
# Bytes of a line of WMT's text, of the same line tokenised, and its tokens, rounded up; text over its archive.
LINE, TOKENISED, TOKENS, UNPACKED = 180, 200, 30, 3
ID, OFFSET = 2, 8  # bytes in the token arrays (data/corpus.py)

# Peak FLOP/s of dense products in the type that a training takes: bfloat16, and float32 on a V100, which lacks it.
# From NVIDIA's data sheets, SXM where there are several; figures "with sparsity" halved.
GPUS = {
    "b200": 2250e12,
    "h200": 989e12,
    "h100": 989e12,
    "a100": 312e12,
    "l40s": 362e12,
    "a40": 149.7e12,
    "a10g": 70e12,  # by AWS
    "l4": 121e12,
    "v100": 15.7e12,
}
# The big model on one A100 reached this: NVIDIA/DeepLearningExamples, PyTorch/Translation/Transformer, README: 82,059
# tokens a second in mixed precision. Eight A100s in MLPerf v0.7 reached 42 %.
_UTILISATION = 0.33
# Products' FLOPs in the time of one number of q + k under a tanh, in additive attention. On a processor as in the
# record. On a GPU not measured: some 20 times four bytes between its memory and its cores, 70 FLOPs for each byte.
_ADDITIVE = {"GPU": 6000, "core": 700}


class Speed(NamedTuple):
    """The speed of a GPU or of a processor core, and where the number comes from."""

    unit: str  # GPU or core
    name: str
    flops_per_second: float
    source: str
    layer_seconds: float = 0.0  # of a layer in a step, besides its FLOPs
    start_seconds: float = 0.0  # of a training


def planned_runs(pipeline: Pipeline) -> dict[RunName, Experiment]:
    """Return the trainings of a scale: without the parsers if the treebank that they need is not here."""
    names = [run for run in all_runs(pipeline.config) if not (pipeline.absent_treebank and run.experiment == PARSER)]
    return {run: resolve(parts(pipeline.config, run)) for run in names}


def run_flops(run: Experiment) -> float:
    """Return the FLOPs of one training, with full batches of sentences of WMT's mean length."""
    from transformer.model.architectures import sketch  # here, as torch takes seconds

    lengths = mean_lengths(run.training.source_tokens, run.training.target_tokens)
    return run.training.steps * sketch(run.model).flops(lengths)


def run_hours(run: Experiment, speed: Speed) -> float:
    """Return the hours of one training on one GPU or core."""
    flops, model, training = run_flops(run), run.model, run.training
    if model.attention == "additive":
        pairs = SENTENCE * (training.source_tokens + 2 * training.target_tokens)
        flops += _ADDITIVE[speed.unit] * training.steps * pairs * model.N * model.h * model.d_k
    seconds = speed.start_seconds + training.steps * model.N * speed.layer_seconds + flops / speed.flops_per_second
    return seconds / 3600


def run_bytes(run: Experiment) -> int:
    """Return the bytes that one run keeps: states, the checkpoints to be averaged, and the average."""
    from transformer.model.architectures import sketch  # here, as above

    checkpoints = run.training.averaged_checkpoints + (run.training.patience or 0)
    copies = STATES * STATE + checkpoints + 1  # a link gives the last checkpoint its second name
    return copies * WEIGHT * sketch(run.model).parameter_count()


def gpu_speed(name: str, utilisation: float | None) -> Speed:
    """Return a GPU's speed, as given, measured or assumed, in this order. Raises InputError on a name not in GPUS."""
    if name not in GPUS:
        raise InputError(f"--gpu: expected one of {', '.join(GPUS)}, found {name}")
    newest = {}
    for benchmark in benchmarks():
        if re.search(rf"\b{name}\b", benchmark["hardware"].lower()):  # as a word: GH200 is another machine than H200
            newest[benchmark["label"]] = benchmark
    if utilisation is not None:
        flops, source = GPUS[name] * utilisation, f"{utilisation:.3g} of the {name}'s peak, as given."
    elif newest:
        slowest = min(newest.values(), key=sustained)
        origin = "{hardware} ({label}, {measured:.10}, commit {commit:.12})".format_map(slowest)
        flops, source = sustained(slowest), f"measured on {origin}."
    else:
        flops = GPUS[name] * _UTILISATION
        source = (
            f"{_UTILISATION:.0%} of the {name}'s peak of {GPUS[name] / 1e12:g} TFLOP/s, assumed from others' big model "
            f"on an A100; smaller models reach less.\nNothing was measured on this GPU: run `{_BENCHMARK}` on it."
        )
    return Speed("GPU", f"{name} GPU", flops, source)


def benchmarks() -> list[dict]:
    """Read the recorded benchmarks of training (benchmarks/train.py) that timed this project, the oldest first."""
    read = [read_json(path) for path in sorted(_BENCHMARKS.glob("train-*.json"))]
    return sorted((one for one in read if "ours" in one["systems"]), key=lambda one: one["measured"])


def sustained(benchmark: dict) -> float:
    """Return the FLOP/s that this project's training reached."""
    ours = benchmark["systems"]["ours"]
    return benchmark["matrix_flops_per_second"][ours["products"]] * ours["flops_utilisation"]


def text_bytes(pipeline: Pipeline, tasks: Collection[str], there: Path | None = None) -> int:
    """Return the bytes of these tasks' plain corpora, each file once, without those already in the folder `there`."""
    files = {file for task in tasks for file in files_of(pipeline.tasks[task])}
    absent = [corpus for corpus, side in files if not there or not (there / f"{corpus}.{side}").exists()]
    return sum(corpus_lines(pipeline.config, corpus) * LINE for corpus in absent)


def array_bytes(pipeline: Pipeline, tasks: Collection[str]) -> int:
    """Return the bytes of these tasks' tokenised training text, both sides, and of its token arrays."""
    lines = sum(training_lines(pipeline.config, pipeline.tasks[task]) for task in tasks)
    return lines * 2 * (TOKENISED + ID * TOKENS + OFFSET)


def training_lines(config: dict, task: dict) -> int:
    silver = task.get("silver", {})
    kept = round(silver.get("sentences", 0) * silver.get("keep", 1))
    return sum(corpus_lines(config, corpus) for corpus in task["train"]) + task.get("phrases", 0) + kept


def corpus_lines(config: dict, corpus: str) -> int:
    """Return a corpus's lines as config.yaml says, else an estimate from its files or its shares of downloads."""
    entry = config["corpora"][corpus]
    if "grammar" in entry:
        return entry["grammar"]["take"]
    if "lines" in entry:
        return entry["lines"]
    sharing = Counter(name for other in config["corpora"].values() for name in downloads_of(places_of(other).values()))
    files = list(places_of(entry).values())
    archived = sum((config["downloads"][name].get("size") or 0) / sharing[name] for name in downloads_of(files))
    here = [Path(file["path"]) for file in files if "path" in file]
    size = archived * UNPACKED + sum(path.stat().st_size for path in here if path.is_file())
    return -(-int(size) // LINE // max(1, len(entry.get("files", [1]))))
