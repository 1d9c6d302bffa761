"""The command `plan`: the estimated cost of a scale in FLOPs, hours, money and disk space."""

import re
import time
from collections import Counter
from collections.abc import Collection
from itertools import chain
from pathlib import Path
from typing import Annotated, NamedTuple

from cyclopts import Parameter
from cyclopts.types import NonNegativeFloat, PositiveInt
from cyclopts.validators import Number
from tabulate import tabulate

from transformer.config.experiment import Experiment
from transformer.config.scales import PARSER, RunName
from transformer.config.schema import Config, ParsingTask, TranslationTask
from transformer.config.settings import read
from transformer.model.cost import SENTENCE, mean_lengths
from transformer.pipeline.registry import TABLES, analysed_runs, made, settings_of
from transformer.pipeline.scale import Pipeline
from transformer.process import processors
from transformer.storage import provenance
from transformer.storage.files import InputError
from transformer.storage.records import read_json

_BENCHMARKS = Path("benchmarks/results")  # in the project's folder
_WEIGHT = 4  # bytes of float32
_STATE = 3  # copies in a resume state: the weights and Adam's two moments
_STATES = 2  # number of resume states that a run keeps (training/states.py)
# Rounded up, for a line of WMT: its bytes, its bytes when tokenised, and its tokens. Last: text size over archive size.
_LINE_BYTES, _TOKENISED_BYTES, _LINE_TOKENS, _UNPACKED = 180, 200, 30, 3
_ID_BYTES, _OFFSET_BYTES = 2, 8  # bytes in the token arrays (data/corpus.py)

# Peak FLOP/s of dense matrix products in bfloat16. A V100 has no bfloat16, so its number is for float32.
# From NVIDIA's data sheets: SXM if there are several versions, and half of each figure "with sparsity".
_GPUS = {
    "b200": 2250e12,
    "h200": 989e12,
    "h100": 989e12,
    "a100": 312e12,
    "l40s": 362e12,
    "a40": 149.7e12,
    "a10g": 70e12,  # from AWS
    "l4": 121e12,
    "v100": 15.7e12,
}
# The big model reached this share of the peak on one A100, with 82,059 tokens per second in mixed precision (README of
# NVIDIA/DeepLearningExamples, PyTorch/Translation/Transformer). Eight A100s reached 42 % in MLPerf v0.7.
_UTILISATION = 0.33
# FLOPs of matrix products in the time of one tanh(q + k) of additive attention. The CPU's number was measured for the
# record. The GPU's is an estimate: about 20 memory transfers of four bytes, and 70 FLOPs per byte.
_ADDITIVE = {"GPU": 6000, "core": 700}


_FORWARDS = 3  # FLOPs of a training step in forward passes: the backward pass has twice the products


class _Speed(NamedTuple):
    """The speed of a GPU or of a CPU core, and its source."""

    unit: str  # GPU or core
    name: str
    flops_per_second: float
    source: str
    layer_seconds: float = 0.0  # fixed time of a layer in a step, in addition to its FLOPs
    start_seconds: float = 0.0  # fixed time of a training
    others: dict[str, "_Speed"] | None = None  # speeds of architectures other than base's; None if none was timed


def plan(
    *,
    config: list[str] | None = None,
    configfile: list[str] | None = None,
    gpu: str | None = None,
    gpus: PositiveInt | None = None,
    utilisation: Annotated[float, Parameter(validator=Number(gt=0, lte=1))] | None = None,
    price: NonNegativeFloat | None = None,
) -> None:
    """Estimate the cost of a scale before you run it: hours, money, downloads and disk space.

        python -m transformer plan --config scale=paper --gpu h200 --gpus 8

    Args:
        config: settings as KEY=VALUE, like Snakemake's --config
        configfile: YAML files, like Snakemake's --configfile
        gpu: b200, h200, h100, a100, l40s, a40, a10g, l4 or v100; default: time this machine
        gpus: number of GPUs; default: 1
        utilisation: sustained share of the GPU's peak speed, from 0 to 1
        price: price of one GPU-hour or core-hour; default: the price in config.yaml
    """
    if utilisation is not None and gpu is None:
        raise InputError("--utilisation: goes with --gpu")
    if gpus and gpu is None and not _has_gpu():
        raise InputError("--gpus: goes with --gpu, because this machine has no GPU")
    pipeline = Pipeline(read(configfile or [], config or []))
    report, runs = pipeline.config.report, planned_runs(pipeline)
    speed = _gpu_speed(gpu.lower(), utilisation) if gpu else _own_speeds(runs[pipeline.base()], runs.values())
    units = processors() if speed.unit == "core" else gpus or 1
    configured = report.core_hour if speed.unit == "core" else report.gpu_hour
    if price is None and configured != "unknown":
        price = configured
    at = "" if price is None else f", at {_rounded(price)} {report.currency} per {speed.unit}-hour"
    title = f"Scale {pipeline.name} on {units} {speed.name}{'s' if units > 1 else ''}{at}"
    table, notes = _costs(pipeline, runs, speed, price), _notes(pipeline, runs, speed, units)
    print(title, table, notes, _disk(pipeline, runs), sep="\n\n")


