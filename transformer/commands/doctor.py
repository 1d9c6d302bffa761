"""The command `doctor`: what would break a long run on this machine, or on a Slurm cluster."""

import getpass
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, starmap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import requests
import torch
from cyclopts.types import PositiveInt

from transformer.commands.plan import array_bytes, planned_runs, run_bytes, text_bytes
from transformer.config import settings
from transformer.config.schema import Config, Download
from transformer.device import DRIVER, given_gpu, reason_unusable
from transformer.layout import RESOURCES
from transformer.pipeline.scale import Pipeline
from transformer.process import take_lock
from transformer.storage.files import InputError, origin, replacing
from transformer.storage.reading import read_yaml

_LEVELS = ("ok", "warning", "error")  # a run may be slow or fail after a warning; after an error it fails
_ANSWER_SECONDS = 10.0  # for a server
_SECONDS = {"": 60, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}  # of Snakemake's units of runtime


@dataclass(frozen=True)
class _Finding:
    """One of _LEVELS, the subject of the check, its state, and how to fix it."""

    level: str
    subject: str
    message: str
    fix: str = ""

    def __str__(self) -> str:
        fix = f" Fix: {self.fix}." if self.fix else ""
        return f"{self.level:7} " + " ".join(f"{self.subject}: {self.message}.{fix}".split())


_ok, _error = partial(_Finding, "ok"), partial(_Finding, "error")


def doctor(
    *,
    profile: Path | None = None,
    config: list[str] | None = None,
    configfile: list[str] | None = None,
    no_probe: bool = False,
    patience: PositiveInt = 120,
) -> None:
    """Check a machine, and a Slurm cluster, for what breaks long runs.

    Each line is a finding: ok, a warning or an error, with its fix. With a profile it also checks that each
    partition's nodes have what the profile asks for, and runs a short job. Exits with 1 if there is an error.

    python -m transformer doctor --config scale=paper --profile profiles/slurm

    Args:
        profile: The folder of a Snakemake profile for Slurm, such as profiles/slurm.
        config: KEY=VALUE, as Snakemake's.
        configfile: YAML files, as Snakemake's.
        no_probe: Run no job on the cluster.
        patience: Seconds that this job may wait for a node.
    """
    read, counts = settings.read(configfile or [], config or []), Counter()
    results = None if no_probe else Path(read.results)
    cluster = _check_cluster(_read_profile(profile), patience, results) if profile else ()
    folders = starmap(_check_folder, _needed_space(read).items())
    for finding in chain([_check_packages()], _check_gpus(), folders, _check_downloads(read), cluster):
        print(finding, flush=True)
        counts[finding.level] += 1
    print(", ".join(f"{counts[level]} {level}" for level in _LEVELS))
    if counts["error"]:
        sys.exit(1)


# This machine.


def _check_packages(lock: Path = Path("requirements.lock")) -> _Finding:
    """Compare the installed packages with requirements.lock."""
    level, others, lines = "warning", [], lock.read_text(encoding="utf-8").splitlines()
    pinned = [line.split("==") for line in lines if line and not line.startswith("#")]
    for name, expected in pinned:
        try:
            found = version(name).partition("+")[0]  # without a build's suffix such as +cpu
        except PackageNotFoundError:
            level, found = "error", "missing"
        if found != expected:
            others.append(f"{name} {found}, not {expected}")
    if not others:
        return _ok("packages", f"{len(pinned)} packages as in {lock.name}")
    message = f"{len(others)} of {len(pinned)} differ from {lock.name}, such as {'; '.join(others[:5])}"
    return _Finding(level, "packages", message, "python -m pip install -r requirements.lock, as `make` does")


