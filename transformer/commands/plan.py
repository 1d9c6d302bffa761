"""Say what a scale costs before anything starts: hours, money, downloads and disk space.

    python -m transformer plan --config scale=paper --gpu h200 --gpus 8
    python -m transformer plan --config scale=paper --gpu a100 --price 1.5
    python -m transformer plan --configfile mine.yaml --config scale=mine

Reads config.yaml, --configfile and --config as Snakemake does. Without --gpu it plans for this machine's cores. Trains,
fetches and writes nothing.
"""

import argparse
import os
from collections.abc import Collection

from tabulate import tabulate

from transformer.commandline import positive, stage_parser
from transformer.config import settings
from transformer.plan import speed, storage
from transformer.plan.plan import SENTENCE, Plan, make_plan

UTILISATION = "of the GPU's peak, or without --gpu of what bare products reach; above 0 and at most 1"
PRICE = {"GPU": "gpu_hour", "core": "core_hour"}  # the key of a unit's price in config.yaml's report
BATCHES = f"""\
Batches count as full on both sides, and sentences as {SENTENCE} tokens: most trainings need less.
Only training is counted: preparing, translating and scoring come on top."""


def main(argv: list[str] | None = None) -> None:
    """Print the plan."""
    args = parse(argv)
    config = settings.read(args.configfile, args.config)
    if args.gpu:
        unit_speed, units = speed.gpu_speed(args.gpu, args.utilisation), args.gpus or 1
    else:
        unit_speed, units = speed.core_speed(args.utilisation), len(os.sched_getaffinity(0))
    configured = config["report"][PRICE[unit_speed.unit]]
    price = args.price if args.price is not None or configured == "unknown" else configured
    print(page(make_plan(config, unit_speed, units), config, price))


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = stage_parser("plan", __doc__)
    parser.add_argument("--config", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help="as Snakemake's")
    parser.add_argument("--configfile", nargs="+", action="extend", default=[], metavar="YAML", help="as Snakemake's")
    parser.add_argument(
        "--gpu", type=str.lower, metavar="NAME", help=f"{', '.join(speed.GPUS)}; this machine's cores if not given"
    )
    parser.add_argument("--gpus", type=positive, metavar="COUNT", help="how many there are; 1 if not given")
    parser.add_argument("--utilisation", type=share, metavar="SHARE", help=UTILISATION)
    parser.add_argument("--price", type=amount, help="of a GPU's hour, or a core's; config.yaml's if not given")
    args = parser.parse_args(argv)
    if args.gpus and not args.gpu:
        parser.error("--gpus: expected --gpu, too")
    return args


def share(text: str) -> float:
    """Return an argument that is above 0 and at most 1."""
    if not 0 < (value := amount(text)) <= 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0 and at most 1, found {text}")
    return value