def planned_runs(pipeline: Pipeline) -> dict[RunName, Experiment]:
    """Return the trainings of a scale. Omit the parsers if their treebank is missing."""
    names = [run for run in pipeline.all_runs() if not (pipeline.absent_treebank and run.experiment == PARSER)]
    return {run: pipeline.experiment(run) for run in names}


def _run_flops(run: Experiment) -> float:
    """Return the FLOPs of one training. Batches are full, and all sentences have WMT's mean length."""
    return run.training.steps * _step_flops(run)


def _step_flops(run: Experiment) -> float:
    from transformer.model.architectures import sketch  # a late import, because torch takes seconds to load

    return sketch(run.model).flops(mean_lengths(run.training.source_tokens, run.training.target_tokens))


def _run_hours(run: Experiment, speed: _Speed) -> float:
    """Return the hours of one training on one GPU or core."""
    flops, model, training = _run_flops(run), run.model, run.training
    speed = (speed.others or {}).get(model.architecture, speed)
    if model.attention == "additive":
        pairs = SENTENCE * (training.source_tokens + 2 * training.target_tokens)
        flops += _ADDITIVE[speed.unit] * training.steps * pairs * model.N * model.h * model.d_k
    seconds = speed.start_seconds + training.steps * model.N * speed.layer_seconds + flops / speed.flops_per_second
    return seconds / 3600


def _masking_hours(pipeline: Pipeline, speed: _Speed) -> float:
    """Return the hours of the analysis `heads`, which grow with the square of the number of heads.

    For each of three kinds of attention, every choice of the next masked head tries all heads that are left.
    """
    hours = 0.0
    for name in analysed_runs(pipeline, "heads"):
        run, settings = pipeline.experiment(name), settings_of(pipeline, "heads")
        lines = _corpus_lines(pipeline.config, pipeline.tasks[name.task].dev)
        heads = run.model.N * run.model.h
        sentences = 3 * heads * (heads + 1) / 2 * min(settings["choose"], lines)
        sentences += 6 * heads * min(settings["sentences"], lines)  # with each head masked, and after each choice
        flops = _step_flops(run) / _FORWARDS * SENTENCE / run.training.source_tokens * sentences
        hours += flops / speed.flops_per_second / 3600
    return hours


def _gpu_speed(name: str, utilisation: float | None) -> _Speed:
    """Return a GPU's speed: by --utilisation, else by a benchmark, else by assumption. Raises InputError."""
    if name not in _GPUS:
        raise InputError(f"--gpu: expected one of {', '.join(_GPUS)}, found {name}")
    if utilisation is not None:
        flops, source = _GPUS[name] * utilisation, f"{utilisation:.3g} of the {name}'s peak, from --utilisation."
    elif measured := _read_benchmarks(name):
        slowest = min(measured, key=_sustained)
        flops = _sustained(slowest)
        source = "measured on {hardware} ({label}, {measured:.10}, commit {commit:.12}).".format_map(slowest)
    else:
        flops, peak = _GPUS[name] * _UTILISATION, f"{name}'s peak of {_GPUS[name] / 1e12:g} TFLOP/s"
        source = (
            f"{_UTILISATION:.0%} of the {peak}, assumed from a big model on an A100; smaller models reach less.\n"
            "There is no benchmark of this GPU: run `python -m benchmarks.train --model base` on it."
        )
    return _Speed("GPU", f"{name} GPU", flops, source)


def _read_benchmarks(name: str) -> list[dict]:
    """Return the newest training benchmark of this project (benchmarks/train.py) for each model on a GPU."""
    read = [read_json(path) for path in sorted(_BENCHMARKS.glob("train-*.json"))]
    found = [one for one in read if "ours" in one["systems"] and re.search(rf"\b{name}\b", one["hardware"].lower())]
    return list({one["label"]: one for one in sorted(found, key=lambda one: one["measured"])}.values())


