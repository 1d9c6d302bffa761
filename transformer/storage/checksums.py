"""Checksums of the files in a folder. A reader compares them to detect files that were not written together.

data.json, run.json and export.json have the SHA-256 of files in their folder. A score file has the SHA-256 of the
scored files. Files without a checksum, for example in a run.json of an older version, are not checked.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from transformer.storage.files import InputError, sha256
from transformer.storage.records import (
    Manifest,
    Trained,
    read_json,
    read_summed,
    read_translated,
    require_own_sum,
    with_sum,
    write_json,
)


def sums_of(paths: Iterable[Path]) -> dict[str, str]:
    """Return the SHA-256 of files by name."""
    return {path.name: sha256(path) for path in paths}


def require_sums(record: Path, sums: Mapping[str, str], paths: Iterable[Path]) -> None:
    """Raise InputError if the checksum of a file differs from its checksum in `record`. sums: checksums by name."""
    for path in paths:
        expected = sums.get(path.name)
        if expected and path.exists() and (found := sha256(path)) != expected:
            found = f"expected SHA-256 {expected[:16]}…, found {found[:16]}…"
            raise InputError(f"{path}: damaged, or replaced after {record} was written: {found}")


def require_scored(score: Path, hyp: Path, ref: Path) -> None:
    """Compare a translation and its references with the checksums in its score file, if it exists."""
    if score.exists():
        content = read_translated(score)
        require_sums(score, {hyp.name: content["hyp_sha256"], ref.name: content["ref_sha256"]}, (hyp, ref))


def read_manifest(path: str | Path) -> Manifest:
    """Read data.json. Raises InputError if it has changed since it was written."""
    manifest = read_json(path, Manifest)
    require_own_sum(path, manifest, manifest["files"])
    return manifest


def read_trained(path: str | Path) -> Trained:
    """Read run.json. Raises InputError if it has changed since it was written."""
    return read_summed(path, Trained)


def write_trained(path: Path, record: Mapping[str, Any], files: Iterable[Path]) -> None:
    """Write run.json with the checksums of these files in its folder and its own checksum."""
    write_json(path, with_sum(record | {"files": sums_of(files)}), indent=1)
