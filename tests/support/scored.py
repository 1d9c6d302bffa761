"""Score files as the score stage writes them, and tables made from them, for the tests of tables."""

import csv
import json
import re
from pathlib import Path

from transformer.commands import table


def score(bleu: float, task: str = "en-de", experiment: str = "base", seed: int = 1, **run) -> dict:
    """Return the content of a score file. sacreBLEU is one less, the lower-cased one more; `run` changes the run."""
    paper = "compound_split" if task == "en-de" else "tokenized"
    variants = {paper: bleu, "sacrebleu": bleu - 1, "tokenized_lc": bleu + 1}
    return {
        "language": task.removeprefix("en-"),
        "scores": {"paper": paper}
        | {name: {"score": value, "signature": f"{task}|{name}|v:1"} for name, value in variants.items()},
        "draws": [bleu - 0.5, bleu + 0.5],
        "hyp_sha256": "ef" * 32,
        "ref_sha256": f"{task} references",
        "run": {
            "scale": "multi30k",
            "task": task,
            "experiment": experiment,
            "seed": seed,
            "fidelity": "paper-text",
            "steps": 6000,
            "parameters": 1_900_544,
            "dev_perplexity": 5.0452,
            "flops": 1.5e15,
            "seconds": 5423.4,
            "hardware": "2 CPU cores",
            "commit": "3f2a9c0d",
            "digest": "ab" * 32,
            "data_sha256": "cd" * 32,
            "averaged_steps": [5800, 6000],
            "decoding": {"beam": 4, "alpha": 0.6, "extra_length": 50, "batch_tokens": 4096},
        }
        | run,
    }


def write_scores(folder: Path, *contents) -> list[str]:
    """Write score files and return their names; a content that is text is written as it is."""
    folder.mkdir(exist_ok=True)
    paths = [folder / f"score{number}.json" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return [str(path) for path in paths]


def read_csv(path: str | Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def make_table(name: str, output: Path, *options) -> tuple[list[dict], str]:
    """Run the table stage, and return the rows of OUTPUT.csv and the text of OUTPUT.md."""
    table.main([name, *map(str, options), "--output", str(output)])
    return read_csv(f"{output}.csv"), Path(f"{output}.md").read_text(encoding="utf-8")


def by(rows: list[dict], *keys: str) -> dict:
    """Return rows by the values of `keys`, or of the one key."""
    return {tuple(row[key] for key in keys) if len(keys) > 1 else row[keys[0]]: row for row in rows}


def cells(markdown: str, paragraph: int = 1) -> list[dict[str, str]]:
    """Return the rows of the Markdown table that is this paragraph, counted from 0; the first one if not told."""
    heading, _, *rows = [split(line) for line in markdown.split("\n\n")[paragraph].splitlines()]
    return [dict(zip(heading, row, strict=True)) for row in rows]


def further(markdown: str) -> list[dict[str, str]]:
    """Return the rows of the second Markdown table, which follows what the first one leaves to it."""
    return cells(markdown, 3)


def width(markdown: str) -> int:
    """Return how many characters the longest line of the first Markdown table has."""
    return max(map(len, markdown.split("\n\n")[1].splitlines()))


def split(line: str) -> list[str]:
    """Return the cells of one line of a Markdown table."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