def _check_gpus(asked: int | None = None) -> Iterator[_Finding]:
    """Check that PyTorch sees any GPU of this machine, or those that a job asked for, and that each computes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    expected = int(given_gpu() is not None) if asked is None else asked
    if seen < expected:
        reason, fix = reason_unusable([str(message.message) for message in caught])
        yield _error("GPUs", f"{expected} expected, PyTorch sees {seen}: {reason}", fix)
    elif not seen:
        yield _ok("GPUs", "none; trainings run on the processor")
    yield from map(_check_gpu, range(seen))


def _check_gpu(number: int) -> _Finding:
    subject, device = f"GPU {number}", torch.device("cuda", number)
    try:
        x = torch.ones(64, 64, device=device)
        torch.testing.assert_close(x @ x, 64 * x)
        free, total = torch.cuda.mem_get_info(device)
    except (RuntimeError, AssertionError) as failure:
        return _error(subject, origin(failure), DRIVER)
    about = f"{torch.cuda.get_device_name(device)}, {_gib(free)} of {_gib(total)} free"
    try:
        torch.compile(torch.square)(x)
    except Exception as failure:  # Dynamo, Inductor, Triton and the C compiler raise their own kinds
        fix = "install a C compiler and Python's headers (Debian: gcc python3-dev; conda: c-compiler)"
        message = f"{about}: cannot compile, trainings are slower: {origin(failure)}"
        return _Finding("warning", subject, message, fix)
    return _ok(subject, f"{about}, computes and compiles")


def _existing(folder: Path) -> Path:
    """Return the folder if it exists, else the nearest parent that does."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())


def _trial(folder: Path) -> TemporaryDirectory:
    """Return a temporary folder in `folder`, or in the nearest parent that exists."""
    return TemporaryDirectory(dir=_existing(folder), prefix=".doctor-", ignore_cleanup_errors=True)


def _check_folder(folder: Path, needed: int = 0) -> _Finding:
    """Check that `needed` bytes are free, and that files can be written, replaced and locked."""
    subject, needed = f"folder {folder}", max(2**30, needed)
    try:
        with _trial(folder) as place, open(Path(place, "file"), "a+") as file:
            take_lock(file)
            with replacing(Path(place, "file")) as other:
                other.write("new")
    except (OSError, InputError) as failure:
        fix = f"make it writable, or make {folder} a link to a folder that is"
        return _error(subject, f"cannot be written: {failure}", fix)
    if (free := shutil.disk_usage(_existing(folder)).free) < needed:
        fix = f"free space, or make {folder} a link to a larger disk; `python -m transformer plan` lists the needs"
        return _error(subject, f"{_gib(free)} free, {_gib(needed)} needed", fix)
    return _ok(subject, f"{_gib(free)} free; files can be written, replaced and locked")


