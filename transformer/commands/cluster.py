"""Checks of `doctor` on a Slurm cluster, and the type of all its findings."""

import getpass
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from transformer.storage.files import InputError
from transformer.storage.reading import read_yaml

LEVELS = ("ok", "warning", "error")  # after a warning, a run may be slow or fail; after an error, it fails


@dataclass(frozen=True)
class Finding:
    """The result of one check: a level from LEVELS, the subject, its state, and a fix."""

    level: str
    subject: str
    message: str
    fix: str = ""

    def __str__(self) -> str:
        fix = f" Fix: {self.fix}." if self.fix else ""
        return f"{self.level:7} " + " ".join(f"{self.subject}: {self.message}.{fix}".split())


ok, error = partial(Finding, "ok"), partial(Finding, "error")


class _Job(NamedTuple):
    """The resources that a rule's job requests. Numbers are per node, and 0 if unknown."""

    partition: str  # "" is the default partition
    account: str
    options: tuple[str, ...]  # further srun options that select nodes
    minutes: int
    GPUs: int
    CPUs: int
    MB: int


def read_profile(folder: Path) -> dict[str, _Job]:
    """Read the job of each rule in a profile. The job of all other rules is named "default"."""
    path = folder / "profile.yaml"  # Snakemake reads this file first
    profile = read_yaml(path if path.exists() else folder / "config.yaml")
    if profile.get("executor") != "slurm":
        raise InputError(f"{folder}: expected a profile with `executor: slurm`, found {profile.get('executor')}")
    default, own, threads = (profile.get(key, {}) for key in ("default-resources", "set-resources", "set-threads"))
    rules = ["default", *dict.fromkeys([*own, *threads])]
    return {rule: _read_job({"cpus_per_task": threads.get(rule)} | default | own.get(rule, {})) for rule in rules}


