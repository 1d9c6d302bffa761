"""Checks of a machine: packages, GPUs, the folders that a run writes, and the downloads that a scale needs."""

import shutil
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

import requests
import torch

from transformer.config.scales import downloads_of, sources, tasks_of
from transformer.device import DRIVER, given_gpu, reason_unusable
from transformer.files import InputError, origin, replacing
from transformer.pipeline import RESOURCES, Pipeline
from transformer.plan import Speed, array_bytes, make_plan, text_bytes
from transformer.process import take_lock

LEVELS = ("ok", "note", "warning", "error")
_INSTALL = "python -m pip install -r requirements.lock, as `make` does"
SHOWN = 5  # names in one line
ANSWER_SECONDS = 10.0  # for a server to answer
MIRROR = "a way to the network, or copy the file to <DIR>/<host>/<path> of an address and give --config mirror=<DIR>"
_LEAST = 2**30  # bytes; the demo needs less
_COMPILER = "install a C compiler and Python's headers (Debian: gcc python3-dev; conda: c-compiler)"


@dataclass(frozen=True)
class Finding:
    """One of LEVELS, the thing that was checked, its state, and how to fix it."""

    level: str
    subject: str
    message: str
    fix: str = ""

    def __str__(self) -> str:
        fix = f" Fix: {self.fix}." if self.fix else ""
        return f"{self.level:7} " + " ".join(f"{self.subject}: {self.message}.{fix}".split())


ok = partial(Finding, "ok")
note = partial(Finding, "note")
warning = partial(Finding, "warning")  # a run may be slow, or may fail
error = partial(Finding, "error")  # a run will fail


def check_machine(config: dict, mirror: str) -> Iterator[Finding]:
    """Check this machine for the scale of a configuration. mirror: a folder with the downloads, or "" for the net."""
    yield from check_packages()
    yield from check_gpus()
    for folder, needed in needed_space(config).items():
        yield check_folder(folder, needed)
    yield from check_downloads(config, mirror)


