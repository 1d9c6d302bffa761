"""Checks of a machine: its packages and its processors."""

import importlib.metadata
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from transformer.doctor.finding import Finding, error, note, ok, warning
from transformer.files import InputError
from transformer.runtime.cgroups import granted, group_files

LOCK = Path("requirements.lock")
SHOWN = 5  # packages that a line names
INSTALL = "python -m pip install -r requirements.lock, as `make` does"


def pinned(lock: Path) -> dict[str, str]:
    """Return the version of each package in requirements.lock. Raises InputError where there is no such file."""
    try:
        lines = lock.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise InputError(f"{lock}: no such file; doctor runs in the project's folder") from None
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def installed(names: list[str]) -> dict[str, str]:
    """Return the versions of these packages here, without a build's suffix such as +cpu; "" where there is none."""
    versions = {}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name).partition("+")[0]
        except importlib.metadata.PackageNotFoundError:
            versions[name] = ""
    return versions


def check_packages(lock: Path) -> Iterator[Finding]:
    """Check that every package of requirements.lock is installed in its version."""
    expected = pinned(lock)
    here = installed(list(expected))
    missing = [name for name in expected if not here[name]]
    others = [
        f"{name} {here[name]}, not {expected[name]}" for name in expected if here[name] not in ("", expected[name])
    ]
    if missing:
        yield error("packages", f"{few(missing)} of {lock.name} not installed", INSTALL)
    if others:
        yield warning("packages", f"other versions than in {lock.name}: {few(others)}", INSTALL)
    if not missing and not others:
        yield ok("packages", f"Python {platform.python_version()}, {len(expected)} packages as in {lock.name}")


def check_same_packages(here: dict[str, str], there: dict[str, str]) -> Finding:
    """Check that two machines' versions are the same."""
    others = [
        f"{name} {there.get(name) or 'missing'}, here {here[name]}" for name in here if there.get(name) != here[name]
    ]
    if others:
        fix = "use one environment, on a shared file system"
        return error("packages", f"not those of this machine: {few(others)}", fix)
    return ok("packages", "those of this machine")


def versions(lock: Path) -> dict[str, str]:
    """Return the versions that two machines must have in common."""
    return {"python": platform.python_version()} | installed(list(pinned(lock)))


def few(names: list[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return "; ".join(names[:SHOWN]) + more


def check_processors(asked: int | None = None) -> Iterator[Finding]:
    """Check that this process may use the machine's processors, or those that were asked for."""
    usable, present = len(os.sched_getaffinity(0)), os.cpu_count()
    share = f"{usable} of {present} cores may be used"
    if usable < (asked or present):
        if asked:
            fix = "--cpus-per-task for srun, too, which does not take sbatch's"
            yield error("processors", f"{share}, asked for {asked}", fix)
        else:
            yield warning("processors", share, "start without taskset or numactl")
    elif asked and usable > asked:
        yield note("processors", f"{share}, asked for {asked}: jobs on one node may get in each other's way")
    else:
        memory = min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *granted()])
        yield ok("processors", f"{share}, with {memory / 2**30:.3g} GiB of memory")
    limits = [file.read_text().split() for file in group_files("cpu.max")]
    shares = [int(time) / int(period) for time, period in limits if time != "max"]
    if shares and (quota := min(shares)) < usable:
        fix = f"--cores {max(1, int(quota))}, or a container or job with more"
        yield warning("processors", f"the control group grants the time of {quota:g} cores, not of {usable}", fix)


def check_openmp() -> Iterator[Finding]:
    """Check that OMP_NUM_THREADS, where it is set, is a number that makes sense."""
    value = os.environ.get("OMP_NUM_THREADS")
    usable = len(os.sched_getaffinity(0))
    if value is None:
        return
    if not all(part.strip().isdecimal() and int(part) for part in value.split(",")):
        yield warning("OMP_NUM_THREADS", f"expected a number above 0, found {value!r}", "unset OMP_NUM_THREADS")
    elif int(value.split(",")[0]) > usable:
        message = f"{value}, more than the {usable} cores that may be used: threads wait for each other"
        yield warning("OMP_NUM_THREADS", message, "unset OMP_NUM_THREADS")
    else:
        yield note("OMP_NUM_THREADS", f"{value}; the pipeline's --threads comes before it")
