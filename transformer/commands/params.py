"""Count the parameters of Table 3's models, the paper's counts beside ours.

    python -m transformer params
    python -m transformer params --config fidelity=paper-code
    python -m transformer params --configfile mine.yaml --paper mine.csv

Rows are the experiments of config.yaml in full size, with as many embedding rows as English-German has at paper scale.
Reads config.yaml as Snakemake does, and --configfile and --config like it.
"""

import csv
from typing import NamedTuple

from tabulate import tabulate

from transformer.commandline import stage_parser
from transformer.config import settings
from transformer.config.experiment import PRESETS, Model
from transformer.files import InputError
from transformer.model.cost import agreeing_rows, parameters

COUNTED = """\
Ours count the one embedding matrix, the layers' matrices and biases, the gains and biases of LayerNorm and, under
paper-code, the table of target languages. They leave out the table that learned-positions learns, a row for which the
paper prints no count."""


class Count(NamedTuple):
    """An experiment's parameters, and what the paper printed of them, in millions, where it did."""

    letter: str
    experiment: str
    exact: int
    printed: int | None
    rows: range  # the numbers of embedding rows that make the printed count

    @property
    def agrees(self) -> bool:
        return round(self.exact / 1e6) == self.printed


def main(argv: list[str] | None = None) -> None:
    """Print the counts, and why they cannot all agree."""
    parser = stage_parser("params", __doc__)
    parser.add_argument("--config", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help="as Snakemake's")
    parser.add_argument("--configfile", nargs="+", action="extend", default=[], metavar="YAML", help="as Snakemake's")
    parser.add_argument("--paper", default="workflow/paper/table3.csv", metavar="CSV", help="what the paper printed")
    args = parser.parse_args(argv)
    models = models_of(settings.read(args.configfile, args.config))
    paper = read_paper(args.paper)
    counts = []
    for name, model in models.items():
        letter, millions = paper.get(name, ("", None))
        rows = agreeing_rows(model, millions) if millions else range(0)
        counts.append(Count(letter, name, parameters(model), millions, rows))
    if not (printed := [count for count in counts if count.printed]):
        raise InputError(f"{args.paper}: expected the parameters of experiments of config.yaml, found none")
    agree = f"{sum(count.agrees for count in printed)} of {len(printed)} agree"
    print("\n\n".join([table(counts), agree, COUNTED, why(printed)]))


def table(counts: list[Count]) -> str:
    """Return the table, which has a line per experiment."""
    lines = [
        {
            "row": c.letter,
            "experiment": c.experiment,
            "parameters": f"{c.exact:,}",
            "millions": round(c.exact / 1e6),
            "paper": c.printed or "",
            "agree": ("yes" if c.agrees else "no") if c.printed else "",
            "embedding rows that agree": span(c.rows),
        }
        for c in counts
    ]
    sides = ["left", "left", "right", "right", "right", "left", "left"]
    return tabulate(lines, headers="keys", tablefmt="simple", disable_numparse=True, colalign=sides)


def why(printed: list[Count]) -> str:
    """Say whether any one number of embedding rows makes every printed count."""
    least = max(printed, key=lambda c: c.rows.start)
    most = min(printed, key=lambda c: c.rows.stop)
    together = range(least.rows.start, most.rows.stop)
    if together:
        return f"All {len(printed)} agree with {span(together)} embedding rows."
    rest = range(least.rows.start, min(c.rows.stop for c in printed if c is not most))
    return (
        f"No number of embedding rows makes all {len(printed)} agree: "
        f"{most.experiment} needs {most.rows[-1]:,} at most, {least.experiment} {least.rows[0]:,} at least.\n"
        f"All but {most.experiment} agree with {span(rest) or 'none'}. "
        f"What else the paper counted or left out to get {most.printed} is not known."
    )


def span(rows: range) -> str:
    """Return a range as in `40,932 to 41,160`; blank for none."""
    return f"{rows[0]:,} to {rows[-1]:,}" if rows else ""


def models_of(config: dict) -> dict[str, Model]:
    """Return the model of each experiment in full size. Raises InputError where it lacks the paper's English-German."""
    try:
        rows = config["scales"]["paper"]["tasks"]["en-de"]["embedding_rows"]
    except KeyError as error:
        raise InputError(
            f"config.yaml: scales.paper.tasks.en-de: expected its embedding_rows, found no {error}"
        ) from None
    shared = PRESETS[config["fidelity"]]._asdict() | {"embedding_rows": rows, "output_rows": rows}
    models = {}
    for name, experiment in config["experiments"].items():
        row = config["base"] | experiment | shared
        models[name] = Model.read({key: row[key] for key in Model.__struct_fields__ if key in row}, name)
    return models


def read_paper(path: str) -> dict[str, tuple[str, int | None]]:
    """Return the letter and the millions of each experiment of table3.csv. Raises InputError naming the file."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        return {line["experiment"]: (line["row"], int(line["parameters"] or 0) or None) for line in lines}
    except KeyError as error:
        raise InputError(f"{path}: missing column {error}") from None
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as Table 3: {error}") from None
