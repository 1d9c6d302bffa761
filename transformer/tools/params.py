"""Count the parameters of Table 3's models, the paper's counts beside ours.

    python -m transformer params [--config config.yaml] [--paper workflow/paper/table3.csv]

Rows are the experiments of config.yaml in full size, with as many embedding rows as English-German has at paper scale.
This stage reads config.yaml itself, as plan does: they answer people, and no other stage reads what they print.
"""

import csv
from dataclasses import asdict, fields
from typing import Any, NamedTuple

from tabulate import tabulate

from transformer.commandline import stage_parser
from transformer.common.files import InputError
from transformer.config.experiment import Model, checked, read_yaml
from transformer.config.fidelity import preset
from transformer.model.cost import agreeing_rows, parameters

EMBEDDING_ROWS = ("scales", "paper", "tasks", "en-de", "embedding_rows")
COUNTED = """\
Counted are the one embedding matrix, the layers' matrices and biases, the gains and biases of LayerNorm and, under
paper-code, the table of target languages. Not counted is the table that learned-positions learns, a row for which the
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
    parser.add_argument("--config", default="config.yaml", metavar="YAML", help="the configuration")
    parser.add_argument("--paper", default="workflow/paper/table3.csv", metavar="CSV", help="what the paper printed")
    args = parser.parse_args(argv)
    paper = read_paper(args.paper)
    counts = [count(name, model, *paper.get(name, ("", None))) for name, model in read_models(args.config).items()]
    if not any(c.printed for c in counts):
        raise InputError(f"{args.paper}: expected the parameters of experiments of {args.config}, found none")
    print(page(counts))


def count(name: str, model: Model, letter: str, printed: int | None) -> Count:
    """What to show of one experiment."""
    rows = agreeing_rows(model, printed) if printed else range(0)
    return Count(letter, name, parameters(model), printed, rows)


def page(counts: list[Count]) -> str:
    """The table, how many agree, and why not more."""
    printed = [c for c in counts if c.printed]
    agree = f"{sum(c.agrees for c in printed)} of {len(printed)} agree"
    return "\n\n".join([table(counts), agree, COUNTED, why(printed)])


def table(counts: list[Count]) -> str:
    """A line per experiment."""
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
    """Whether any one number of embedding rows makes every printed count."""
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
    """`40,932 to 41,160`; blank for none."""
    return f"{rows[0]:,} to {rows[-1]:,}" if rows else ""


def read_models(path: str) -> dict[str, Model]:
    """The model of each experiment of a config.yaml. Raises InputError naming the file and the key."""
    config = read_yaml(path)
    shared = asdict(preset(setting(config, path, str, "fidelity")))
    shared["embedding_rows"] = shared["output_rows"] = setting(config, path, int, *EMBEDDING_ROWS)
    base = setting(config, path, dict, "base")
    models = {}
    for name in setting(config, path, dict, "experiments"):
        row = base | setting(config, path, dict, "experiments", name) | shared
        names = [field.name for field in fields(Model)]
        models[name] = Model.read({key: row[key] for key in names if key in row}, f"{path}: {name}")
    return models


def setting(config: Any, path: str, kind: type, *keys: str) -> Any:
    """The value of `kind` at `keys`. Raises InputError naming the file and the key."""
    value, where = config, ".".join(keys)
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            raise InputError(f"{path}: missing key {where!r}")
        value = value[key]
    return checked(value, kind, f"{path}: {where}")


def read_paper(path: str) -> dict[str, tuple[str, int | None]]:
    """The letter and the millions of each experiment of table3.csv. Raises InputError naming the file."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        return {line["experiment"]: (line["row"], int(line["parameters"] or 0) or None) for line in lines}
    except KeyError as error:
        raise InputError(f"{path}: missing column {error}") from None
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as Table 3: {error}") from None
