"""The commands `doctor` and `doctor-node`: what is wrong with a machine or a Slurm cluster, before a long run."""

import getpass
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain, starmap
from pathlib import Path
from typing import Any

from cyclopts.types import NonNegativeInt, PositiveInt

from transformer import doctor as machine
from transformer.config import settings
from transformer.config.scales import training_threads
from transformer.doctor import LEVELS, Finding, error, ok, trial
from transformer.storage.files import InputError
from transformer.storage.reading import read_yaml

_SECONDS = {"": 60, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}  # of Snakemake's units of runtime
Job = dict[str, Any]  # options of sbatch; time in minutes, mem in MB


def doctor(
    *,
    profile: Path | None = None,
    config: list[str] | None = None,
    configfile: list[str] | None = None,
    no_probe: bool = False,
    patience: PositiveInt = 120,
) -> None:
    """Check a machine, and a Slurm cluster, for what breaks long runs.

    Each line is a finding: ok, a warning or an error, with its fix. With a profile it also checks that the
    cluster has what the profile asks for, and runs a short job in each partition. Exits with 1 if there is an error.

    python -m transformer doctor --config scale=paper --profile profiles/slurm

    Args:
        profile: The folder of a Snakemake profile for Slurm, such as profiles/slurm.
        config: KEY=VALUE, as Snakemake's.
        configfile: YAML files, as Snakemake's.
        no_probe: Run no jobs on the cluster.
        patience: Seconds that such a job may wait for a node.
    """
    read, counts = settings.read(configfile or [], config or []), Counter()
    results = None if no_probe else Path(read["results"])
    jobs = read_profile(profile, memory_of_rules(profile, settings.options(configfile, config))) if profile else {}
    cluster = check_cluster(jobs, patience, results) if profile else ()
    folders = starmap(machine.check_folder, machine.needed_space(read).items())
    here = [machine.check_packages()], machine.check_gpus(), folders, machine.check_downloads(read)
    for finding in chain(*here, cluster):
        print(finding, flush=True)
        counts[finding.level] += 1
    print(", ".join(f"{counts[level]} {level}" for level in LEVELS))
    if counts["error"]:
        sys.exit(1)


def doctor_node(place: Path, /, *, gpus: NonNegativeInt) -> None:
    """Check a cluster's node, as the job of doctor's probe.

    Args:
        place: A new folder of the login node.
        gpus: The GPUs that the job asked for.
    """
    node = f"node {os.environ.get('SLURMD_NODENAME', socket.gethostname())}"
    fix = "the project, its environment and results/ on a file system that all nodes have"
    shared = ok(node, "sees the login node's files")
    if not place.exists():
        shared = error(node, "lacks the login node's files", fix)
    for finding in (shared, machine.check_packages(), *machine.check_gpus(gpus), machine.check_folder(place.parent)):
        print(finding, flush=True)


def check_cluster(jobs: dict[str, Job], patience: int, results: Path | None) -> Iterator[Finding]:
    """Check that the cluster takes each rule's jobs, and run probes that see `results`, if given."""
    needed = ("sbatch", "srun", "scontrol", "scancel", "sinfo", "sacctmgr")
    if absent := [name for name in needed if not shutil.which(name)]:
        yield error("Slurm", f"no {', '.join(absent)} on PATH", "run on a login node; module load slurm")
        return
    answer = ask("scontrol", "ping")
    if " UP" not in answer.stdout:
        fix = "wait, or tell who runs the cluster; SLURM_CONF if there are several clusters"
        yield error("Slurm", f"the controller does not answer: {_complaint(answer)}", fix)
        return
    yield ok("Slurm", "the controller answers")
    own = ask("sacctmgr", "-nPs", "list", "user", getpass.getuser(), "format=account").stdout.split()
    for account in sorted({job["account"] for job in jobs.values() if "account" in job}):
        if own and account.lower() not in own:
            fix = f"slurm_account in the profile: one of {', '.join(sorted(set(own)))}"
            yield error(f"account {account}", "not one of yours: Snakemake hangs without a word", fix)
    partitions, alike, fitting = read_partitions(), {}, []
    for rule, job in jobs.items():
        alike.setdefault(tuple(job.items()), []).append(rule)
    for items, rules in alike.items():
        job = dict(items)
        finding = _check_job(f"partition {job.get('partition', '(default)')} for {', '.join(rules)}", job, partitions)
        yield finding
        if finding.level != "error":
            fitting.append(job)
    if results:
        fitting.sort(key=lambda job: ("gpus-per-node" in job, job["cpus-per-task"]))
        for job in {job.get("partition"): job for job in fitting}.values():  # the largest of each partition
            yield from probe(job, patience, results)


