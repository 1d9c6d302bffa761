"""Checks of the folders that a run writes: free space, renaming, file times, locks; and the space a scale needs."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from transformer.doctor.downloads import missing
from transformer.doctor.finding import Finding, error, ok
from transformer.files import InputError, replacing
from transformer.plan import storage
from transformer.plan.plan import make_plan
from transformer.plan.speed import Speed
from transformer.runtime.lock import taken

LEAST = 2**30  # bytes; even the demo does not end with less
SEEN_WITHIN = 30  # seconds until a machine sees what another wrote; latency-wait in the profiles allows twice as many
RESULTS, RESOURCES, TEMPORARY = Path("results"), Path("resources"), Path(gettempdir())
SKEW = 2.0  # seconds between two clocks; some file systems store times no more finely

NO_SPEED = Speed("GPU", "any", 1.0, "")  # disk space does not depend on it


def existing(folder: Path) -> Path:
    """Return the folder if it exists, or else the nearest parent that does."""
    folder = folder.absolute()
    return next(path for path in (folder, *folder.parents) if path.is_dir())


@contextmanager
def trial(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder inside `folder`, or where that will be."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is no folder")
    with TemporaryDirectory(dir=existing(folder), prefix=".doctor-", ignore_cleanup_errors=True) as place:
        yield Path(place)


def check_folder(folder: Path, needed: int = 0) -> Iterator[Finding]:
    """Check that `needed` bytes are free, and that files can be written, renamed and locked and get the right time."""
    subject = f"folder {folder}"
    try:
        problems = [check_space(folder, needed)]
        with trial(folder) as place:
            for name in ("new", "renamed"):  # the second replaces the first, as outputs are replaced
                with replacing(place / "file") as file:
                    file.write(name)
            problems += [check_time(place / "file", subject), check_lock(place, subject)]
    except OSError as failure:
        fix = f"make it writable, or make {folder} a link to a folder that is"
        problems = [error(subject, f"cannot be written: {failure.strerror or failure}", fix)]
    findings = [problem for problem in problems if problem]
    free = gib(shutil.disk_usage(existing(folder)).free)
    message = f"{free} free; files can be written, renamed and locked, and have the right time"
    yield from findings or [ok(subject, message)]


def check_space(folder: Path, needed: int = 0) -> Finding | None:
    """Return an error unless `needed` bytes are free."""
    free, needed = shutil.disk_usage(existing(folder)).free, max(LEAST, needed)
    if free >= needed:
        return None
    fix = f"make room, or make {folder} a link to a folder on a larger disk; `python -m transformer plan` says what for"
    return error(f"folder {folder}", f"{gib(free)} free, {gib(needed)} needed", fix)


def needed_space(config: dict) -> dict[Path, int]:
    """Return the bytes that the scale needs in results/ and resources/; all in results/ where both are on one disk."""
    plan = make_plan(config, NO_SPEED, units=1)
    tasks = {run.task for run in plan.all}
    trained = {run.task for run in plan.trained}
    results = storage.array_bytes(config, trained) + storage.part_bytes(config, trained)
    results += plan.disk(plan.all) + plan.saving
    files = [path.stat(follow_symlinks=False) for path in (RESULTS / config["scale"]).rglob("*") if path.is_file()]
    used = sum({file.st_ino: file.st_size for file in files}.values())  # a file with several names counts once
    downloads = sum(entry.get("size", 0) for entry in missing(config).values())
    here = {
        RESULTS: max(0, results - used),
        RESOURCES: downloads + storage.text_bytes(config, tasks, RESOURCES / "corpora"),
    }
    if len({existing(path).stat().st_dev for path in here}) == 1:
        return {RESULTS: sum(here.values()), RESOURCES: 0}
    return here


def gib(count: int) -> str:
    """Return bytes in GiB."""
    return f"{count / 2**30:,.1f} GiB"


def check_time(file: Path, subject: str) -> Finding | None:
    """Return an error unless a file that was written just now has this machine's time."""
    ahead = file.stat().st_mtime - time.time()
    if abs(ahead) <= SKEW:
        return None
    message = f"its files' times are {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine's clock"
    return error(subject, f"{message}: Snakemake takes old for new", "set both clocks by NTP (chronyc tracking)")


def check_lock(place: Path, subject: str) -> Finding | None:
    """Return an error unless a file that is locked cannot be locked again."""
    with open(place / "lock", "a+") as first, open(place / "lock", "a+") as second, suppress(InputError):
        if taken(first) and not taken(second):
            return None
    fix = "mount it with locks (NFS: with lockd; Lustre: -o flock), or make it a link to a folder that has them"
    return error(subject, "files cannot be locked: two trainings would write one run's files", fix)


def lock_is_free(path: Path) -> bool:
    """Return whether this process gets the lock on a file, or the file system has no locks."""
    with open(path, "a+") as file:
        try:
            return taken(file)
        except InputError:
            return True


def appears(path: Path, expected: str) -> bool:
    """Return whether a file with the expected content is seen within SEEN_WITHIN seconds."""
    end = time.monotonic() + SEEN_WITHIN
    while time.monotonic() < end:
        if path.exists() and path.read_text() == expected:
            return True
        time.sleep(0.2)
    return False
