"""Checks of the folders that a run writes: room, renaming, times, locks."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from transformer.common.files import InputError, replacing
from transformer.doctor.finding import Finding, error, ok
from transformer.runtime.lock import taken

LEAST = 2**30  # bytes, without which even the demo ends early
SEEN_WITHIN = 30  # seconds until a machine sees what another wrote; latency-wait in the profiles allows twice as many
RESULTS, TEMPORARY = Path("results"), Path(gettempdir())
SKEW = 2.0  # seconds between two clocks; some file systems know no shorter time


def existing(folder: Path) -> Path:
    """The folder, or the nearest around it that exists."""
    folder = folder.absolute()
    return next(path for path in (folder, *folder.parents) if path.is_dir())


@contextmanager
def trial(folder: Path) -> Iterator[Path]:
    """A folder to try things in where `folder` is, or will be. Gone afterwards."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is no folder")
    with TemporaryDirectory(dir=existing(folder), prefix=".doctor-", ignore_cleanup_errors=True) as place:
        yield Path(place)


def folder(path: Path, needed: int = 0) -> Iterator[Finding]:
    """Files can be written and renamed there, get this machine's time, and can be locked; `needed` bytes are free."""
    about = f"folder {path}"
    try:
        problems = [room(path, needed)]
        with trial(path) as place:
            for name in ("new", "renamed"):  # over an old one, too: every output is written aside
                with replacing(place / "file") as file:
                    file.write(name)
            problems += [clock(place / "file", about), lock(place, about)]
    except OSError as failure:
        fix = f"make it writable, or make {path} a link to a folder that is"
        problems = [error(about, f"cannot be written: {failure.strerror or failure}", fix)]
    found = [problem for problem in problems if problem]
    free = size(shutil.disk_usage(existing(path)).free)
    yield from found or [ok(about, f"{free} free; files can be written, renamed and locked, and have the right time")]


def room(path: Path, needed: int = 0) -> Finding | None:
    """What is wrong unless there is room for `needed` bytes."""
    free, needed = shutil.disk_usage(existing(path)).free, max(LEAST, needed)
    if free >= needed:
        return None
    fix = f"make room, or make {path} a link to a folder on a larger disk; `python -m transformer plan` says what for"
    return error(f"folder {path}", f"{size(free)} free, {size(needed)} needed", fix)


def size(count: int) -> str:
    """Bytes for people."""
    return f"{count / 2**30:,.1f} GiB"


def clock(file: Path, about: str) -> Finding | None:
    """What is wrong unless a file that was written just now has this machine's time."""
    ahead = file.stat().st_mtime - time.time()
    if abs(ahead) <= SKEW:
        return None
    text = f"its files' times are {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine's clock"
    return error(about, f"{text}: Snakemake takes old for new", "set both clocks by NTP (chronyc tracking)")


def lock(place: Path, about: str) -> Finding | None:
    """What is wrong unless a file that is locked cannot be locked again."""
    with open(place / "lock", "a+") as one, open(place / "lock", "a+") as other, suppress(InputError):
        if taken(one) and not taken(other):
            return None
    fix = "mount it with locks (NFS: with lockd; Lustre: -o flock), or make it a link to a folder that has them"
    return error(about, "files cannot be locked: two trainings would write one run's files", fix)


def taken_here(path: Path) -> bool:
    """Whether this process gets the lock on a file, or the file system has none."""
    with open(path, "a+") as file:
        try:
            return taken(file)
        except InputError:
            return True


def appears(path: Path, expected: str) -> bool:
    """Whether a file with this content can be seen, soon."""
    end = time.monotonic() + SEEN_WITHIN
    while time.monotonic() < end:
        if path.exists() and path.read_text() == expected:
            return True
        time.sleep(0.2)
    return False