def amount(text: str) -> float:
    """Return an argument that is a finite number of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, found {text}")
    return value


def page(plan: Plan, config: dict, price: float | None) -> str:
    """Return all that is printed."""
    unit = plan.speed.unit
    title = f"Scale {config['scale']} on {plan.units} {plan.speed.name}{'s' if plan.units > 1 else ''}"
    if price is not None:
        title += f", at {number(price)} {config['report']['currency']} per {unit}-hour"
    return "\n\n".join([title, table(plan, price), notes(plan), disk(plan, config)])


def table(plan: Plan, price: float | None) -> str:
    """Return a row for each table, for the figures that need trainings, and for all."""
    rows = [row(plan, name, runs, price, len(plan.shared(name))) for name, runs in plan.tables.items()]
    rows += [row(plan, name, runs, price, len(runs)) for name, runs in plan.figures.items()]
    rows.append(row(plan, "all", plan.all, price, 0))
    sides = ["left", *["right"] * (len(rows[-1]) - 1)]
    return tabulate(rows, headers="keys", tablefmt="simple", disable_numparse=True, colalign=sides)


def row(plan: Plan, name: str, runs: Collection, price: float | None, shared: int) -> dict[str, str]:
    """Return the cells of one row by column; Table 1 has no runs."""
    if not runs:
        return {"": name, "runs": "0"}
    hours = plan.hours(runs)
    cells = {
        "": name,
        "runs": str(len(runs)),
        "shared": str(shared or ""),
        "steps": f"{plan.steps(runs):,}",
        "FLOPs": f"{plan.flops(runs):.2e}".replace("e+", "e"),
        f"{plan.speed.unit}-hours": number(hours),
        "wall time": duration(plan.wall(runs)),
        "disk": size(plan.disk(runs)),
    }
    return cells | ({} if price is None else {"cost": number(hours * price)})


def notes(plan: Plan) -> str:
    """Return how to read the table."""
    lines = [
        f"Speed: {plan.speed.source}",
        f"Wall time: {wall(plan)}",
        "Shared runs belong to another row, too: `all` trains each run once.",
    ]
    if plan.absent:
        lines.append(f"`all` leaves out table4: no folder {plan.absent} with the Penn Treebank.")
    return "\n".join([*lines, BATCHES])


def wall(plan: Plan) -> str:
    """Return how runs are spread over GPUs or cores."""
    if plan.speed.unit != "GPU" or plan.units == 1:
        return "trainings one after another; side by side they take as long together."
    longest = max(plan.all, key=lambda run: plan.hours([run]))
    return (
        f"each training on one GPU, {plan.units} at a time, as a cluster runs them.\n"
        f"The longest, {'/'.join(map(str, longest))}, takes {duration(plan.hours([longest]))}."
        f" One after another, each on all {plan.units} GPUs,"
        f" all take {duration(plan.hours(plan.all) / plan.units)} at best."
    )


def disk(plan: Plan, config: dict) -> str:
    """Return the most that lies on the disk, item by item."""
    tasks = {run.task for run in plan.all}
    downloads = storage.download_sizes(config, tasks)
    unknown = [name for name, bytes_of_file in downloads.items() if bytes_of_file is None]
    each = [plan.disk([run]) for run in plan.all]
    items = {
        "downloads": (
            sum(filter(None, downloads.values())),
            f"{len(downloads)} files" + (f"; of unknown size and not counted: {', '.join(unknown)}" if unknown else ""),
        ),
        "plain text": (
            storage.text_bytes(config, tasks),
            f"about {storage.LINE} bytes a line; {storage.UNPACKED} times the download where the lines are not known",
        ),
        "prepared text": (
            storage.array_bytes(config, tasks),
            f"about {storage.TOKENISED} bytes a line tokenised, and {storage.TOKENS} tokens of {storage.ID} bytes"
            f" with an offset of {storage.OFFSET}",
        ),
        "trainings": (
            sum(each),
            f"{size(min(each))} to {size(max(each))} each: {storage.STATES} states, the checkpoints to be averaged,"
            " and the average",
        ),
        "being saved": (plan.saving, "a further state of each run that trains"),
    }
    total = sum(count for count, _ in items.values())
    lines = [("disk, at most", size(total), ""), *((name, size(count), why) for name, (count, why) in items.items())]
    return tabulate(lines, tablefmt="plain", disable_numparse=True, colalign=["left", "right", "left"])


def number(value: float) -> str:
    """Return a number with three digits, or with all of those before the point."""
    if 0 < value < 0.001:
        return "<0.001"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def duration(hours: float) -> str:
    """Return hours in the unit that suits: seconds, minutes, hours or days."""
    for unit, length, least in (("days", 24, 48), ("h", 1, 1), ("min", 1 / 60, 1 / 60)):
        if hours >= least:
            return f"{hours / length:,.1f} {unit}"
    return f"{hours * 3600:.0f} s"


def size(count: float) -> str:
    """Return bytes in GB or MB of powers of ten."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"