def _sustained(benchmark: dict) -> float:
    """Return the sustained FLOP/s of this project's training in a benchmark."""
    ours = benchmark["systems"]["ours"]
    return benchmark["matrix_flops_per_second"][ours["products"]] * ours["flops_utilisation"]


def _own_speeds(base: Experiment, runs: Collection[Experiment]) -> _Speed:
    """Return this machine's speed for base, with its speeds for the other architectures."""
    kinds = {run.model.architecture: run for run in runs}
    alike = (run for run in runs if run.model.architecture == base.model.architecture)
    speed = _own_speed(base, max(alike, key=lambda run: _step_flops(run) / run.model.N))
    kinds.pop(base.model.architecture)
    others = {kind: _own_speed(run, run)._replace(start_seconds=speed.start_seconds) for kind, run in kinds.items()}
    source = "\n".join([speed.source, *(f"Speed of {kind}: {other.source}" for kind, other in others.items())])
    return speed._replace(source=source, others=others)


def _has_gpu() -> bool:
    from transformer.device import best_device  # a late import, because torch takes seconds to load

    return best_device().type != "cpu"


def _own_speed(base: Experiment, largest: Experiment) -> _Speed:
    """Return this machine's speed, from timed steps of base and of the model with the largest FLOPs per layer.

    The seconds of a layer are a linear function of its FLOPs. The two models determine this function.
    """
    from transformer.device import best_device, use_threads  # a late import, because torch takes seconds to load
    from transformer.training.benchmark import MOST_FLOPS, time_step

    device = best_device()
    use_threads(1)
    start = time.process_time()  # a training needs as much start-up time as this process
    share = min(1.0, MOST_FLOPS[device.type] / _step_flops(base))
    flops, seconds = share * _step_flops(base) / base.model.N, time_step(base, share, device) / base.model.N
    rate, overhead = flops / seconds, 0.0
    whole = max(_step_flops(base), _step_flops(largest)) <= MOST_FLOPS[device.type]
    more = _step_flops(largest) / largest.model.N
    if whole and more > 1.5 * flops:
        longer = time_step(largest, 1.0, device) / largest.model.N
        rate = (more - flops) / max(longer - seconds, longer / 2)
        overhead = max(0.0, seconds - flops / rate)
    source = f"measured now on {provenance.hardware(device)}: a step of {base.experiment} takes "
    source += f"{seconds * base.model.N:.3g} s" + ("." if whole else f", timed with {share:.2g} of its batch.")
    unit = "core" if device.type == "cpu" else "GPU"
    return _Speed(unit, "core" if unit == "core" else "GPU of this machine", rate, source, overhead, start)


def run_bytes(run: Experiment) -> int:
    """Return the bytes that one run keeps: resume states, checkpoints for the average, and the average."""
    from transformer.model.architectures import sketch  # a late import, because torch takes seconds to load

    checkpoints = run.training.averaged_checkpoints + (run.training.patience or 0)
    copies = _STATES * _STATE + checkpoints + 1  # last.safetensors is a link and takes no space
    return copies * _WEIGHT * sketch(run.model).parameter_count()


def text_bytes(pipeline: Pipeline, tasks: Collection[str], there: Path | None = None) -> int:
    """Return the bytes of these tasks' plain corpora. Count each file once; skip files in the folder `there`."""
    files = {file[1:] for task in tasks for file in pipeline.tasks[task].files()}
    absent = [corpus for corpus, side in files if not there or not (there / f"{corpus}.{side}").exists()]
    return sum(_corpus_lines(pipeline.config, corpus) * _LINE_BYTES for corpus in absent)


def array_bytes(pipeline: Pipeline, tasks: Collection[str]) -> int:
    """Return the bytes of these tasks' tokenised training text and token arrays, for both sides."""
    lines = sum(_training_lines(pipeline.config, pipeline.tasks[task]) for task in tasks)
    return lines * 2 * (_TOKENISED_BYTES + _ID_BYTES * _LINE_TOKENS + _OFFSET_BYTES)


def _training_lines(config: Config, task: TranslationTask | ParsingTask) -> int:
    lines = sum(_corpus_lines(config, corpus) for corpus in task.train)
    if task.parses:
        made = task.silver and task.silver.sentences
        lines += (task.phrases or 0) + (round(made * task.silver.keep) if made else 0)
    return lines


