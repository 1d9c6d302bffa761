"""Types of the JSON files that one step writes and another step reads, with their readers and their writer.

A record is a TypedDict. msgspec checks each file's content against the type, including bounds. A reader preserves
further keys, because another version may have written them.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from reprlib import repr as short
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
from msgspec import Meta
from safetensors import SafetensorError, safe_open

from transformer.storage.files import InputError, open_input, replacing
from transformer.storage.reading import Kind, structured

Positive = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]
Amount = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Checksum = Annotated[str, Meta(min_length=1)]
AveragedSteps = Annotated[list[Count], Meta(min_length=1)]
Draws = Annotated[list[float], Meta(min_length=1)]  # the score of each bootstrap sample

ABOUT = "about"  # the key of our header in the header of a weights file


class Manifest(TypedDict):  # data.json; its checksum identifies the data of a training
    files: dict[str, Checksum]  # by name
    splits: dict[str, dict[str, Any]]
    sha256: Checksum  # of `files`


class Start(TypedDict):  # a start or a resumption of a training; keys that nothing reads: see training/loop.py
    step: Count
    started: str
    hardware: str
    processes: Positive
    model_code: NotRequired[str]


class Trained(TypedDict):  # run.json: a finished training
    scale: str
    task: str
    experiment: str
    seed: Count
    fidelity: str
    source: str
    target: str
    digest: Checksum  # of the settings and the data
    source_tokens: NotRequired[Count]
    target_tokens: NotRequired[Count]
    flops: Amount
    seconds: Amount
    dev_perplexity: float | None
    starts: Annotated[list[Start], Meta(min_length=1)]
    steps: Positive
    planned_steps: NotRequired[Positive]  # only if the training ended early
    data_sha256: Checksum
    initial_sha256: NotRequired[Checksum]  # of the initial weights
    parameters: Positive
    commit: str
    hardware: str
    finished: str
    # Not in older files:
    files: NotRequired[dict[str, Checksum]]  # of files in its folder, by name
    sha256: NotRequired[Checksum]  # of all other keys


class RunRecord(Trained):
    """The run that a score belongs to: its run.json, the scored weights and the search settings."""

    averaged_steps: AveragedSteps
    weights_sha256: NotRequired[str | None]  # None in older files if the weights were an int8 copy
    decoding: dict[str, Any]
    scored_with: NotRequired[dict[str, str]]  # commit and model_code; not in older files


class Exported(TypedDict):  # export.json
    sha256: dict[str, Checksum]  # by file name


class Variant(TypedDict):  # the score of one metric
    score: float
    signature: str
    low: NotRequired[float]  # bounds of 95 % of the bootstrap samples; only for the paper's metric
    high: NotRequired[float]


class _Subset(TypedDict):  # of a test set
    sentences: Positive
    scores: dict[str, str | Variant]  # by metric; "paper" has the name of the paper's metric


class Translated(TypedDict):  # the score file of a run's translation
    language: str
    scores: dict[str, str | Variant]
    subsets: dict[str, _Subset]
    hyp_sha256: Checksum
    ref_sha256: Checksum
    run: RunRecord
    draws: Draws  # BLEU


class Brackets(TypedDict):  # a score is None if its denominator is 0
    f1: float | None
    recall: float | None
    precision: float | None
    tagging: float | None
    sentences: Count
    errors: Count


class _BothLengths(TypedDict):
    all: Brackets
    len40: Brackets  # sentences of up to 40 words


class Parsed(TypedDict):  # the score file of a run's parses
    gold_sha256: Checksum
    by: str  # the tree whose tags delete words
    scores: _BothLengths
    repaired: list[int]  # line numbers
    without_repair: _BothLengths
    strict: _BothLengths  # each tree's own tags delete its words
    run: RunRecord
    draws: Draws  # F1


class Parses(TypedDict):  # scores and repairs of a parser's trees
    sentences: Count
    repaired: dict[str, str]  # faults by line number
    scores: list[float | None]  # one per line; None for a blank line


class Description(TypedDict):  # the JSON file of a figure
    title: str
    caption: str
    alt: str  # for readers who cannot see the figure
    inches: Annotated[float, Meta(gt=0)]  # width


class _LayerTime(TypedDict):
    layer: str
    grid: Literal["n", "d"]  # the size that grows
    n: Positive
    d: Positive
    k: Positive
    r: Positive
    multiply_adds: Positive
    seconds: Annotated[float, Meta(gt=0)]
    quartiles: Amount


class _Connection(TypedDict):  # in a stack of layers
    layer: str
    n: Positive
    path: Positive
    sequential: Positive


class Measured(TypedDict):  # layers.json
    times: list[_LayerTime]
    connections: list[_Connection]
    hardware: str
    threads: Positive
    versions: dict[str, str]
    commit: str
    date: str


class _Recalled(TypedDict):  # results of one trained encoder
    architecture: str
    seed: Count
    parameters: Positive
    accuracy: dict[str, Annotated[float, Meta(ge=0, le=1)]]  # by distance
    seconds: Annotated[float, Meta(gt=0)]


class Recalled(TypedDict):  # recall.json
    models: list[_Recalled]
    settings: dict[str, Any]
    chance: float
    hardware: str
    versions: dict[str, str]
    commit: str
    date: str


class MetricsLine(TypedDict):  # of metrics.jsonl; other keys: see training/log.py
    step: Count


class WeightsHeader(TypedDict, total=False):
    """The origin of weights: an average has "steps"; a checkpoint or a resume state has one "step"."""

    digest: Checksum  # of the training
    step: Count
    steps: AveragedSteps
    dev_perplexity: float | None  # in resume states, and in checkpoints of a training with `patience`
    rounded: bool  # true for int8 weights


def read_json(path: str | Path, kind: type[Kind] = Any) -> Kind:
    """Read a JSON file. Raises InputError naming the file, the key and the value."""
    with open_input(path) as file:
        return parse_json(file.read(), kind, path)


def parse_json(text: str | bytes, kind: type[Kind], where: str | Path) -> Kind:
    """Read a JSON text. Raises InputError. Its message begins with `where`."""
    try:
        return structured(msgspec.json.decode(text), kind, where)
    except (RecursionError, ValueError) as error:
        raise InputError(f"{where}: cannot be read as JSON: {error}") from None


def write_json(path: str | Path, record: Any, **format: Any) -> None:
    """Write a record. format: options of json.dump."""
    with replacing(path) as file:
        json.dump(record, file, **format)


def sum_of(content: Any) -> str:
    """Return the SHA-256 of a JSON value. The order of its keys has no effect."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def without_sum(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != "sha256"}


