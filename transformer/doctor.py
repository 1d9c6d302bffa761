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
from transformer.pipeline.plan import array_bytes, planned_runs, run_bytes, text_bytes
from transformer.pipeline.scale import RESOURCES, Pipeline
from transformer.process import take_lock
from transformer.storage.files import InputError, origin, replacing

LEVELS = ("ok", "warning", "error")
ANSWER_SECONDS = 10.0  # for a server to answer


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
warning = partial(Finding, "warning")  # a run may be slow, or may fail
error = partial(Finding, "error")  # a run will fail


def check_packages(lock: Path = Path("requirements.lock")) -> Finding:
    """Compare the installed packages with requirements.lock."""
    level, others, lines = warning, [], lock.read_text(encoding="utf-8").splitlines()
    pinned = [line.split("==") for line in lines if line and not line.startswith("#")]
    for name, expected in pinned:
        try:
            found = version(name).partition("+")[0]  # without a build's suffix such as +cpu
        except PackageNotFoundError:
            level, found = error, "missing"
        if found != expected:
            others.append(f"{name} {found}, not {expected}")
    if not others:
        return ok("packages", f"{len(pinned)} packages as in {lock.name}")
    message = f"{len(others)} of {len(pinned)} differ from {lock.name}, such as {'; '.join(others[:5])}"
    return level("packages", message, "python -m pip install -r requirements.lock, as `make` does")


def check_gpus(asked: int | None = None) -> Iterator[Finding]:
    """Check that PyTorch sees a GPU if this machine has any, or those that a job asked for, and that each computes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    expected = int(given_gpu() is not None) if asked is None else asked
    if seen < expected:
        reason, fix = reason_unusable([str(message.message) for message in caught])
        yield error("GPUs", f"{expected} expected, PyTorch sees {seen}: {reason}", fix)
    elif not seen:
        yield ok("GPUs", "none; trainings run on the processor")
    for number in range(seen):
        subject, device = f"GPU {number}", torch.device("cuda", number)
        try:
            x = torch.ones(64, 64, device=device)
            torch.testing.assert_close(x @ x, 64 * x)
            free, total = torch.cuda.mem_get_info(device)
        except (RuntimeError, AssertionError) as failure:
            yield error(subject, origin(failure), DRIVER)
            continue
        about = f"{torch.cuda.get_device_name(device)}, {gib(free)} of {gib(total)} free"
        try:
            torch.compile(torch.square)(x)
            yield ok(subject, f"{about}, computes and compiles")
        except Exception as failure:  # Dynamo, Inductor, Triton and the C compiler raise their own kinds
            fix = "install a C compiler and Python's headers (Debian: gcc python3-dev; conda: c-compiler)"
            yield warning(subject, f"{about}: cannot compile, trainings are slower: {origin(failure)}", fix)


def existing(folder: Path) -> Path:
    """Return the folder if it exists, else the nearest parent that does."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())


def trial(folder: Path) -> TemporaryDirectory:
    """Return a temporary folder in `folder`, or where that will be."""
    return TemporaryDirectory(dir=existing(folder), prefix=".doctor-", ignore_cleanup_errors=True)


def check_folder(folder: Path, needed: int = 0) -> Finding:
    """Check that `needed` bytes are free, and that files can be written, replaced and locked."""
    subject, needed, there = f"folder {folder}", max(2**30, needed), existing(folder)
    try:
        with trial(folder) as place, open(Path(place, "file"), "a+") as file:
            take_lock(file)
            with replacing(Path(place, "file")) as other:
                other.write("new")
    except (OSError, InputError) as failure:
        fix = f"make it writable, or make {folder} a link to a folder that is"
        return error(subject, f"cannot be written: {failure}", fix)
    if (free := shutil.disk_usage(there).free) < needed:
        fix = f"free space, or make {folder} a link to a larger disk; `python -m transformer plan` lists the needs"
        return error(subject, f"{gib(free)} free, {gib(needed)} needed", fix)
    return ok(subject, f"{gib(free)} free; files can be written, replaced and locked")


def needed_space(config: dict) -> dict[Path, int]:
    """Return the bytes that the scale still needs in results/ and resources/; all in results/ if they share a disk."""
    pipeline, folder = Pipeline(config), Path(config["results"])
    runs = planned_runs(pipeline)
    tasks = {run.task for run in runs}
    texts = text_bytes(pipeline, tasks, RESOURCES.corpus("any", "en").parent)
    archives = sum(entry.get("size") or 0 for entry in missing_downloads(config).values())
    here = [path.stat(follow_symlinks=False) for path in pipeline.files.folder.rglob("*") if path.is_file()]
    used = sum({file.st_ino: file.st_size for file in here}.values())  # a file with two names counts once
    results = max(0, array_bytes(pipeline, tasks) + sum(map(run_bytes, runs.values())) - used)
    if existing(folder).stat().st_dev == existing(RESOURCES.folder).stat().st_dev:
        return {folder: results + archives + texts, RESOURCES.folder: 0}
    return {folder: results, RESOURCES.folder: archives + texts}


def gib(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB"


def missing_downloads(config: dict) -> dict[str, dict]:
    """Return the downloads that the scale needs and that are not here yet, by name."""
    names = downloads_of(sources(config, tasks_of(config)))
    return {name: config["downloads"][name] for name in names if not RESOURCES.download(name).exists()}


def check_downloads(config: dict) -> Iterator[Finding]:
    """Check that missing downloads can be had."""
    needed = missing_downloads(config)
    with ThreadPoolExecutor(16) as pool:
        problems = dict(zip(needed, pool.map(partial(refusal, mirror=config["mirror"]), needed.values()), strict=True))
    fix = "a way to the network, or copy the file to <DIR>/<host>/<path> of an address and give --config mirror=<DIR>"
    for name, problem in problems.items():
        if problem:
            yield error("downloads", f"{name}: {problem}", fix)
    if not any(problems.values()):
        yield ok("downloads", f"{len(needed)} files are missing, and can be had")


def refusal(entry: dict, mirror: str) -> str | None:
    """Return the reason that no address or mirror has a download; None if one does."""
    for url in (url for edition in [entry, *entry.get("alternatives", [])] for url in edition["urls"]):
        if mirror:
            file = Path(mirror, *url.split("/")[2:])
            problem = None if file.is_file() else f"no file {file}"
        else:
            try:
                response = requests.head(url, timeout=ANSWER_SECONDS, allow_redirects=True)
                refused = response.status_code >= 400 and response.status_code != 405  # 405: it only refuses HEAD
                problem = f"{url}: HTTP {response.status_code} {response.reason}" if refused else None
            except requests.RequestException as failure:
                problem = f"{url}: {origin(failure)}"
        if problem is None:
            return None
    return problem