def _corpus_lines(config: Config, corpus: str) -> int:
    """Return a corpus's number of lines in config.yaml, else an estimate from its files or its share of downloads."""
    entry = config.corpora[corpus]
    if entry.grammar or entry.lines:
        return entry.grammar.take if entry.grammar else entry.lines
    # The corpora with files in an archive share its size.
    downloads = {
        name: {source.download for source in other.sources().values() if source.download}
        for name, other in config.corpora.items()
    }
    sharing = Counter(chain.from_iterable(downloads.values()))
    archived = sum((config.downloads[name].size or 0) / sharing[name] for name in downloads[corpus])
    here = [Path(source.path) for source in entry.sources().values() if source.path]
    size = archived * _UNPACKED + sum(path.stat().st_size for path in here if path.is_file())
    return -(-int(size) // _LINE_BYTES // len(entry.sources()))


def _costs(pipeline: Pipeline, runs: dict[RunName, Experiment], speed: _Speed, price: float | None) -> str:
    """Return the cost table: a row for each table, and a row that counts every training once."""
    tables = {name: TABLES[name].runs(pipeline) for name in made(pipeline, TABLES)}
    rows = []
    for name, names_of_runs in {**tables, "all": runs}.items():
        trainings = [runs[run] for run in names_of_runs]
        hours = sum(_run_hours(run, speed) for run in trainings)
        row = {
            "": name,
            "runs": len(trainings),
            "steps": f"{sum(run.training.steps for run in trainings):,}",
            "FLOPs": f"{sum(map(_run_flops, trainings)):.2e}".replace("e+", "e"),
            f"{speed.unit}-hours": _rounded(hours),
            "disk": _size(sum(map(run_bytes, trainings))),
        }
        if trainings:
            rows.append(row | ({} if price is None else {"cost": _rounded(hours * price)}))
    sides = ["left", *["right"] * (len(rows[0]) - 1)]
    return tabulate(rows, headers="keys", tablefmt="simple", disable_numparse=True, colalign=sides)


def _notes(pipeline: Pipeline, runs: dict[RunName, Experiment], speed: _Speed, units: int) -> str:
    hours = {run: _run_hours(experiment, speed) for run, experiment in runs.items()}
    longest = max(hours, key=hours.get)
    lines = [
        f"Speed: {speed.source}",
        f"The longest training, {longest}, takes {_rounded(hours[longest])} h on one {speed.unit}; "
        f"all trainings on {units} take {_rounded(sum(hours.values()) / units)} h or more.",
        "Tables share runs: `all` counts each run once.",
        f"Assumption: full batches on both sides, and {SENTENCE} tokens per sentence. Most trainings need less.",
        "The hours include only training, not preprocessing, translation, analyses and scoring.",
    ]
    if masking := _masking_hours(pipeline, speed):
        lines.append(
            f"The longest analysis, `heads` of Table 5, takes about {_rounded(masking)} {speed.unit}-hours more."
        )
    if speed.others is None and (rows := {run.experiment for run in runs.values() if run.model.architecture == "lstm"}):
        lines.append(f"Hours of {', '.join(sorted(rows))} are too low: an LSTM processes a sequence step by step.")
    if folder := pipeline.absent_treebank:
        lines.append(f"`all` leaves out table4: no folder {folder} with the Penn Treebank.")
    return "\n".join(lines)


def _disk(pipeline: Pipeline, runs: dict[RunName, Experiment]) -> str:
    """Return the maximum disk space, in total and by item."""
    tasks = {run.task for run in runs}
    downloads = {name: entry.size for name, entry in sorted(pipeline.downloads(tasks).items())}
    items = {
        "downloads": sum(filter(None, downloads.values())),
        "plain text": text_bytes(pipeline, tasks),
        "prepared text": array_bytes(pipeline, tasks),
        "trainings": sum(map(run_bytes, runs.values())),
    }
    rows = [(name, _size(count)) for name, count in {"disk, maximum": sum(items.values()), **items}.items()]
    lines = tabulate(rows, tablefmt="plain", disable_numparse=True, colalign=["left", "right"])
    unknown = [name for name, count in downloads.items() if count is None]
    return f"{lines}\nNot included, because the size is unknown: {', '.join(unknown)}" if unknown else lines


def _rounded(value: float) -> str:
    """Format a number with three significant digits, or from 100 as a whole number."""
    if 0 < value < 0.001:
        return "<0.001"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _size(count: float) -> str:
    """Format bytes as decimal GB or MB."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"