def few(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return "; ".join(names[:SHOWN]) + more


def check_packages(lock: Path = Path("requirements.lock")) -> Iterator[Finding]:
    """Compare the installed packages with requirements.lock."""
    if not lock.exists():
        raise InputError(f"{lock}: no such file; doctor runs in the project's folder")
    lines = lock.read_text(encoding="utf-8").splitlines()
    missing, others, pinned = [], [], [line.split("==") for line in lines if line and not line.startswith("#")]
    for name, expected in pinned:
        try:
            found = version(name).partition("+")[0]  # without a build's suffix such as +cpu
        except PackageNotFoundError:
            missing.append(name)
        else:
            others += [f"{name} {found}, not {expected}"] * (found != expected)
    if missing:
        yield error("packages", f"{few(missing)} of {lock.name} not installed", _INSTALL)
    if others:
        yield warning("packages", f"other versions than in {lock.name}: {few(others)}", _INSTALL)
    if not missing + others:
        yield ok("packages", f"{len(pinned)} packages as in {lock.name}")


def check_gpus(asked: int | None = None, devices: Path = Path("/dev")) -> Iterator[Finding]:
    """Check that PyTorch sees a GPU if this machine has any, or those that a job asked for, and that each computes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    expected = int(given_gpu(devices) is not None) if asked is None else asked
    if seen < expected:
        reason, fix = reason_unusable([str(message.message) for message in caught])
        yield error("GPUs", f"{expected} expected, PyTorch sees {seen}: {reason}", fix)
    elif not seen:
        yield ok("GPUs", "none; trainings run on the processor")
    yield from map(_check_gpu, range(seen))


def _check_gpu(number: int) -> Finding:
    """Multiply and compile on a GPU."""
    subject, device = f"GPU {number}", torch.device("cuda", number)
    try:
        x = torch.ones(64, 64, device=device)
        torch.testing.assert_close(x @ x, 64 * x)
        free, total = torch.cuda.mem_get_info(device)
    except (RuntimeError, AssertionError) as failure:
        return error(subject, origin(failure), DRIVER)
    about = f"{torch.cuda.get_device_name(device)}, {gib(free)} of {gib(total)} free"
    try:
        torch.compile(torch.square)(x)
    except Exception as failure:  # Dynamo, Inductor, Triton and the C compiler raise their own kinds
        return warning(subject, f"{about}: cannot compile, trainings are slower: {origin(failure)}", _COMPILER)
    if torch.cuda.get_device_capability(device) < (8, 0):
        return warning(subject, f"{about}: no bfloat16, trainings are slower", "a GPU of 2020 or later")
    return ok(subject, f"{about}, computes and compiles")


def existing(folder: Path) -> Path:
    """Return the folder if it exists, else the nearest parent that does."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())


def trial(folder: Path) -> TemporaryDirectory:
    """Return a temporary folder in `folder`, or where that will be."""
    return TemporaryDirectory(dir=existing(folder), prefix=".doctor-", ignore_cleanup_errors=True)


def check_folder(folder: Path, needed: int = 0) -> Finding:
    """Check that `needed` bytes are free, and that files can be written, replaced and locked."""
    subject, needed = f"folder {folder}", max(_LEAST, needed)
    try:
        with trial(folder) as place:
            for name in ("new", "replaced"):
                with replacing(Path(place, "file")) as file:
                    file.write(name)
            with open(Path(place, "file"), "a+") as file:
                take_lock(file)
        free = shutil.disk_usage(existing(folder)).free
    except (OSError, InputError) as failure:
        fix = f"make it writable, or make {folder} a link to a folder that is"
        return error(subject, f"cannot be written: {failure}", fix)
    if free < needed:
        fix = f"free space, or make {folder} a link to a larger disk; `python -m transformer plan` lists the needs"
        return error(subject, f"{gib(free)} free, {gib(needed)} needed", fix)
    return ok(subject, f"{gib(free)} free; files can be written, replaced and locked")


def needed_space(config: dict) -> dict[Path, int]:
    """Return the bytes that the scale still needs in results/ and resources/; all in results/ if they share a disk."""
    pipeline = Pipeline(config)
    plan = make_plan(pipeline, Speed("GPU", "any", 1.0, ""), units=1)  # the speed is not used
    tasks = {run.task for run in plan.runs}
    results = array_bytes(pipeline, tasks) + plan.disk(plan.runs)
    texts = text_bytes(pipeline, tasks, RESOURCES.corpus("any", "en").parent)
    archives = sum(entry.get("size") or 0 for entry in missing_downloads(config).values())
    here = [path.stat(follow_symlinks=False) for path in pipeline.files.folder.rglob("*") if path.is_file()]
    used = sum({file.st_ino: file.st_size for file in here}.values())  # a file with two names counts once
    folder = Path(config["results"])
    needed = {folder: max(0, results - used), RESOURCES.folder: archives + texts}
    if len({existing(place).stat().st_dev for place in needed}) == 1:
        return {folder: sum(needed.values()), RESOURCES.folder: 0}
    return needed


def gib(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB"


def missing_downloads(config: dict) -> dict[str, dict]:
    """Return the downloads that the scale needs and that are not here yet, by name."""
    names = downloads_of(sources(config, tasks_of(config)))
    return {name: config["downloads"][name] for name in names if not RESOURCES.download(name).exists()}


def check_downloads(config: dict, mirror: str) -> Iterator[Finding]:
    """Check that missing downloads can be had, and that corpora of this machine exist."""
    needed = missing_downloads(config)
    with ThreadPoolExecutor(16) as pool:
        found = zip(needed, pool.map(partial(refusal, mirror=mirror), needed.values()), strict=True)
        problems = {name: problem for name, problem in found if problem}
    for name, problem in problems.items():
        yield error("downloads", f"{name}: {problem}", MIRROR)
    if not problems:
        yield ok("downloads", f"{len(needed)} files are missing, and can be had")
    for entry in sources(config, tasks_of(config)):
        if "path" in entry and not Path(entry["path"]).exists():
            licensed = "sections" in entry
            message = f"no {entry['path']}{': without the Penn Treebank, Table 4 is left out' if licensed else ''}"
            yield (note if licensed else error)("corpora", message, "put it there, or name another in config.yaml")


def refusal(entry: dict, mirror: str) -> str | None:
    """Return the reason that no address or mirror has a download; None if one does."""
    for edition in [entry, *entry.get("alternatives", [])]:
        for url in edition["urls"]:
            if mirror:
                file, size = Path(mirror, *url.split("/")[2:]), edition.get("size")
                found = file.stat().st_size if file.is_file() else 0
                fits = found and size in (None, found)
                problem = None if fits else f"{file}: expected {size or 'some'} bytes, found {found}"
            else:
                problem = _silence(url)
            if problem is None:
                return None
    return problem


def _silence(url: str) -> str | None:
    """Return the reason that a server refuses a file; None if it serves it."""
    try:
        response = requests.head(url, timeout=ANSWER_SECONDS, allow_redirects=True)
    except requests.RequestException as failure:
        return f"{url}: {origin(failure)}"
    refused = response.status_code >= 400 and response.status_code != 405  # 405: the server answers, but not to HEAD
    return f"{url}: HTTP {response.status_code} {response.reason}" if refused else None
