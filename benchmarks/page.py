"""Put the recorded results into docs/speed.md, between two marks.

python -m benchmarks.page
"""

from collections.abc import Callable
from pathlib import Path

from benchmarks import decode, prepare, train, workflow
from benchmarks.results import FOLDER, command
from transformer.files import InputError, replacing
from transformer.records import read_json

PAGE = Path(__file__).parents[1] / "docs/speed.md"
BEGIN, END = "<!-- speed -->", "<!-- /speed -->"
TABLES: dict[str, Callable[[dict], str]] = {  # in the order of the page
    "train": train.table,
    "decode": decode.table,
    "prepare": prepare.table,
    "workflow": workflow.table,
}


def main() -> None:
    """Replace the text between the marks."""
    text = PAGE.read_text(encoding="utf-8")
    with replacing(PAGE) as file:
        file.write(filled(text, tables(FOLDER)))


def filled(text: str, new: str) -> str:
    """Return `text` with `new` between the marks. Raises InputError unless each is there once, in order."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end or BEGIN in rest:
        raise InputError(f"{PAGE.name}: expected {BEGIN} and {END} once each, in this order")
    return f"{before}{begin}\n\n{new}\n{end}{after}"


def tables(folder: Path) -> str:
    """Return the tables of all results in `folder`, by benchmark and name."""
    results = [read_json(path) for path in sorted(folder.glob("*.json"))]
    results.sort(key=lambda result: list(TABLES).index(result["benchmark"]))
    return "\n".join(TABLES[result["benchmark"]](result) for result in results)


if __name__ == "__main__":
    command(main)
