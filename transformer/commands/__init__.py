"""The subcommands for people, torchrun and the rules. A function's signature defines its command line."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from transformer.layout import Run
from transformer.storage.files import InputError


def require_separate(
    writes: Mapping[str, Path | None],
    reads: Mapping[str, Iterable[str | Path | None]],
    run: Path | None = None,
    foreign: Iterable[Path] = (),
) -> None:
    """Raise InputError if an output is an input, a file of `run` or another output, or if a path in `foreign` exists.

    writes, reads: by option. foreign: paths that the command would write without being asked to replace them.
    """
    read = {**reads, "--run": Run(run).inputs if run else ()}
    taken = {_identity(path): option for option, paths in read.items() for path in paths if path}
    for option, path in writes.items():
        if path is None or (path.exists() and not path.is_file()):  # a device or a pipe loses nothing
            continue
        if (other := taken.setdefault(_identity(path), option)) != option:
            raise InputError(f"{option}: expected a path of its own, found {path}, which {other} names or contains")
    if there := next(filter(os.path.lexists, foreign), None):
        raise InputError(f"{there}: refusing to replace a file that this command did not write; move it elsewhere")


def _identity(path: str | Path) -> object:
    """Return the same value for all names of a file, links included."""
    found = os.stat(path) if os.path.exists(path) else None
    return (found.st_dev, found.st_ino) if found else os.path.realpath(path)