def memory_of_rules(profile: Path, options: list[str]) -> dict[str, int]:
    """Return the most MB that a job of each rule asks for, by a dry run. Raises InputError if that fails."""
    command = [sys.executable, "-m", "snakemake", "--dry-run", "--forceall", "--cores=999"]
    command += [f"--workflow-profile={profile}", *options]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        last = (run.stderr or run.stdout).strip().rpartition("\n")[2]
        raise InputError(f"{shlex.join(command[2:])} failed: {last}")
    found = re.findall(r"^ *rule (\w+):\n(?: .*\n)*? +resources: .*?mem_mb=(\d+)", run.stdout, re.MULTILINE)
    if not found:
        raise InputError(f"{shlex.join(command[2:])}: expected jobs with mem_mb, found none")
    return {rule: int(mb) for rule, mb in sorted(found, key=lambda one: int(one[1]))}  # of equal rules the largest


def read_profile(folder: Path, memory: Mapping[str, int]) -> dict[str, Job]:
    """Read what the rules of a profile ask for, and `memory`, MB; those that it does not name are "default"."""
    path = folder / "profile.yaml"  # which Snakemake prefers
    profile = read_yaml(path if path.exists() else folder / "config.yaml")
    if profile.get("executor") != "slurm":
        raise InputError(f"{folder}: expected a profile with executor: slurm")
    default, own, threads = (profile.get(key, {}) for key in ("default-resources", "set-resources", "set-threads"))
    others = max((mb for rule, mb in memory.items() if rule not in {**own, **threads}), default=0)
    asked = {rule: {"mem_mb": memory.get(rule)} | default | own.get(rule, {}) for rule in {**own, **threads}}
    named = {rule: _read_job(rule, resources, threads.get(rule)) for rule, resources in asked.items()}
    return {"default": _read_job("default", {"mem_mb": others} | default, None)} | named


