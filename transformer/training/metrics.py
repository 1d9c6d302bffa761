"""metrics.jsonl, the log of a training: an entry a line."""

from pathlib import Path
from typing import TypedDict

from transformer.files import InputError, open_input, replacing
from transformer.records import Above0, Amount, Count, parse_json
from transformer.runtime.signals import say


class Entry(TypedDict, total=False):
    """An entry: means over the updates since the last one, or dev scores. Losses are per target token."""

    epoch: Count
    smoothed_loss: float
    perplexity: Above0
    rate: Amount
    gradient_norm: Amount
    batch_source_tokens: Amount
    batch_target_tokens: Amount
    batch_padding: Amount
    source_tokens: Count
    target_tokens: Count
    seconds: Amount
    target_tokens_per_second: Amount
    dev_perplexity: Above0
    dev_bleu: Amount


class Line(Entry):
    """An entry with its step."""

    step: Count


def read_line(line: bytes, where: str) -> Line:
    """Return the entry on a line. Raises InputError, which begins with `where`, where it is damaged."""
    return parse_json(line, Line, where)


def lines_of(path: Path) -> list[bytes]:
    """Return the lines of a log with their ends, which the last one lacks where it is being written or was cut off."""
    with open_input(path) as file:
        return list(file)


def read_metrics(path: Path, growing: bool = False) -> list[Line]:
    """Return all entries. Raises InputError naming the file and the damaged line.

    growing: whether a training may be writing the last line, which is then left out.
    """
    lines = lines_of(path)
    if growing and lines and not lines[-1].endswith(b"\n"):
        del lines[-1]
    return [read_line(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]


def keep_until(path: Path, step: int) -> None:
    """Drop the entries after a step, and damaged lines, each of which is named on standard error."""
    kept = []
    for number, line in enumerate(lines_of(path) if path.exists() else (), start=1):
        try:
            if read_line(line, f"{path}, line {number}")["step"] <= step:
                kept.append(line.removesuffix(b"\n") + b"\n")
        except InputError as error:
            say(f"dropped a damaged line of the log: {error}", error=True)
    with replacing(path, "wb") as file:
        file.writelines(kept)
