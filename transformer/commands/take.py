r"""Take files that were made elsewhere, by their checksums, into a task's data or a run.

    python -m transformer take --from /data/base-1 --to results/demo/runs/en-de/base/1 \
        --file 3b5d...90 experiment.yaml --file 84f1...e9 run.json
    python -m transformer take --from /data/base-1 --to results/demo/runs/en-de/base/1 --file d79c...3a last.safetensors

Each file is copied if its bytes have the SHA-256 that goes before its name, as in the lines of `sha256sum`.
experiment.yaml and decoding.yaml are not copied: those of --to must have the same settings. run.json must belong to the
training that TO/experiment.yaml describes and, where the task's data are present, to these data; its copy names the
folder it was taken from. data.json must belong to the arrays and the vocabulary in --to.
"""

import argparse
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from transformer.commandline import stage_parser
from transformer.config.experiment import UNTRAINED, Decoding, Experiment, load
from transformer.config.reading import read_yaml
from transformer.data.corpus import Manifest, read_manifest
from transformer.files import InputError, open_input, replacing, sha256
from transformer.records import Trained, read_json

CHUNK = 2**20  # bytes
SETTINGS = {"experiment.yaml": Experiment, "decoding.yaml": Decoding}
READ = (*SETTINGS, "run.json", "data.json")  # files that are checked before anything is written


def main(argv: list[str] | None = None) -> None:
    """Take the files in their order."""
    args = parse(argv)
    for expected, name in args.file:
        source, target = args.folder / name, args.to / name
        if name in READ:
            check(source, expected, sha256(source))
        if name in SETTINGS:
            check_settings(source, target, SETTINGS[name])
        elif name == "run.json":
            take_run(source, target, expected)
        elif name == "data.json":
            check_data(source, args.to)
            copy(source, target, expected)
        else:
            copy(source, target, expected)


def check(source: Path, expected: str, actual: str) -> None:
    """Raise InputError where the sum of a file is not the expected one."""
    if actual != expected:
        raise InputError(f"{source}: expected SHA-256 {expected}, found {actual}")


def copy(source: Path, target: Path, expected: str) -> None:
    """Copy a file, reading it once, if it has the right sum; no link, as a change to one would change both."""
    digest = hashlib.sha256()
    with open_input(source) as read, replacing(target, "wb") as file:
        while chunk := read.read(CHUNK):
            digest.update(chunk)
            file.write(chunk)
        check(source, expected, digest.hexdigest())
    print(f"{target}: from {source}, SHA-256 as expected")


def check_settings(source: Path, target: Path, section: type) -> None:
    """Raise InputError naming the keys in which the settings differ from those in --to."""
    here, there = msgspec.to_builtins(load(target, section)), read_yaml(source)
    keys = [key for key in differences(here, there) if key.partition(".")[0] not in UNTRAINED]
    if keys:
        raise InputError(f"{source}: expected the settings of {target}, found others in {', '.join(keys)}")


def differences(here: Any, there: Any, key: str = "") -> Iterator[str]:
    """Yield the keys, dotted, under which two mappings differ."""
    if not (isinstance(here, dict) and isinstance(there, dict)):
        if here != there:
            yield key or "all"
        return
    for name in dict.fromkeys([*here, *there]):
        yield from differences(here.get(name), there.get(name), f"{key}.{name}" if key else str(name))


def take_run(source: Path, target: Path, expected: str) -> None:
    """Write run.json with its origin. Raises InputError where it belongs to another training than this run."""
    run, experiment = read_json(source, Trained), load(target.parent / "experiment.yaml")
    digest, data_sha256 = run["digest"], run["data_sha256"]
    if digest != (expected_digest := experiment.digest(data_sha256)):
        training = f"digest {expected_digest}, the training of {target.parent / 'experiment.yaml'}"
        raise InputError(f"{source}: expected {training}, found {digest}: its settings differ")
    data = target.parents[4] / "data" / experiment.task / "data.json"
    if data.exists() and (here := read_json(data, Manifest)["sha256"]) != data_sha256:
        raise InputError(f"{source}: expected data_sha256 {here}, as {data} says, found {data_sha256}")
    with replacing(target) as file:
        json.dump(run | {"taken": {"from": str(source.parent), "sha256": expected}}, file, indent=1)
    print(f"{target}: from {source}, of the configured training")


def check_data(source: Path, data: Path) -> None:
    """Raise InputError where the arrays and the vocabulary in `data` are not those that data.json names."""
    for name, expected in read_manifest(source)["files"].items():
        if (actual := sha256(data / name)) != expected:
            raise InputError(f"{source}: expected a file of {data / name}, SHA-256 {actual}, found one of {expected}")


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = stage_parser("take", __doc__)
    options = {"required": True, "metavar": "DIR", "type": Path}
    parser.add_argument("--from", dest="folder", help="the folder to take from", **options)
    parser.add_argument("--to", help="the folder of the task's data or the run", **options)
    options = {"required": True, "metavar": ("SUM", "NAME"), "nargs": 2, "action": "append"}
    parser.add_argument("--file", help="SHA-256 and path in both folders; repeat", **options)
    return parser.parse_args(argv)
