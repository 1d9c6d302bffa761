"""Say what a scale costs, before anything starts: hours, money, downloads and disk.

    python -m transformer plan --config scale=paper --gpu h200 --gpus 8
    python -m transformer plan --config scale=paper --gpu a100 --price 1.5 --budget 100
    python -m transformer plan --configfile mine.yaml --config scale=mine

Reads config.yaml as Snakemake does, and --configfile and --config like it. Without --gpu it plans for this machine's
cores. Trains, fetches and writes nothing.
"""

import argparse
import os
from collections.abc import Collection

from tabulate import tabulate

from transformer.commandline import positive, stage_parser
from transformer.common.files import InputError
from transformer.config import settings
from transformer.plan import plan, speed, storage

UTILISATION = "of the GPU's peak, or without --gpu of what bare products reach; above 0 and at most 1"
UNIT = {"GPU": "gpu_hour", "core": "core_hour"}  # its price, in config.yaml's report
BATCHES = f"""\
Batches count as full on both sides, sentences as {plan.SENTENCE} tokens: more than most trainings have.
Only training is counted: preparing, translating and scoring come on top."""


def main(argv: list[str] | None = None) -> None:
    """Print the plan."""
    args = parse(argv)
    config = settings.read(args.configfile, args.config)
    if args.gpu:
        of_unit, units = speed.of_gpu(args.gpu, args.utilisation), args.gpus or 1
    else:
        of_unit, units = speed.of_processor(args.utilisation), len(os.sched_getaffinity(0))
    price = price_of(config, of_unit.unit) if args.price is None else args.price
    if args.budget is not None and price is None:
        raise InputError(
            f"--budget: expected --price, or a {UNIT[of_unit.unit]} in config.yaml's report, found neither"
        )
    print(page(plan.make(config, of_unit, units), config, price, args.budget))


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = stage_parser("plan", __doc__)
    parser.add_argument("--config", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help="as Snakemake's")
    parser.add_argument("--configfile", nargs="+", action="extend", default=[], metavar="YAML", help="as Snakemake's")
    parser.add_argument(
        "--gpu", type=str.lower, metavar="NAME", help=f"{', '.join(speed.GPUS)}; this machine's cores if not given"
    )
    parser.add_argument("--gpus", type=positive, metavar="COUNT", help="how many there are; 1 if not given")
    parser.add_argument("--utilisation", type=share, metavar="SHARE", help=UTILISATION)
    parser.add_argument("--price", type=amount, help="of a GPU's hour, or a core's; config.yaml's if not given")
    parser.add_argument("--budget", type=amount, help="says which tables it pays for")
    args = parser.parse_args(argv)
    if args.gpus and not args.gpu:
        parser.error("--gpus: expected --gpu, too")
    return args


def share(text: str) -> float:
    """An argument above 0 and at most 1."""
    if not 0 < (value := amount(text)) <= 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0 and at most 1, found {text}")
    return value


def amount(text: str) -> float:
    """An argument that is a finite number, 0 at least."""
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number, 0 at least, found {text}")
    return value


def price_of(config: dict, unit: str) -> float | None:
    """The configured price of a unit's hour."""
    price = config["report"][UNIT[unit]]
    return None if price == "unknown" else price


def page(found: plan.Plan, config: dict, price: float | None, budget: float | None) -> str:
    """Everything that is said."""
    unit = found.speed.unit
    title = f"Scale {config['scale']} on {found.units} {found.speed.name}{'s' if found.units > 1 else ''}"
    if price is not None:
        title += f", at {number(price)} {config['report']['currency']} per {unit}-hour"
    sections = [title, table(found, price), notes(found), disk(found, config)]
    if budget is not None and price is not None:
        sections.append(bought(plan.buy(found, price, budget), budget, config["report"]["currency"]))
    return "\n\n".join(sections)


def table(found: plan.Plan, price: float | None) -> str:
    """A line per table, of the figures that need trainings, and of all."""
    lines = [line(found, name, runs, price, len(found.shared(name))) for name, runs in found.tables.items()]
    lines += [line(found, name, runs, price, len(runs)) for name, runs in found.figures.items()]
    lines.append(line(found, "all", found.all, price, 0))
    sides = ["left", *["right"] * (len(lines[-1]) - 1)]
    return tabulate(lines, headers="keys", tablefmt="simple", disable_numparse=True, colalign=sides)


