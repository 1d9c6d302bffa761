"""Files of JSON, read as typed records: what is not as its record says is refused in one line.

A record is a TypedDict beside the code that writes the file, with bounds as `Annotated[int, Meta(ge=1)]`; msgspec
compares the two. Keys that a record does not name are left as they are: another version may have written them.
"""

import json
import math
import re
import reprlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypedDict, TypeVar

import msgspec
from msgspec import Meta

from transformer.files import InputError, open_input

Kind = TypeVar("Kind")
Positive = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]
Amount = Annotated[float, Meta(ge=0)]
Above0 = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Checksum = Annotated[str, Meta(min_length=1)]
Steps = Annotated[list[Count], Meta(min_length=1)]
Draws = Annotated[list[float], Meta(min_length=1)]  # a score on each resampled test set

LARGEST = 2**63  # that a whole number may have
LONGEST = 60  # characters of what was found
SHORT = reprlib.Repr()  # which writes no more than so much of what may have any size
SHORT.maxlevel, SHORT.maxstring = 3, 4 * LONGEST
SHORT.maxdict = SHORT.maxlist = SHORT.maxtuple = SHORT.maxset = LONGEST // 3
AT = re.compile(r"(?P<problem>.*?)(?: - at (?:`key` in )?`\$(?P<place>.*)`)?", re.DOTALL)


def read_json(path: str | Path, kind: type[Kind] = Any) -> Kind:
    """Return the content of a JSON file that is a `kind`. Raises InputError naming the file, the key and the value."""
    with open_input(path) as file:
        return parse_json(file.read(), kind, path)


def parse_json(text: str | bytes, kind: type[Kind], where: str | Path) -> Kind:
    """Return the content of a JSON text that is a `kind`. Raises InputError, which begins with `where`."""
    try:
        content = json.loads(text if isinstance(text, str) else text.decode("utf-8"), object_pairs_hook=once)
    except RecursionError:
        raise InputError(f"{where}: cannot be read as JSON: nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{where}: cannot be read as JSON: {error}") from None
    return typed(content, kind, where)


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the mapping of these pairs. Raises ValueError where a key stands twice."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"expected each key once, found {next(key for key in keys if keys.count(key) > 1)!r} again")
    return mapping


def typed(content: Any, kind: type[Kind], where: str | Path) -> Kind:
    """Return the content as it stands where it is a `kind`.

    Raises InputError naming `where`, the key, and what was expected and found there. No number may be infinite, not a
    number or too large, and no text may have half a character.
    """
    converted(content, kind, where)
    return content


def converted(content: Any, kind: type[Kind], where: str | Path) -> Kind:
    """Return what msgspec makes of the content as a `kind`: whole numbers that serve as floats, dataclasses, tuples.

    Raises the same InputError as `typed`.
    """
    try:
        for place, problem in faults(content):
            raise InputError(f"{where}{', ' * bool(place)}{place.removeprefix('.')}: {problem}")
        return msgspec.convert(content, kind)
    except RecursionError:
        raise InputError(f"{where}: nested too deeply") from None
    except msgspec.ValidationError as error:
        raise InputError(f"{where}{explained(str(error), content)}") from None


def faults(content: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the place and the problem of each value within `content` that no file of this project holds."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from faults(str(key), f"{place}, a key")
            yield from faults(value, f"{place}.{key}")
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from faults(value, f"{place}[{number}]")
    elif isinstance(content, float):
        if not math.isfinite(content):
            yield place, f"expected a finite number, found {content}"
    elif isinstance(content, int):
        if abs(content) > LARGEST:
            yield place, f"expected a number of at most {LARGEST}, found one of {content.bit_length()} bits"
    elif isinstance(content, str) and not content.isascii():
        try:
            content.encode()
        except UnicodeEncodeError:
            yield place.encode(errors="replace").decode(), f"expected text, found half a character in {short(content)}"


def explained(error: str, content: Any) -> str:
    """Return an error of msgspec in this project's words, beginning with the place."""
    match = AT.fullmatch(error)
    place, problem = (match["place"] or "").removeprefix("."), match["problem"].replace("`", "")
    problem = problem[0].lower() + problem[1:]
    if missing := re.fullmatch("object missing required field (.*)", problem):
        problem = f"missing key {missing[1]!r}"
    else:
        with suppress(KeyError):  # msgspec writes [...] for any key of a mapping
            for key, number in re.findall(r"([^.\[\]]+|\.\.\.)|\[(\d+)\]", place):
                content = content[int(number)] if number else content[key]
            problem = f"{problem.partition(', got ')[0]}, found {short(content)}"
    return f"{', ' * bool(place)}{place}: {problem.replace(', got ', ', found ')}"


def short(value: Any) -> str:
    """Return what was found, for a message."""
    text = SHORT.repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


class Description(TypedDict):
    """The JSON beside a figure's files: what the page says of it, and the numbers behind it."""

    title: str
    caption: str
    alt: str  # for those who cannot see the figure
    inches: Annotated[float, Meta(gt=0)]  # its width
    data: dict[str, Any]


class MetricsEntry(TypedDict, total=False):
    """An entry of metrics.jsonl: means over the updates since the last one, or dev scores; losses per target token."""

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


class MetricsLine(MetricsEntry):
    """An entry with its step: a line of metrics.jsonl."""

    step: Count


def read_metrics(path: Path, growing: bool = False) -> list[MetricsLine]:
    """Return all entries of a log. Raises InputError naming the file and the damaged line.

    growing: a training may be writing the last line; half a line is left out.
    """
    lines = lines_of(path)
    if growing and lines and not lines[-1].endswith(b"\n"):
        del lines[-1]
    return [parse_json(line, MetricsLine, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]


def lines_of(path: Path) -> list[bytes]:
    """Return the lines of a file with their ends, which a last line that is cut off lacks."""
    with open_input(path) as file:
        return list(file)
