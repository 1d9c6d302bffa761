"""The command `doctor`: checks for faults that would break a long run on this machine or on a Slurm cluster."""

import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, starmap
from pathlib import Path
from tempfile import TemporaryDirectory

import requests
import torch
from cyclopts.types import PositiveInt

from transformer.commands.cluster import LEVELS, Finding, check_cluster, error, ok, read_profile
from transformer.commands.plan import array_bytes, planned_runs, run_bytes, text_bytes
from transformer.config import settings
from transformer.config.schema import Config, Download
from transformer.device import DRIVER, given_gpu, reason_unusable
from transformer.layout import RESOURCES
from transformer.pipeline.scale import Pipeline
from transformer.process import take_lock
from transformer.storage.files import InputError, origin, write

_TIMEOUT = 10.0  # seconds until a server must have answered


def doctor(
    *,
    profile: Path | None = None,
    config: list[str] | None = None,
    configfile: list[str] | None = None,
    no_probe: bool = False,
    patience: PositiveInt = 120,
) -> None:
    """Check this machine, and optionally a Slurm cluster, for faults that break long runs.

    Each line is a finding: ok, a warning or an error, with a fix. With --profile, doctor also compares the profile's
    requests with each partition's limits, and runs a short job. The exit code is 1 if there is an error.

    python -m transformer doctor --config scale=paper --profile profiles/slurm

    Args:
        profile: folder of a Snakemake profile for Slurm, such as profiles/slurm
        config: settings as KEY=VALUE, like Snakemake's --config
        configfile: YAML files, like Snakemake's --configfile
        no_probe: run no short job on the cluster
        patience: maximum seconds that the short job waits for a node
    """
    read, counts = settings.read(configfile or [], config or []), Counter()
    results = None if no_probe else Path(read.results)
    cluster = check_cluster(read_profile(profile), patience, results) if profile else ()
    folders = starmap(_check_folder, _needed_space(read).items())
    for finding in chain([_check_packages()], _check_gpus(), folders, _check_downloads(read), cluster):
        print(finding, flush=True)
        counts[finding.level] += 1
    print(", ".join(f"{counts[level]} {level}" for level in LEVELS))
    if counts["error"]:
        sys.exit(1)


def _check_packages(lock: Path = Path("requirements.lock")) -> Finding:
    """Compare the installed packages with requirements.lock."""
    level, others, lines = "warning", [], lock.read_text(encoding="utf-8").splitlines()
    pinned = [line.split("==") for line in lines if line and not line.startswith("#")]
    for name, expected in pinned:
        try:
            found = version(name).partition("+")[0]  # without a build suffix such as +cpu
        except PackageNotFoundError:
            level, found = "error", "missing"
        if found != expected:
            others.append(f"{name} {found}, not {expected}")
    if not others:
        return ok("packages", f"all {len(pinned)} packages have the versions of {lock.name}")
    message = f"{len(others)} of {len(pinned)} differ from {lock.name}, such as {'; '.join(others[:5])}"
    return Finding(level, "packages", message, "run `python -m pip install -r requirements.lock`, as `make` does")


def _check_gpus(asked: int | None = None) -> Iterator[Finding]:
    """Check that PyTorch sees this machine's GPU, or the number that a job requested, and that each GPU computes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    expected = int(given_gpu() is not None) if asked is None else asked
    if seen < expected:
        reason, fix = reason_unusable([str(message.message) for message in caught])
        yield error("GPUs", f"expected {expected}, but PyTorch finds {seen}: {reason}", fix)
    elif not seen:
        yield ok("GPUs", "none found; trainings run on the CPU")
    yield from map(_check_gpu, range(seen))


def _check_gpu(number: int) -> Finding:
    subject, device = f"GPU {number}", torch.device("cuda", number)
    try:
        x = torch.ones(64, 64, device=device)
        torch.testing.assert_close(x @ x, 64 * x)
        free, total = torch.cuda.mem_get_info(device)
    except (RuntimeError, AssertionError) as failure:
        return error(subject, origin(failure), DRIVER)
    about = f"{torch.cuda.get_device_name(device)}, {_gib(free)} of {_gib(total)} free"
    try:
        torch.compile(torch.square)(x)
    except Exception as failure:  # Dynamo, Inductor, Triton and the C compiler raise their own types
        fix = "install a C compiler and Python's headers (Debian: gcc python3-dev; conda: c-compiler)"
        message = f"{about}: torch.compile fails, so trainings are slower: {origin(failure)}"
        return Finding("warning", subject, message, fix)
    return ok(subject, f"{about}, computes and compiles")


def _existing(folder: Path) -> Path:
    """Return the folder, or its nearest existing parent."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())


