"""Whether files were written together: the checksums that a folder has of its files, compared where these are read.

data.json, run.json and export.json have the SHA-256 of files beside them, a score file that of what was scored. What
they do not name, as a run.json of an older version, is not checked.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from transformer.storage.files import InputError, sha256
from transformer.storage.records import (
    Manifest,
    Trained,
    read_json,
    read_translated,
    require_own_sum,
    with_sum,
    without_sum,
    write_json,
)


def sums_of(paths: Iterable[Path]) -> dict[str, str]:
    """Return the SHA-256 of files by their names."""
    return {path.name: sha256(path) for path in paths}


def require_sums(record: Path, sums: Mapping[str, str], paths: Iterable[Path]) -> None:
    """Raise InputError if a file is not the one whose checksum `record` has. sums: by name, of all that it has."""
    for path in paths:
        expected = sums.get(path.name)
        if expected and path.exists() and (found := sha256(path)) != expected:
            found = f"expected SHA-256 {expected[:16]}…, found {found[:16]}…"
            raise InputError(f"{path}: damaged, or not the file that {record} is about: {found}")


def require_scored(score: Path, hyp: Path, ref: Path) -> None:
    """Compare a translation and its references with its score file, if it has one."""
    if score.exists():
        content = read_translated(score)
        require_sums(score, {hyp.name: content["hyp_sha256"], ref.name: content["ref_sha256"]}, (hyp, ref))


def read_manifest(path: str | Path) -> Manifest:
    """Read data.json. Raises InputError if it is not as it was written."""
    manifest = read_json(path, Manifest)
    require_own_sum(path, manifest, manifest["files"])
    return manifest


def read_trained(path: str | Path) -> Trained:
    """Read run.json. Raises InputError if it is not as it was written."""
    record = read_json(path, Trained)
    require_own_sum(path, record, without_sum(record))
    return record


def write_trained(path: Path, record: Mapping[str, Any], files: Iterable[Path]) -> None:
    """Write run.json with the checksums of these files beside it, and its own."""
    write_json(path, with_sum(without_sum(record) | {"files": sums_of(files)}), indent=1)