def _read_job(rule: str, resources: dict, threads: Any) -> Job:
    """Return one rule's options. threads: what set-threads has for it."""
    nodes = whole(resources.get("nodes")) or 1
    gpus = count_gpus(str(resources.get("gres", ""))) or -(-whole(resources.get("gpu")) // nodes)
    extra = shlex.split(str(resources.get("slurm_extra", "")).strip("'"))
    said = resources | dict(word.lstrip("-").split("=", 1) for word in extra if "=" in word)
    runtime = re.fullmatch(r"(\d+)\s*([smhdw]?)", str(resources.get("runtime")))  # None for an expression
    of_gpus = training_threads(resources) if rule in ("train", "train_parser") else None
    options = {
        "partition": resources.get("slurm_partition"),
        "account": resources.get("slurm_account"),
        "time": int(runtime[1]) * _SECONDS[runtime[2]] // 60 if runtime else 0,
        "mem": whole(resources.get("mem_mb")),
        "nodes": nodes,
        "ntasks": nodes,
        "cpus-per-task": whole(resources.get("cpus_per_task")) or whole(threads) or of_gpus or 1,
        "gpus-per-node": gpus and ":".join([*filter(None, [resources.get("gpu_model")]), str(gpus)]),
        **{key: said.get(key) for key in ("constraint", "qos", "reservation")},
    }
    return {key: value for key, value in options.items() if value}


def whole(value: Any) -> int:
    """Return a plain number; 0 for nothing and for an expression."""
    return int(value) if str(value).isdecimal() else 0


def slurm_minutes(limit: str) -> float:
    """Return the minutes of a limit as sinfo prints it: infinite, or [days-][hours:]minutes:seconds."""
    numbers = [float(number) for number in re.split("[-:]", limit.replace("infinite", "inf:0"))]
    return sum(number * unit for number, unit in zip(reversed(numbers), (1 / 60, 1, 60, 24 * 60), strict=False))


def count_gpus(gres: str) -> int:
    """Count the GPUs of generic resources, such as gpu:h200:8(S:0-1) or gpu:2."""
    return sum(int(count or 1) for count in re.findall(r"gpu(?::[^:,(]*[a-zA-Z_][^:,(]*)?(?::(\d+))?", gres))


def ask(program: str, *words: str, job: Job | None = None, seconds: float = 30) -> subprocess.CompletedProcess:
    """Run a command of Slurm, outside of any job that doctor itself runs in. The exit code is 1 without an answer."""
    command = [program, *(f"--{key}={value}" for key, value in (job or {}).items()), *words]
    env = {key: value for key, value in os.environ.items() if key == "SLURM_CONF" or not key.startswith("SLURM_")}
    options = {"capture_output": True, "encoding": "utf-8", "errors": "replace", "env": env}
    try:
        return subprocess.run(command, timeout=seconds, **options)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no answer within {seconds:g} s")


def _complaint(result: subprocess.CompletedProcess) -> str:
    """Return the last line of a command's messages that says more than an exit code."""
    lines = [line for line in result.stderr.splitlines() if line.strip() and "Exited with" not in line]
    return [f"exit code {result.returncode}", *lines][-1].strip()


def read_partitions() -> dict[str, dict[str, float]]:
    """Ask for each partition's limit in minutes and the most that one of its nodes has; "" is the default partition."""
    partitions = {}
    for line in ask("sinfo", "--all", "--Node", "--noheader", "--format=%P|%l|%c|%m|%G").stdout.splitlines():
        name, limit, cpus, memory, gres = line.split("|")
        node = {"minutes": slurm_minutes(limit), "GPUs": count_gpus(gres), "CPUs": int(cpus), "MB": int(memory)}
        for key in {name.rstrip("*"), "" if name.endswith("*") else name}:
            known = partitions.setdefault(key, node)
            partitions[key] = {unit: max(count, known[unit]) for unit, count in node.items()}
    return partitions


def _check_job(subject: str, job: Job, partitions: dict[str, dict[str, float]]) -> Finding:
    """Compare a job with its partition's limits, then ask Slurm, which knows others, such as those of accounts."""
    limits = partitions.get(job.get("partition", ""))
    if limits is None:
        names = ", ".join(sorted(partitions.keys() - {""}))
        return error(subject, "there is none of that name", f"slurm_partition in the profile: one of {names}")
    gpus = count_gpus(f"gpu:{job.get('gpus-per-node', 0)}")
    asked = {"minutes": job.get("time", 0), "GPUs": gpus, "CPUs": job["cpus-per-task"], "MB": job.get("mem", 0)}
    for unit, count in asked.items():
        if count > limits[unit]:
            more = "; a longer training goes on in the same job" if unit == "minutes" else ", or another partition"
            fix = f"at most {limits[unit]:g} in the profile{more}"
            return error(subject, f"{count} {unit} for a node, the limit is {limits[unit]:g}", fix)
    answer = ask("sbatch", "--test-only", "--wrap=true", job=job)
    if answer.returncode:
        return error(subject, f"Slurm refuses such a job: {_complaint(answer)}", "ask for less, or another partition")
    return ok(subject, "takes such a job")


def probe(job: Job, patience: int, results: Path) -> Iterator[Finding]:
    """Run `doctor_node` as a job in a partition."""
    where = f"probe of {job.get('partition', 'the default partition')}"
    with trial(results) as place:
        gpus = count_gpus(f"gpu:{job.get('gpus-per-node', 0)}")
        program = [sys.executable, "-m", "transformer", "doctor-node", place, f"--gpus={gpus}"]
        name, small = Path(place).name, {"nodes": 1, "ntasks": 1, "time": 10, "mem": 4000, "immediate": patience}
        result = ask("srun", *program, job=job | small | {"job-name": name}, seconds=patience + 300)
        ask("scancel", f"--name={name}")  # one that is still there
    for level, text in re.findall(rf"^({'|'.join(LEVELS)}) +(.+)\.$", result.stdout, re.MULTILINE):
        yield Finding(level, where, text)
    if result.returncode:
        fix = "what the message asks for; sinfo shows free nodes; --patience SECONDS, or --no-probe"
        yield error(where, f"did not run: {_complaint(result)}", fix)
