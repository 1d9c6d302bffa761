"""The command `plan`: what a scale costs."""

import os
from collections.abc import Collection
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeFloat, PositiveInt
from cyclopts.validators import Number
from tabulate import tabulate

from transformer.config.scales import RunName
from transformer.config.settings import read
from transformer.pipeline import Pipeline, names
from transformer.plan import (
    LINE,
    SENTENCE,
    STATES,
    TOKENISED,
    TOKENS,
    UNPACKED,
    Plan,
    array_bytes,
    core_speed,
    download_sizes,
    gpu_speed,
    make_plan,
    run_bytes,
    text_bytes,
)

_Utilisation = Annotated[float, Parameter(validator=Number(gt=0, lte=1))]
_PRICE = {"GPU": "gpu_hour", "core": "core_hour"}  # the key of a unit's price in config.yaml's report


def plan(
    *,
    config: list[str] | None = None,
    configfile: list[str] | None = None,
    gpu: str | None = None,
    gpus: PositiveInt = 1,
    utilisation: _Utilisation | None = None,
    price: NonNegativeFloat | None = None,
) -> None:
    """Say what a scale costs before anything starts: hours, money, downloads and disk space.

        python -m transformer plan --config scale=paper --gpu h200 --gpus 8
        python -m transformer plan --configfile mine.yaml --config scale=mine

    Reads config.yaml, --configfile and --config as Snakemake does. Trains, fetches and writes nothing.

    Args:
        config: KEY=VALUE, as Snakemake's
        configfile: YAML files, as Snakemake's
        gpu: b200, h200, h100, a100, l40s, a40, a10g, l4 or v100; this machine's cores if not given
        gpus: how many there are
        utilisation: share of the GPU's peak
        price: of a GPU's hour, or a core's; config.yaml's if not given
    """
    pipeline = Pipeline(read(configfile or [], config or []))
    speed = gpu_speed(gpu.lower(), utilisation) if gpu else core_speed()
    planned = make_plan(pipeline, speed, gpus if gpu else len(os.sched_getaffinity(0)))
    report = pipeline.config["report"]
    configured = report[_PRICE[speed.unit]]
    price = configured if price is None and configured != "unknown" else price
    title = f"Scale {pipeline.name} on {planned.units} {speed.name}{'s' if planned.units > 1 else ''}"
    if price is not None:
        title += f", at {number(price)} {report['currency']} per {speed.unit}-hour"
    print("\n\n".join([title, costs(planned, price), notes(planned), disk(planned)]))


def costs(planned: Plan, price: float | None) -> str:
    """Return a row for each table, and one for all trainings, each once."""
    rows = [cost(planned, name, runs, price) for name, runs in {**planned.tables, "all": list(planned.runs)}.items()]
    sides = ["left", *["right"] * (len(rows[0]) - 1)]
    return tabulate(rows, headers="keys", tablefmt="simple", disable_numparse=True, colalign=sides)


def cost(planned: Plan, name: str, runs: Collection[RunName], price: float | None) -> dict[str, str]:
    hours = planned.hours(runs)
    cells = {
        "": name,
        "runs": str(len(runs)),
        "steps": f"{planned.steps(runs):,}",
        "FLOPs": f"{planned.flops(runs):.2e}".replace("e+", "e"),
        f"{planned.speed.unit}-hours": number(hours),
        "disk": size(planned.disk(runs)),
    }
    return cells | ({} if price is None else {"cost": number(hours * price)})


def notes(planned: Plan) -> str:
    """Return the notes under the table."""
    longest = max(planned.runs, key=lambda run: planned.hours([run]))
    together = _duration(planned.hours(planned.runs) / planned.units)
    lines = [
        f"Speed: {planned.speed.source}",
        f"The longest training, {names([longest])[0]}, takes {_duration(planned.hours([longest]))} on one "
        f"{planned.speed.unit}; all on {planned.units}, {together} at best.",
        "Tables share runs: `all` trains each once.",
        f"Batches count as full on both sides, and sentences as {SENTENCE} tokens: most trainings need less.",
        "Only training is counted: preparing, translating and scoring come on top.",
    ]
    if planned.pipeline.absent_treebank:
        folder = planned.pipeline.absent_treebank
        lines.append(f"`all` leaves out table4: no folder {folder} with the Penn Treebank.")
    return "\n".join(lines)


def disk(planned: Plan) -> str:
    """Return the most that lies on the disk, item by item."""
    tasks = {run.task for run in planned.runs}
    downloads = download_sizes(planned.pipeline.config, tasks)
    unknown = [name for name, count in downloads.items() if count is None]
    each = [run_bytes(run) for run in planned.runs.values()]
    uncounted = f"; of unknown size and not counted: {', '.join(unknown)}" if unknown else ""
    items = {
        "downloads": (sum(filter(None, downloads.values())), f"{len(downloads)} files{uncounted}"),
        "plain text": (
            text_bytes(planned.pipeline, tasks),
            f"about {LINE} bytes a line; {UNPACKED} times the download if the lines are not known",
        ),
        "prepared text": (
            array_bytes(planned.pipeline, tasks),
            f"about {TOKENISED} bytes a line tokenised, and {TOKENS} tokens a line in arrays",
        ),
        "trainings": (
            sum(each),
            f"{size(min(each))} to {size(max(each))} each: {STATES} states, checkpoints to be averaged, the average",
        ),
    }
    total = sum(count for count, _ in items.values())
    lines = [("disk, at most", size(total), ""), *((name, size(count), why) for name, (count, why) in items.items())]
    return tabulate(lines, tablefmt="plain", disable_numparse=True, colalign=["left", "right", "left"])


def number(value: float) -> str:
    """Return a number with three digits, or with all of those before the point."""
    if 0 < value < 0.001:
        return "<0.001"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _duration(hours: float) -> str:
    """Return hours in the unit that suits: seconds, minutes, hours or days."""
    for unit, length, least in (("days", 24, 48), ("h", 1, 1), ("min", 1 / 60, 1 / 60)):
        if hours >= least:
            return f"{hours / length:,.1f} {unit}"
    return f"{hours * 3600:.0f} s"


def size(count: float) -> str:
    """Return bytes in GB or MB of powers of ten."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"