def line(found: plan.Plan, name: str, runs: Collection, price: float | None, shared: int) -> dict[str, str]:
    """What a row's runs take; Table 1 has none."""
    if not runs:
        return {"": name, "runs": "0"}
    hours = found.hours(runs)
    cells = {
        "": name,
        "runs": str(len(runs)),
        "shared": str(shared or ""),
        "steps": f"{found.steps(runs):,}",
        "FLOPs": f"{found.flops(runs):.2e}".replace("e+", "e"),
        f"{found.speed.unit}-hours": number(hours),
        "wall time": duration(found.wall(runs)),
        "disk": size(found.disk(runs)),
    }
    return cells | ({} if price is None else {"cost": number(hours * price)})


def notes(found: plan.Plan) -> str:
    """How to read the table."""
    lines = [
        f"Speed: {found.speed.about}",
        f"Wall time: {wall(found)}",
        "Shared runs are another row's, too: `all` trains each run once.",
    ]
    if count := len(found.all) - len(found.trained):
        lines.append(f"{count} taken: of all runs so many were made elsewhere, and cost nothing here.")
    if found.absent:
        lines.append(f"`all` leaves out table4: no folder {found.absent} with the Penn Treebank.")
    return "\n".join([*lines, BATCHES])


def wall(found: plan.Plan) -> str:
    """How runs lie on the GPUs."""
    if found.speed.unit != "GPU" or found.units == 1:
        return "trainings one after another, or side by side at the same speed together."
    longest = max(found.all, key=lambda run: found.hours([run]))
    return (
        f"each training on a GPU of its own, {found.units} side by side, as a cluster gives them.\n"
        f"The longest, {'/'.join(map(str, longest))}, takes {duration(found.hours([longest]))}."
        f" One after another, on all {found.units}, all take {duration(found.hours(found.all) / found.units)} at best."
    )


def disk(found: plan.Plan, config: dict) -> str:
    """What lies on the disk at most."""
    tasks, learned = ({run.task for run in runs} for runs in (found.all, found.trained))
    downloads = storage.downloads(config, tasks)
    unknown = [name for name, of_file in downloads.items() if of_file is None]
    each = [found.disk([run]) for run in found.all]
    states = f"{storage.STATES} states, the checkpoints to be averaged, and the average"
    rows = {
        "downloads": (
            sum(filter(None, downloads.values())),
            f"{len(downloads)} files" + (f"; not counted, of unknown size: {', '.join(unknown)}" if unknown else ""),
        ),
        "plain text": (
            storage.text(config, tasks),
            f"about {storage.LINE} bytes a line; where no lines are known, {storage.UNPACKED} times its download",
        ),
        "prepared text": (
            storage.arrays(config, learned),
            f"about {storage.TOKENISED} bytes a line tokenised, {storage.TOKENS} tokens of {storage.ID} bytes,"
            f" {storage.OFFSET} for its place",
        ),
        "being gathered": (
            storage.parts(config, learned),
            "parts of training sets beside the whole, before its arrays",
        ),
        "trainings": (sum(each), f"{size(min(each))} to {size(max(each))} each: {states}"),
        "being saved": (found.saving, "a further state of each run that trains"),
    }
    rows = {name: row for name, row in rows.items() if row[0] or name != "being gathered"}
    total = sum(of_row for of_row, _ in rows.values())
    lines = [("disk, at most", size(total), ""), *((name, size(n), about) for name, (n, about) in rows.items())]
    return tabulate(lines, tablefmt="plain", disable_numparse=True, colalign=["left", "right", "left"])


def bought(found: plan.Bought, budget: float, currency: str) -> str:
    """What a budget pays for."""
    return (
        f"{number(budget)} {currency} pay for each of these alone: {', '.join(found.alone) or 'none'}.\n"
        f"Together, in this order: {', '.join(found.together) or 'none'}; {number(found.left)} {currency} are left."
    )


def number(value: float) -> str:
    """Three digits, or all before the point."""
    if 0 < value < 0.001:
        return "<0.001"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def duration(hours: float) -> str:
    """In seconds, minutes, hours or days."""
    for unit, least in (("days", 48), ("h", 1), ("min", 1 / 60)):
        if hours >= least:
            return f"{hours / {'days': 24, 'h': 1, 'min': 1 / 60}[unit]:,.1f} {unit}"
    return f"{hours * 3600:.0f} s"


def size(count: float) -> str:
    """In GB or MB of powers of ten."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"
