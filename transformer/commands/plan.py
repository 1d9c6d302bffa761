"""The command `plan`: what a scale costs."""

from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeFloat, PositiveInt
from cyclopts.validators import Number
from tabulate import tabulate

from transformer.config.experiment import Experiment
from transformer.config.scales import RunName, downloads_of, sources
from transformer.config.settings import read
from transformer.model.cost import SENTENCE
from transformer.pipeline import plan as estimate
from transformer.pipeline.registry import TABLES, made
from transformer.pipeline.scale import Pipeline, names
from transformer.process import processors


def plan(
    *,
    config: list[str] | None = None,
    configfile: list[str] | None = None,
    gpu: str | None = None,
    gpus: PositiveInt = 1,
    utilisation: Annotated[float, Parameter(validator=Number(gt=0, lte=1))] | None = None,
    price: NonNegativeFloat | None = None,
) -> None:
    """Say what a scale costs before anything starts: hours, money, downloads and disk space.

        python -m transformer plan --config scale=paper --gpu h200 --gpus 8

    Args:
        config: KEY=VALUE, as Snakemake's
        configfile: YAML files, as Snakemake's
        gpu: b200, h200, h100, a100, l40s, a40, a10g, l4 or v100; if not given, this machine is timed
        gpus: how many there are
        utilisation: share of the GPU's peak
        price: of a GPU's hour, or a core's; config.yaml's if not given
    """
    pipeline = Pipeline(read(configfile or [], config or []))
    report, runs = pipeline.config["report"], estimate.planned_runs(pipeline)
    speed = estimate.gpu_speed(gpu.lower(), utilisation) if gpu else own_speed(pipeline, runs)
    units = processors() if speed.unit == "core" else gpus
    configured = report[f"{speed.unit.lower()}_hour"]
    if price is None and configured != "unknown":
        price = configured
    title = f"Scale {pipeline.name} on {units} {speed.name}{'s' if units > 1 else ''}"
    if price is not None:
        title += f", at {number(price)} {report['currency']} per {speed.unit}-hour"
    parts = [title, costs(pipeline, runs, speed, price), notes(pipeline, runs, speed, units), disk(pipeline, runs)]
    print("\n\n".join(parts))


def own_speed(pipeline: Pipeline, runs: dict[RunName, Experiment]) -> estimate.Speed:
    """Time a few steps of base, and of the model whose layers have the most FLOPs, on this machine."""
    from transformer.training.pace import measured  # loads PyTorch

    largest = max(runs.values(), key=lambda run: estimate.run_flops(run) / run.training.steps / run.model.N)
    return measured(runs[pipeline.base()], largest)


def costs(pipeline: Pipeline, runs: dict[RunName, Experiment], speed: estimate.Speed, price: float | None) -> str:
    """Return a row for each table, and one for all trainings, each once."""
    tables = {name: TABLES[name].runs(pipeline) for name in made(pipeline, TABLES)}
    rows = []
    for name, names_of_runs in {**tables, "all": runs}.items():
        trainings = [runs[run] for run in names_of_runs]
        flops = sum(map(estimate.run_flops, trainings))
        hours = sum(estimate.run_hours(run, speed) for run in trainings)
        row = {
            "": name,
            "runs": len(trainings),
            "steps": f"{sum(run.training.steps for run in trainings):,}",
            "FLOPs": f"{flops:.2e}".replace("e+", "e"),
            f"{speed.unit}-hours": number(hours),
            "disk": size(sum(map(estimate.run_bytes, trainings))),
        }
        if price is not None:
            row["cost"] = number(hours * price)
        if trainings:
            rows.append(row)
    sides = ["left", *["right"] * (len(rows[0]) - 1)]
    return tabulate(rows, headers="keys", tablefmt="simple", disable_numparse=True, colalign=sides)


def notes(pipeline: Pipeline, runs: dict[RunName, Experiment], speed: estimate.Speed, units: int) -> str:
    """Return the notes under the table."""
    hours = {run: estimate.run_hours(experiment, speed) for run, experiment in runs.items()}
    longest = max(hours, key=hours.get)
    lines = [
        f"Speed: {speed.source}",
        f"The longest training, {names([longest])[0]}, takes {number(hours[longest])} h on one {speed.unit}; "
        f"all on {units}, {number(sum(hours.values()) / units)} h at best.",
        "Tables share runs: `all` trains each once.",
        f"Batches count as full on both sides, and sentences as {SENTENCE} tokens: most trainings need less.",
        "Only training is counted: preparing, translating and scoring come on top.",
    ]
    if folder := pipeline.absent_treebank:
        lines.append(f"`all` leaves out table4: no folder {folder} with the Penn Treebank.")
    return "\n".join(lines)


def disk(pipeline: Pipeline, runs: dict[RunName, Experiment]) -> str:
    """Return the most that lies on the disk, item by item."""
    tasks = {run.task for run in runs}
    needed = downloads_of(sources(pipeline.config, tasks))
    downloads = {name: pipeline.config["downloads"][name].get("size") for name in sorted(needed)}
    items = {
        "downloads": sum(filter(None, downloads.values())),
        "plain text": estimate.text_bytes(pipeline, tasks),
        "prepared text": estimate.array_bytes(pipeline, tasks),
        "trainings": sum(map(estimate.run_bytes, runs.values())),
    }
    rows = [(name, size(count)) for name, count in {"disk, at most": sum(items.values()), **items}.items()]
    lines = tabulate(rows, tablefmt="plain", disable_numparse=True, colalign=["left", "right"])
    unknown = [name for name, count in downloads.items() if count is None]
    return f"{lines}\nNot counted, as their size is not known: {', '.join(unknown)}" if unknown else lines


def number(value: float) -> str:
    """Return a number with three digits, or with all of those before the point."""
    if 0 < value < 0.001:
        return "<0.001"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def size(count: float) -> str:
    """Return bytes in GB or MB of powers of ten."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"