def _gib(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB"


def _needed_space(config: Config) -> dict[Path, int]:
    """Return the bytes that the scale still needs in results/ and resources/; all in results/ if they share a disk."""
    pipeline, folder = Pipeline(config), Path(config.results)
    runs = planned_runs(pipeline)
    tasks = {run.task for run in runs}
    texts = text_bytes(pipeline, tasks, RESOURCES.corpus("any", "en").parent)
    archives = sum(entry.size or 0 for entry in _missing_downloads(config).values())
    here = [path.stat(follow_symlinks=False) for path in pipeline.files.folder.rglob("*") if path.is_file()]
    used = sum({file.st_ino: file.st_size for file in here}.values())  # a file with two names counts once
    results = max(0, array_bytes(pipeline, tasks) + sum(map(run_bytes, runs.values())) - used)
    if _existing(folder).stat().st_dev == _existing(RESOURCES.folder).stat().st_dev:
        return {folder: results + archives + texts, RESOURCES.folder: 0}
    return {folder: results, RESOURCES.folder: archives + texts}


def _missing_downloads(config: Config) -> dict[str, Download]:
    """Return the downloads that the scale needs and lacks, by name."""
    pipeline = Pipeline(config)
    needed = pipeline.downloads(pipeline.tasks)
    return {name: download for name, download in needed.items() if not RESOURCES.download(name).exists()}


def _check_downloads(config: Config) -> Iterator[_Finding]:
    """Check that a server or the mirror has each missing download."""
    needed = _missing_downloads(config)
    with ThreadPoolExecutor(16) as pool:
        refusals = pool.map(partial(_refusal, mirror=config.mirror), needed.values())
    problems = [f"{name}: {refusal}" for name, refusal in zip(needed, refusals, strict=True) if refusal]
    fix = "a way to the network, or copy the file to <DIR>/<host>/<path> of an address and give --config mirror=<DIR>"
    yield from (_error("downloads", problem, fix) for problem in problems)
    if not problems:
        yield _ok("downloads", f"{len(needed)} files are missing, and can be had")


def _refusal(entry: Download, mirror: str) -> str | None:
    """Return the reason that no address or mirror has a download; None if one does."""
    for url in (url for edition in [entry, *(entry.alternatives or [])] for url in edition.urls):
        if mirror:
            file = Path(mirror, *url.split("/")[2:])
            found, problem = file.is_file(), f"no file {file}"
        else:
            try:
                response = requests.head(url, timeout=_ANSWER_SECONDS, allow_redirects=True)
                problem = f"{url}: HTTP {response.status_code} {response.reason}"
                found = response.status_code < 400 or response.status_code == 405  # which refuses HEAD only
            except requests.RequestException as failure:
                found, problem = False, f"{url}: {origin(failure)}"
        if found:
            return None
    return problem


# A Slurm cluster.


class _Job(NamedTuple):
    """What a rule's job asks for; numbers are of each node, and 0 if they are not known."""

    partition: str  # "" is the default one
    account: str
    options: tuple[str, ...]  # further options of srun, which choose nodes
    minutes: int
    GPUs: int
    CPUs: int
    MB: int


def _read_profile(folder: Path) -> dict[str, _Job]:
    """Read the jobs of the rules that a profile names, and of the others as "default"."""
    path = folder / "profile.yaml"  # which Snakemake prefers
    profile = read_yaml(path if path.exists() else folder / "config.yaml")
    if profile.get("executor") != "slurm":
        raise InputError(f"{folder}: expected a profile with executor: slurm")
    default, own, threads = (profile.get(key, {}) for key in ("default-resources", "set-resources", "set-threads"))
    rules = ["default", *dict.fromkeys([*own, *threads])]
    return {rule: _read_job({"cpus_per_task": threads.get(rule)} | default | own.get(rule, {})) for rule in rules}


def _read_job(resources: dict[str, Any]) -> _Job:
    """Return the job with a rule's resources; expressions among them count as not known."""
    nodes, gpu, cpus, memory = (
        int(resources[key]) if str(resources.get(key)).isdecimal() else 0
        for key in ("nodes", "gpu", "cpus_per_task", "mem_mb")
    )
    gpus = _count_gpus(str(resources.get("gres", ""))) or -(-gpu // max(1, nodes))
    runtime = re.fullmatch(r"(\d+)\s*([smhdw]?)", str(resources.get("runtime")))
    minutes = int(runtime[1]) * _SECONDS[runtime[2]] // 60 if runtime else 0
    extra = shlex.split(str(resources.get("slurm_extra", "")).strip("'"))
    given = resources | dict(word.lstrip("-").split("=", 1) for word in extra if "=" in word)
    options = [f"--{key}={given[key]}" for key in ("constraint", "qos", "reservation") if given.get(key)]
    if gpus:
        options.append(f"--gpus-per-node={':'.join([*filter(None, [resources.get('gpu_model')]), str(gpus)])}")
    partition, account = (resources.get(f"slurm_{key}", "") for key in ("partition", "account"))
    return _Job(partition, account, tuple(options), minutes, gpus, cpus, memory)


def _count_gpus(gres: str) -> int:
    """Count the GPUs of generic resources, such as gpu:h200:8(S:0-1) or gpu:2."""
    return sum(int(count or 1) for count in re.findall(r"gpu(?::[^:,(]*[a-zA-Z_][^:,(]*)?(?::(\d+))?", gres))


def _read_minutes(limit: str) -> float:
    """Return the minutes of a limit as sinfo prints it: infinite, or [days-][hours:]minutes:seconds."""
    numbers = [float(number) for number in re.split("[-:]", limit.replace("infinite", "inf:0"))]
    return sum(number * unit for number, unit in zip(reversed(numbers), (1 / 60, 1, 60, 24 * 60), strict=False))


def _check_cluster(jobs: dict[str, _Job], patience: int, results: Path | None) -> Iterator[_Finding]:
    """Check for what keeps jobs waiting for ever. Run a probe as well if `results` is given."""
    if absent := [name for name in ("sinfo", "srun", "sacctmgr") if not shutil.which(name)]:
        yield _error("Slurm", f"no {', '.join(absent)} on PATH", "run on a login node; module load slurm")
        return
    answer = _ask("sinfo", "--all", "--Node", "--noheader", "--format=%P|%l|%c|%m|%G")
    if answer.returncode:
        fix = "wait, or tell who runs the cluster; SLURM_CONF if there are several clusters"
        yield _error("Slurm", f"the controller does not answer: {_complaint(answer)}", fix)
        return
    yield _ok("Slurm", "the controller answers")
    own = _ask("sacctmgr", "-nPs", "list", "user", getpass.getuser(), "format=account").stdout.split()
    for account in sorted({job.account for job in jobs.values() if job.account}):
        if own and account.lower() not in own:
            fix = f"slurm_account in the profile: one of {', '.join(sorted(set(own)))}"
            yield _error(f"account {account}", "not one of yours: Snakemake hangs without a word", fix)
    partitions = _read_partitions(answer.stdout)
    rules = {job: [rule for rule in jobs if jobs[rule] == job] for job in jobs.values()}
    findings = {job: _check_job(job, rules[job], partitions) for job in rules}
    yield from findings.values()
    fitting = [job for job, finding in findings.items() if finding.level == "ok"]
    if results and fitting:
        yield from _probe(max(fitting, key=lambda job: job.GPUs), patience, results)


def _ask(*command: str) -> subprocess.CompletedProcess:
    """Run a command of Slurm, outside of any job that doctor itself runs in."""
    env = {key: value for key, value in os.environ.items() if key == "SLURM_CONF" or not key.startswith("SLURM_")}
    return subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", env=env)


def _complaint(result: subprocess.CompletedProcess) -> str:
    """Return the last line of a command's messages that says more than an exit code."""
    lines = [line for line in result.stderr.splitlines() if line.strip() and "Exited with" not in line]
    return [f"exit code {result.returncode}", *lines][-1].strip()


def _read_partitions(nodes: str) -> dict[str, dict[str, float]]:
    """Return each partition's limits: minutes, and the most of one of its nodes; "" is the default partition."""
    partitions = {}
    for line in nodes.splitlines():
        name, limit, cpus, memory, gres = line.split("|")
        node = {"minutes": _read_minutes(limit), "GPUs": _count_gpus(gres), "CPUs": int(cpus), "MB": int(memory)}
        for key in {name.rstrip("*"), "" if name.endswith("*") else name}:
            known = partitions.setdefault(key, node)
            partitions[key] = {unit: max(count, known[unit]) for unit, count in node.items()}
    return partitions


def _check_job(job: _Job, rules: list[str], partitions: dict[str, dict[str, float]]) -> _Finding:
    """Compare the job of these rules with its partition's limits."""
    subject = f"partition {job.partition or '(default)'} for {', '.join(rules)}"
    if job.partition not in partitions:
        names = ", ".join(sorted(partitions.keys() - {""}))
        return _error(subject, "there is none of that name", f"slurm_partition in the profile: one of {names}")
    for unit, limit in partitions[job.partition].items():
        if (count := getattr(job, unit)) > limit:
            more = "; a longer training goes on in the same job" if unit == "minutes" else ", or another partition"
            fix = f"at most {limit:g} in the profile{more}"
            return _error(subject, f"{count} {unit} for a node, the limit is {limit:g}", fix)
    return _ok(subject, "has what such a job asks for")


def _probe(job: _Job, patience: int, results: Path) -> Iterator[_Finding]:
    """Run `check_node` as a short job on one node of the job's partition."""
    where = f"probe of {job.partition or 'the default partition'}"
    options = {"partition": job.partition, "account": job.account, "ntasks": 1, "time": 10, "mem": 4000}
    words = [f"--{key}={value}" for key, value in options.items() if value]
    code = f"from transformer.commands.doctor import check_node; check_node({str(results)!r}, {job.GPUs})"
    result = _ask("srun", *words, *job.options, f"--immediate={patience}", sys.executable, "-c", code)
    for level, text in re.findall(rf"^({'|'.join(_LEVELS)}) +(.+)\.$", result.stdout, re.MULTILINE):
        yield _Finding(level, where, text)
    if result.returncode:
        fix = "what the message asks for; sinfo shows free nodes; --patience SECONDS, or --no-probe"
        yield _error(where, f"did not run: {_complaint(result)}", fix)


def check_node(results: str, gpus: int) -> None:
    """Check the node of a job that asked for so many GPUs."""
    for finding in (_check_packages(), *_check_gpus(gpus), _check_folder(Path(results))):
        print(finding, flush=True)
