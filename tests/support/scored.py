"""Sentences with tokens by hand, score files in the format of `score`, and tables made from them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformer.evaluation.bleu import token_bleu
from transformer.report.tables.render import Grid, Table, _markdown
from transformer.storage.records import sum_of

HYPOTHESES = ['Der "Mann" läuft, z.B. zum Fluss-Ufer.', "Zwei Hunde spielen im Schnee.", "Ein Kind isst Eis."]
REFERENCES = [
    'Ein "Mann" läuft, z.B. zum Fluss-Ufer.',
    "Zwei Hunde spielen im tiefen Schnee.",
    "Ein Kind isst ein Eis.",
]
# The paper's BLEU replaces the quotes of these sentences, and splits their compound.
QUOTED = [f"Der „Hund“ mit {n} Beinen sieht heute die Katze am Fluss-Ufer." for n in range(20)]
PLAIN = [line.replace("„", '"').replace("“", '"') for line in QUOTED]


def score(bleu: float, task: str = "en-de", experiment: str = "base", seed: int = 1, **run) -> dict:
    """Return a score file's content. sacreBLEU is one lower, lower-cased BLEU one higher. `run` changes the run."""
    paper, language = "compound_split" if task == "en-de" else "tokenized", task.removeprefix("en-")
    variants = {paper: bleu, "sacrebleu": bleu - 1, "tokenized_lc": bleu + 1}
    scores = {name: {"score": value, "signature": f"{task}|{name}|v:1"} for name, value in variants.items()}
    trained = {
        **{"scale": "multi30k", "task": task, "experiment": experiment, "seed": seed},
        **{"fidelity": "paper-text", "source": "en", "target": language},
        "starts": [{"step": 0, "started": "2026-01-01T00:00:00+00:00", "hardware": "2 CPU cores", "processes": 1}],
        "finished": "2026-01-01T01:30:00+00:00",
        **{"steps": 6000, "parameters": 1_900_544, "dev_perplexity": 5.0452, "flops": 1.5e15, "seconds": 5423.4},
        **{"hardware": "2 CPU cores", "commit": "3f2a9c0d", "digest": "ab" * 32, "data_sha256": sum_of({})},
        "averaged_steps": [5800, 6000],
        "decoding": {"beam": 4, "alpha": 0.6, "extra_length": 50, "batch_tokens": 4096},
    }
    return {
        "language": language,
        "scores": {"paper": paper} | scores,
        "subsets": {},
        "draws": [bleu - 0.5, bleu + 0.5],
        "hyp_sha256": "ef" * 32,
        "ref_sha256": f"{task} references",
        "run": trained | run,
    }


def write_scores(folder: Path, *contents) -> list[str]:
    """Write score files and return their names. A text as content is written unchanged."""
    folder.mkdir(exist_ok=True)
    for number, content in enumerate(contents):
        (folder / f"score{number}.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return [str(folder / f"score{number}.json") for number in range(len(contents))]


def write_logs(folder: Path, logs: dict[str, list[dict]]) -> list[str]:
    """Write metrics.jsonl of runs by name, and return the files' names."""
    for name, entries in logs.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "metrics.jsonl").write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return [str(folder / name / "metrics.jsonl") for name in logs]


def rivals() -> tuple[list[dict], dict[str, list[dict]]]:
    """Return scores and logs of two seeds of base and of `mine` with 4 times the FLOPs and 5 times the seconds.

    Base ends at a dev BLEU of 30 and 34. At the same FLOPs, `mine` has 20 and 30 on straight lines from 0 to 40 and 60.
    """
    scores, logs = [], {}
    for experiment, cost, bleu, dev in (("base", 1, 40.0, (30, 34)), ("mine", 4, 30.0, (50, 70))):
        for seed, best in enumerate(dev, start=1):
            about = {"flops": cost * 1e15, "steps": 100, "seconds": 200.0 if cost == 1 else 1000.0}
            scores.append(score(bleu + seed / 10, experiment=experiment, seed=seed, **about))
            half = {"step": 50, "dev_perplexity": 5.0, "dev_bleu": best - 10}
            timed = [{"step": 50, "seconds": about["seconds"] / 2}, {"step": 100, "seconds": about["seconds"]}]
            logs[f"en-de/{experiment}/{seed}"] = [half, timed[0], half | {"step": 100, "dev_bleu": best}, timed[1]]
    return scores, logs


def make_table(make: Callable, key: str, **options) -> tuple[Any, dict[str, dict], Table]:
    """Make a table of these inputs and parameters. Return the frame, its rows by `key`, and the table."""
    table, frame = make(**options)
    assert "nan" not in _markdown(table).lower()
    return frame, {row[key]: row for row in frame.reset_index().to_dict("records")}, table


def shown(grid: Grid) -> list[dict[str, str]]:
    """Return the texts of a grid's cells."""
    return [{heading: str(cell) for heading, cell in row.items()} for row in grid.rows]


def detail(table: Table) -> list[dict[str, str]]:
    """Return the texts of the second grid, with further columns."""
    return shown(next(note for note in table.notes if isinstance(note, Grid)))


def notes_of(table: Table) -> str:
    """Return all notes that are text."""
    return "\n".join(note for note in table.notes if isinstance(note, str))


def by_hand(line: str, quote: str = '"') -> str:
    """Return a line's tokens: quotes and the full stop are separate tokens, and the compound is split."""
    words = line.replace('"', " Q ").replace("Fluss-Ufer", "Fluss ##AT##-##AT## Ufer").replace(".", " .").split()
    return " ".join(words).replace("Q", quote)


def bleu(hypotheses: list[str], references: list[str]) -> float:
    return token_bleu().corpus_score(hypotheses, [references]).score
