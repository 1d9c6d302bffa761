"""The header of a file of weights, which says what they are. No torch here, which takes seconds to load."""

from pathlib import Path
from typing import TypedDict

from safetensors import SafetensorError, safe_open

from transformer.files import InputError
from transformer.records import Checksum, Count, Steps, parse_json

KEY = "about"  # under which safetensors' own header holds ours, and the checksum of the tensors


class Unusable(InputError):
    """A file that can be read but is not what it should be."""


class Header(TypedDict, total=False):
    """An account of weights: an average of "steps", or a checkpoint or a resume state of one "step"."""

    digest: Checksum  # of the training
    step: Count
    steps: Steps
    rounded: bool  # whether these are not the weights that were trained, but those in 8 bits


def read_about(path: str | Path, metadata: dict[str, str] | None) -> tuple[Header, str]:
    """Return our header and the checksum of the tensors from safetensors' metadata. Raises Unusable naming the file."""
    if KEY not in (metadata or {}):
        raise Unusable(f"{path}: truncated, or not a checkpoint of this project: no {KEY!r} in its header")
    try:
        header, checksum = parse_json(
            metadata[KEY], tuple[Header, str], f"{path}: truncated, or not a checkpoint of this project: header"
        )
    except InputError as error:
        raise Unusable(str(error)) from None
    return header, checksum


def read_header(path: str | Path) -> Header:
    """Return what the header of a file of weights says of them. Raises InputError naming the file."""
    try:
        with safe_open(path, framework="np") as file:
            return read_about(path, file.metadata())[0]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    except SafetensorError as error:
        raise Unusable(f"{path}: truncated, or no weights: {error}") from None


def origin(path: str | Path, header: Header) -> tuple[str, list[int]]:
    """Return the digest of the training, and the steps of an average, or the one step of a checkpoint.

    Raises Unusable, which names the file, where the header does not say.
    """
    steps = header["steps"] if "steps" in header else [header["step"]] if "step" in header else []
    if "digest" not in header or not steps:
        raise Unusable(
            f"{path}, header: expected a digest, and a step or steps, found {', '.join(header) or 'nothing'}"
        )
    return header["digest"], steps