def with_sum(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with the checksum of its content after conversion to JSON."""
    return {**record, "sha256": sum_of(json.loads(json.dumps(record)))}


def require_own_sum(path: str | Path, record: Mapping[str, Any], content: Any) -> None:
    """Raise InputError if a record's checksum differs from its content's checksum. Older files have no checksum."""
    if record.get("sha256") not in (None, found := sum_of(content)):
        expected = f"expected content of SHA-256 {str(record['sha256'])[:16]}…, found {found[:16]}…"
        raise InputError(f"{path}: damaged or edited: {expected}")


def read_summed(path: str | Path, kind: type[Kind] = Any) -> Kind:
    """Read a JSON file that may have its own checksum. Raises InputError if it is not as it was written."""
    content = read_json(path)
    if isinstance(content, dict):
        require_own_sum(path, content, without_sum(content))
        content = without_sum(content)
    return structured(content, kind, path)


def read_of_run(path: str | Path, kind: type[Kind]) -> Kind:
    """Read a file that contains its run. Raises InputError naming the file and the key."""
    content = read_summed(path)
    if isinstance(content, dict) and content.get("run", "") is None:
        raise InputError(f"{path}: expected a score with its run (score it with --run), found a score without a run")
    return structured(content, kind, path)


def read_scored(path: str | Path) -> Translated | Parsed:
    """Read a score file of a translation or a parser. Raises InputError naming the file and the key."""
    content = read_json(path)
    return read_of_run(path, Parsed) if isinstance(content, dict) and "by" in content else read_translated(path)


def read_translated(path: str | Path) -> Translated:
    """Read a translation's score file. Raises InputError naming the file and the key."""
    content = read_of_run(path, Translated)
    parts = {"scores": content} | {f"subsets.{name}.scores": part for name, part in content["subsets"].items()}
    for place, part in parts.items():
        scores = part["scores"]
        for name in ("paper", scores.get("paper")):
            if name not in scores:
                raise InputError(f"{path}: {place}: missing key {name!r}")
        for name, value in variants(scores).items():
            if not isinstance(value, dict):
                raise InputError(f"{path}: {place}.{name}: expected object, found {value!r}")
    return content


def read_parses(path: str | Path, trees: str | Path, lines: int) -> Parses:
    """Read the scores and repairs of `trees`, a file with `lines` lines. Raises InputError if the files do not fit."""
    content = read_json(path, Parses)
    for key, number in {"sentences": content["sentences"], "scores": len(content["scores"])}.items():
        if number != lines:
            raise InputError(f"{path}: {key}: expected {lines} (the lines of {trees}), found {number}")
    if others := set(content["repaired"]) - set(map(str, range(1, lines + 1))):
        raise InputError(f"{path}: repaired: expected lines from 1 to {lines}, found {short(min(others))}")
    return content


def run_name(run: Trained | dict[str, Any]) -> str:
    return "/".join(str(run[key]) for key in ("task", "experiment", "seed"))


def variants(scores: dict[str, str | Variant]) -> dict[str, Variant]:
    return {name: variant for name, variant in scores.items() if name != "paper"}


def read_metrics(path: Path) -> list[MetricsLine]:
    """Read a log. Raises InputError naming the damaged line."""
    numbered = enumerate(lines_of(path), start=1)
    return [parse_json(line, MetricsLine, f"{path}, line {number}") for number, line in numbered]


def lines_of(path: Path) -> list[bytes]:
    """Return the lines of a file with their line ends. A truncated last line has no line end."""
    with open_input(path) as file:
        return list(file)


class Unusable(InputError):
    """An error: a file is readable, but its content is wrong."""


def read_weights(path: str | Path, framework: str | None = None) -> tuple[dict[str, Any], WeightsHeader, str]:
    """Return the tensors of a weights file, its header and the tensors' checksum.

    framework: safetensors' name of the tensors' library. If it is None, no tensors are read. Raises Unusable on a
    damaged or foreign file, InputError if the file cannot be opened.
    """
    try:
        with safe_open(path, framework=framework or "numpy") as file:
            header, checksum = parse_json((file.metadata() or {}).get(ABOUT, ""), tuple[WeightsHeader, str], "header")
            names = file.keys() if framework else ()
            return {name: file.get_tensor(name) for name in names}, header, checksum
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    except (SafetensorError, InputError) as error:
        raise Unusable(f"{path}: truncated, or not a checkpoint of this project ({error})") from None


def averaged_steps(weights: Path, digest: str) -> list[int]:
    """Return the steps of an average or a checkpoint. Raises InputError if its training is not `digest`."""
    header = read_weights(weights)[1]
    if (found := header.get("digest")) != digest:
        raise InputError(f"{weights}: expected weights of the training {digest}, found {found}")
    return header["steps"] if "steps" in header else [header["step"]]
