"""The headers of weight files, read without PyTorch, which takes a second to load."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError, safe_open

from transformer.common.files import InputError


class Unusable(InputError):
    """A file that can be read but is not what it should be."""


def load_header(path: str | Path) -> dict:
    """Return the header that `weights.save` wrote. Raises what `weights.load` raises, but looks at no checksum."""
    with opened(path, "numpy") as file:
        return decode(file)[0]


def decode(file: safe_open) -> tuple[dict, str]:
    """Return the header that `weights.save` wrote, and the checksum."""
    header, expected = json.loads((file.metadata() or {})["about"])
    return header, expected


@contextmanager
def opened(path: str | Path, framework: str) -> Iterator[safe_open]:
    """Open a safetensors file, for tensors of `framework`; errors name the file."""
    try:
        with safe_open(path, framework=framework) as file:
            yield file
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise Unusable(f"{path}: truncated, or not a checkpoint of this project ({error})") from None
