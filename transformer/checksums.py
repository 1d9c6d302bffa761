"""Whether files were written together: the checksums that a folder has of its files, compared where these are read.

data.json, run.json and export.json have the SHA-256 of files beside them, a score file that of what was scored. What
they do not name, as a run.json of an older version, is not checked.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from transformer.config.experiment import Experiment, load
from transformer.files import InputError, sha256
from transformer.layout import Run
from transformer.records import Exported, Manifest, Trained, averaged_steps, read_json, read_translated, write_json


def sum_of(content: Any) -> str:
    """Return the SHA-256 of a JSON value, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


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


def _require_own(path: str | Path, record: Mapping[str, Any], content: Any) -> None:
    if record.get("sha256") not in (None, found := sum_of(content)):
        expected = f"expected content of SHA-256 {record['sha256'][:16]}…, found {found[:16]}…"
        raise InputError(f"{path}: damaged or edited: {expected}")


def read_manifest(path: str | Path) -> Manifest:
    """Read data.json. Raises InputError if it is not as it was written."""
    manifest = read_json(path, Manifest)
    _require_own(path, manifest, manifest["files"])
    return manifest


def read_trained(path: str | Path) -> Trained:
    """Read run.json. Raises InputError if it is not as it was written."""
    record = read_json(path, Trained)
    _require_own(path, record, {key: value for key, value in record.items() if key != "sha256"})
    return record


def write_trained(path: Path, record: Mapping[str, Any], files: Iterable[Path]) -> None:
    """Write run.json with the checksums of these files beside it, and its own."""
    content = {key: value for key, value in record.items() if key != "sha256"} | {"files": sums_of(files)}
    write_json(path, content | {"sha256": sum_of(content)}, indent=1)


def verified_run(run: Run, *paths: Path) -> Experiment:
    """Return a run's settings. Raises InputError if they, or these files, are not those of its run.json or export.json.

    Weights, which may lie elsewhere, must be of the same training.
    """
    experiment, own = load(run.experiment), [path for path in paths if path.parent.resolve() == run.folder.resolve()]
    if run.record.exists():
        record = read_trained(run.record)
        if (found := experiment.digest(record["data_sha256"], record.get("initial_sha256"))) != record["digest"]:
            expected = f"expected those of the training {record['digest']}, found those of {found}"
            raise InputError(f"{run.experiment}: not the settings that {run.record} is about: {expected}")
        for path in (path for path in paths if path.suffix == run.average.suffix):
            averaged_steps(path, record["digest"])
        require_sums(run.record, record.get("files", {}), own)
    if run.exported.exists():
        sums = read_json(run.exported, Exported)["sha256"]
        require_sums(run.exported, sums, [run.experiment, run.decoding, run.record, *own])
    return experiment