def _read_job(resources: dict[str, Any]) -> _Job:
    """Return the job with a rule's resources. A resource that is an expression counts as unknown."""
    nodes, gpu, cpus, memory = (
        int(resources[key]) if str(resources.get(key)).isdecimal() else 0
        for key in ("nodes", "gpu", "cpus_per_task", "mem_mb")
    )
    gpus = _count_gpus(str(resources.get("gres", ""))) or -(-gpu // max(1, nodes))
    minutes = _read_runtime(str(resources.get("runtime")))
    extra = shlex.split(str(resources.get("slurm_extra", "")).strip("'"))
    given = resources | dict(word.lstrip("-").split("=", 1) for word in extra if "=" in word)
    options = [f"--{key}={given[key]}" for key in ("constraint", "qos", "reservation") if given.get(key)]
    if gpus:
        options.append(f"--gpus-per-node={':'.join([*filter(None, [resources.get('gpu_model')]), str(gpus)])}")
    partition, account = (resources.get(f"slurm_{key}", "") for key in ("partition", "account"))
    return _Job(partition, account, tuple(options), minutes, gpus, cpus, memory)


def _read_runtime(text: str) -> int:
    """Return a runtime in minutes. Like Snakemake, read a number of minutes or a number with a unit. Else return 0."""
    from humanfriendly import InvalidTimespan, parse_timespan

    text = text.strip(" '\"")
    try:
        return int(text) if text.isdecimal() else max(int(round(parse_timespan(text)) / 60), 1)
    except InvalidTimespan:
        return 0


def _count_gpus(gres: str) -> int:
    """Count the GPUs in Slurm's generic resources, such as gpu:h200:8(S:0-1) or gpu:2."""
    return sum(int(count or 1) for count in re.findall(r"gpu(?::[^:,(]*[a-zA-Z_][^:,(]*)?(?::(\d+))?", gres))


def _read_minutes(limit: str) -> float:
    """Convert a time limit of sinfo to minutes: infinite, or [days-][hours:]minutes:seconds."""
    numbers = [float(number) for number in re.split("[-:]", limit.replace("infinite", "inf:0"))]
    return sum(number * unit for number, unit in zip(reversed(numbers), (1 / 60, 1, 60, 24 * 60), strict=False))


def check_cluster(jobs: dict[str, _Job], patience: int, results: Path | None) -> Iterator[Finding]:
    """Check for faults that keep jobs pending forever. If `results` is given, run a short job as well."""
    if absent := [name for name in ("sinfo", "srun", "sacctmgr") if not shutil.which(name)]:
        yield error("Slurm", f"no {', '.join(absent)} on PATH", "run doctor on a login node, after `module load slurm`")
        return
    answer = _ask("sinfo", "--all", "--Node", "--noheader", "--format=%P|%l|%c|%m|%G")
    if answer.returncode:
        fix = "wait, or contact the cluster's administrators; set SLURM_CONF if there are several clusters"
        yield error("Slurm", f"the controller does not answer: {_complaint(answer)}", fix)
        return
    yield ok("Slurm", "the controller answers")
    own = _ask("sacctmgr", "-nPs", "list", "user", getpass.getuser(), "format=account").stdout.split()
    for account in sorted({job.account for job in jobs.values() if job.account}):
        if own and account.lower() not in own:
            fix = f"set slurm_account in the profile to one of {', '.join(sorted(set(own)))}"
            yield error(f"account {account}", "not one of your accounts; Snakemake would hang without a message", fix)
    partitions = _read_partitions(answer.stdout)
    rules = {job: [rule for rule in jobs if jobs[rule] == job] for job in jobs.values()}
    findings = {job: _check_job(job, rules[job], partitions) for job in rules}
    yield from findings.values()
    fitting = [job for job, finding in findings.items() if finding.level == "ok"]
    if results and fitting:
        yield from _probe(max(fitting, key=lambda job: job.GPUs), patience, results)


def _ask(*command: str) -> subprocess.CompletedProcess:
    """Run a Slurm command. If `doctor` runs in a Slurm job, remove the job's SLURM_ variables except SLURM_CONF."""
    env = {key: value for key, value in os.environ.items() if key == "SLURM_CONF" or not key.startswith("SLURM_")}
    return subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", env=env)


def _complaint(result: subprocess.CompletedProcess) -> str:
    """Return the last line of a command's stderr that contains more than an exit code."""
    lines = [line for line in result.stderr.splitlines() if line.strip() and "Exited with" not in line]
    return [f"exit code {result.returncode}", *lines][-1].strip()


def _read_partitions(nodes: str) -> dict[str, dict[str, float]]:
    """Return the limits of each partition: minutes, and the maxima over its nodes. "" is the default partition."""
    partitions = {}
    for line in nodes.splitlines():
        name, limit, cpus, memory, gres = line.split("|")
        node = {"minutes": _read_minutes(limit), "GPUs": _count_gpus(gres), "CPUs": int(cpus), "MB": int(memory)}
        for key in {name.rstrip("*"), "" if name.endswith("*") else name}:
            known = partitions.setdefault(key, node)
            partitions[key] = {unit: max(count, known[unit]) for unit, count in node.items()}
    return partitions


def _check_job(job: _Job, rules: list[str], partitions: dict[str, dict[str, float]]) -> Finding:
    """Compare the job of these rules with the limits of its partition."""
    subject = f"partition {job.partition or '(default)'} for {', '.join(rules)}"
    if job.partition not in partitions:
        names = ", ".join(sorted(partitions.keys() - {""}))
        return error(subject, "no such partition", f"set slurm_partition in the profile to one of {names}")
    for unit, limit in partitions[job.partition].items():
        if (count := getattr(job, unit)) > limit:
            more = "; a requeued job resumes a longer training" if unit == "minutes" else ", or change the partition"
            fix = f"request up to {limit:g} in the profile{more}"
            return error(subject, f"{count} {unit} requested per node, the limit is {limit:g}", fix)
    return ok(subject, "offers the requested resources")


def _probe(job: _Job, patience: int, results: Path) -> Iterator[Finding]:
    """Run `check_node` in a short job on one node of the job's partition."""
    where = f"probe of {job.partition or 'the default partition'}"
    options = {"partition": job.partition, "account": job.account, "ntasks": 1, "time": 10, "mem": 4000}
    words = [f"--{key}={value}" for key, value in options.items() if value]
    code = f"from transformer.commands.doctor import check_node; check_node({str(results)!r}, {job.GPUs})"
    result = _ask("srun", *words, *job.options, f"--immediate={patience}", sys.executable, "-c", code)
    for level, text in re.findall(rf"^({'|'.join(LEVELS)}) +(.+)\.$", result.stdout, re.MULTILINE):
        yield Finding(level, where, text)
    if result.returncode:
        fix = "follow the message; list free nodes with sinfo; wait longer with --patience SECONDS, or use --no-probe"
        yield error(where, f"the short job failed: {_complaint(result)}", fix)
