"""The cost of a scale before anything starts: FLOPs, hours of one GPU or core, and disk space."""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypedDict

from transformer.config.experiment import Experiment, resolve
from transformer.config.scales import PARSER, RunName, all_runs, downloads_of, files_of, parts, places_of, sources
from transformer.files import InputError
from transformer.model.cost import Lengths, parameters, training_flops
from transformer.pipeline import Pipeline
from transformer.records import Above0, read_json
from transformer.registry import TABLES, made

_BENCHMARKS = Path("benchmarks/results")  # in the project's folder
_BENCHMARK = "python -m benchmarks.train --model base"
SENTENCE = 30  # tokens, of WMT's mean sentence
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


class Ours(TypedDict):
    """This project's training in a benchmark."""

    products: str  # the type that matrices are multiplied in
    flops_utilisation: Above0


class Systems(TypedDict):
    """The systems of a benchmark."""

    ours: NotRequired[Ours]


class _Benchmark(TypedDict):
    """A measured training, as benchmarks/train.py writes it."""

    label: str
    measured: str
    commit: str
    hardware: str
    matrix_flops_per_second: dict[str, Above0]
    systems: Systems


@dataclass(frozen=True)
class Speed:
    """The speed of one unit, which is a GPU or a processor core, and where the number comes from."""

    unit: str
    name: str
    flops_per_second: float
    source: str


@dataclass(frozen=True)
class Plan:
    """The runs of a scale, by table, and the speed of the machine that trains them."""

    pipeline: Pipeline
    runs: dict[RunName, Experiment]
    tables: dict[str, list[RunName]]
    speed: Speed
    units: int  # GPUs or cores

    def steps(self, runs: Collection[RunName]) -> int:
        """Return the steps of these trainings."""
        return sum(self.runs[run].training.steps for run in runs)

    def flops(self, runs: Collection[RunName]) -> float:
        """Return their FLOPs, with full batches of sentences of WMT's mean length."""
        return sum(_run_flops(self.runs[run]) for run in runs)

    def hours(self, runs: Collection[RunName]) -> float:
        """Return the hours of one GPU, or of one core, that they take."""
        return self.flops(runs) / self.speed.flops_per_second / 3600

    def disk(self, runs: Collection[RunName]) -> int:
        """Return the bytes that they keep: states, the checkpoints to be averaged, and the average."""
        return sum(run_bytes(self.runs[run]) for run in runs)


def make_plan(pipeline: Pipeline, speed: Speed, units: int) -> Plan:
    """Return the plan of a scale on `units` GPUs or cores."""
    absent = pipeline.absent_treebank
    names = [run for run in all_runs(pipeline.config) if not (absent and run.experiment == PARSER)]
    runs = {run: resolve(parts(pipeline.config, run)) for run in names}
    tables = {name: TABLES[name].runs(pipeline) for name in made(pipeline, TABLES)}
    return Plan(pipeline, runs, {name: of_table for name, of_table in tables.items() if of_table}, speed, units)


def _run_flops(run: Experiment) -> float:
    """Return the FLOPs of one training."""
    source, target = run.training.source_tokens, run.training.target_tokens
    lengths = Lengths(source, target, SENTENCE * source, SENTENCE * target, SENTENCE * target)
    return run.training.steps * training_flops(run.model, lengths)


def run_bytes(run: Experiment) -> int:
    """Return the bytes that one run keeps; a link gives the last checkpoint its second name."""
    copies = STATES * STATE + run.training.averaged_checkpoints + 1
    return copies * WEIGHT * parameters(run.model)


# ------------------------------------------------------------------ speed


def gpu_speed(name: str, utilisation: float | None) -> Speed:
    """Return the speed of a GPU: by a given utilisation, else as measured, else as assumed.

    Raises InputError on a name that GPUS lacks.
    """
    if name not in GPUS:
        raise InputError(f"--gpu: expected one of {', '.join(GPUS)}, found {name}")
    if utilisation is not None:
        return Speed(
            "GPU", f"{name} GPU", GPUS[name] * utilisation, f"{utilisation:.3g} of the {name}'s peak, as given."
        )
    # As a word: GH200 is another machine than H200.
    measured = [one for one in benchmarks() if re.search(rf"\b{name}\b", one["hardware"].lower())]
    if measured:
        newest = {one["label"]: one for one in sorted(measured, key=lambda one: one["measured"])}.values()
        slowest = min(newest, key=sustained)
        return Speed("GPU", f"{name} GPU", sustained(slowest), f"measured on {_benchmark_origin(slowest)}.")
    source = (
        f"{_UTILISATION:.0%} of the {name}'s peak of {GPUS[name] / 1e12:g} TFLOP/s, assumed from others' big model on "
        f"an A100; smaller models reach less.\nNothing was measured on this GPU: run `{_BENCHMARK}` on it."
    )
    return Speed("GPU", f"{name} GPU", GPUS[name] * _UTILISATION, source)


def core_speed() -> Speed:
    """Return the speed of a processor core by the newest benchmark. Raises InputError if there is none."""
    measured = [one for one in benchmarks() if cores(one)]
    if not measured:
        raise InputError(f"{_BENCHMARKS}: no benchmark of a processor: name a GPU (--gpu), or measure ({_BENCHMARK})")
    newest = max(measured, key=lambda one: one["measured"])
    source = f"measured on {_benchmark_origin(newest)}.\nOther processors, and smaller models, differ."
    return Speed("core", "core", sustained(newest) / cores(newest), source)


def benchmarks() -> list[_Benchmark]:
    """Read the recorded benchmarks of training that timed this project."""
    read = [read_json(path, _Benchmark) for path in sorted(_BENCHMARKS.glob("train-*.json"))]
    return [one for one in read if "ours" in one["systems"]]


def sustained(benchmark: _Benchmark) -> float:
    """Return the FLOP/s that this project's training reached."""
    ours = benchmark["systems"]["ours"]
    return benchmark["matrix_flops_per_second"][ours["products"]] * ours["flops_utilisation"]


def cores(benchmark: _Benchmark) -> int:
    """Return the number of processor cores of a benchmark; 0 if it ran on a GPU."""
    match = re.search(r", (\d+) of \d+ cores$", benchmark["hardware"])
    return int(match[1]) if match else 0


def _benchmark_origin(benchmark: _Benchmark) -> str:
    """Return hardware, model, date and commit of a benchmark."""
    about = f"{benchmark['label']}, {benchmark['measured'][:10]}, commit {benchmark['commit'][:12]}"
    return f"{benchmark['hardware']} ({about})"


# ------------------------------------------------------------------ disk


def download_sizes(config: dict, tasks: Collection[str]) -> dict[str, int | None]:
    """Return the downloads of these tasks with their bytes, None for those that config.yaml has no size of."""
    return {name: config["downloads"][name].get("size") for name in sorted(downloads_of(sources(config, tasks)))}


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
    """Return the number of lines that a task learns from."""
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
