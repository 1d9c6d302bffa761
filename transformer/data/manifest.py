"""The counts of a split ({split}.json), and data.json, by whose checksum a training knows its data."""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, TypedDict

from msgspec import Meta

from transformer.files import InputError
from transformer.records import Checksum, Count, read_json


class Counts(TypedDict):
    """The numbers of pairs of a split. That of tokenised text has "read", too, that of a treebank others."""

    kept: Count


class Read(Counts):
    """The numbers of pairs of a split, or of a part of it, that was tokenised."""

    read: Count


class Manifest(TypedDict):
    """The content of data.json."""

    files: Annotated[dict[str, Checksum], Meta(min_length=1)]  # the checksum of each, by name
    splits: dict[str, dict[str, Any]]
    sha256: Checksum


def checksum_of(files: dict[str, str]) -> str:
    """Return the checksum of data with these files."""
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def read_manifest(path: Path) -> Manifest:
    """Return the content of data.json. Raises InputError naming the file and the key, also on a wrong checksum."""
    manifest = read_json(path, Manifest)
    if manifest["sha256"] != (expected := checksum_of(manifest["files"])):
        raise InputError(f"{path}, sha256: expected {expected}, which its files make, found {manifest['sha256']}")
    return manifest