def _check_folder(folder: Path, needed: int = 0) -> Finding:
    """Check that `needed` bytes (1 GiB or more) are free, and that files can be written, replaced and locked."""
    subject, needed = f"folder {folder}", max(2**30, needed)
    try:
        place = TemporaryDirectory(dir=_existing(folder), prefix=".doctor-", ignore_cleanup_errors=True)
        with place, open(Path(place.name, "file"), "a+") as file:
            take_lock(file)
            write(file.name, "new")
    except (OSError, InputError) as failure:
        fix = f"make it writable, or make {folder} a link to a writable folder"
        return error(subject, f"cannot write, replace or lock a file: {failure}", fix)
    if (free := shutil.disk_usage(_existing(folder)).free) < needed:
        fix = f"free space, or make {folder} a link to a larger disk; `python -m transformer plan` lists the disk space"
        return error(subject, f"{_gib(free)} free, {_gib(needed)} needed", fix)
    return ok(subject, f"{_gib(free)} free; files can be written, replaced and locked")


def _gib(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB"


def _needed_space(config: Config) -> dict[Path, int]:
    """Return the bytes still needed in results/ and in resources/. If they share a disk, results/ gets the sum."""
    pipeline, folder = Pipeline(config), Path(config.results)
    runs = planned_runs(pipeline)
    tasks = {run.task for run in runs}
    texts = text_bytes(pipeline, tasks, RESOURCES.corpus("any", "en").parent)
    archives = sum(entry.size or 0 for entry in _missing_downloads(config).values())
    here = [path.stat(follow_symlinks=False) for path in pipeline.files.folder.rglob("*") if path.is_file()]
    used = sum({file.st_ino: file.st_size for file in here}.values())  # a hard-linked file counts once
    results = max(0, array_bytes(pipeline, tasks) + sum(map(run_bytes, runs.values())) - used)
    if _existing(folder).stat().st_dev == _existing(RESOURCES.folder).stat().st_dev:
        return {folder: results + archives + texts, RESOURCES.folder: 0}
    return {folder: results, RESOURCES.folder: archives + texts}


def _missing_downloads(config: Config) -> dict[str, Download]:
    """Return the scale's missing downloads by name."""
    pipeline = Pipeline(config)
    needed = pipeline.downloads(pipeline.tasks)
    return {name: download for name, download in needed.items() if not RESOURCES.download(name).exists()}


def _check_downloads(config: Config) -> Iterator[Finding]:
    """Check that a server or the mirror has each missing download."""
    needed = _missing_downloads(config)
    with ThreadPoolExecutor(16) as pool:
        refusals = pool.map(partial(_refusal, mirror=config.mirror), needed.values())
    problems = [f"{name}: {refusal}" for name, refusal in zip(needed, refusals, strict=True) if refusal]
    fix = "connect to the network, or copy the file to <DIR>/<host>/<path> of its URL and use --config mirror=<DIR>"
    yield from (error("downloads", problem, fix) for problem in problems)
    if not problems:
        yield ok("downloads", f"{len(needed)} files are missing, and all are available")


def _refusal(entry: Download, mirror: str) -> str | None:
    """Return the reason why no URL, or the mirror, has a download. Return None if it is available."""
    for url in (url for edition in [entry, *(entry.alternatives or [])] for url in edition.urls):
        if mirror:
            file = Path(mirror, *url.split("/")[2:])
            found, problem = file.is_file(), f"no file {file}"
        else:
            try:
                response = requests.head(url, timeout=_TIMEOUT, allow_redirects=True)
                problem = f"{url}: HTTP {response.status_code} {response.reason}"
                found = response.status_code < 400 or response.status_code == 405  # 405 refuses only HEAD
            except requests.RequestException as failure:
                found, problem = False, f"{url}: {origin(failure)}"
        if found:
            return None
    return problem


def check_node(results: str, gpus: int) -> None:
    """Check the node of a job that requested this number of GPUs."""
    for finding in (_check_packages(), *_check_gpus(gpus), _check_folder(Path(results))):
        print(finding, flush=True)
