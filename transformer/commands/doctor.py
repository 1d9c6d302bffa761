"""The commands `doctor` and `doctor-node`: what is wrong with a machine or a Slurm cluster, before a long run.

Of a cluster: what a Snakemake profile asks for against its partitions, and a probe job in each.
"""

import getpass
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from cyclopts.types import NonNegativeInt, PositiveInt

from transformer.config import settings
from transformer.config.reading import read_yaml
from transformer.config.scales import training_threads
from transformer.doctor import (
    LEVELS,
    Finding,
    check_folder,
    check_gpus,
    check_machine,
    check_packages,
    error,
    note,
    ok,
    trial,
    warning,
)
from transformer.files import InputError

_SLURM_COMMANDS = ("sbatch", "srun", "scontrol", "scancel", "sinfo", "sacctmgr")
_PROFILES = ("profile.yaml", "config.yaml")  # in Snakemake's order
_TRAINING_RULES = ("train", "train_parser")
_PASSED = ("constraint", "qos", "reservation")  # resources and words of slurm_extra that choose nodes
_MINUTES = {"": 1, "s": 1 / 60, "m": 1, "h": 60, "d": 24 * 60, "w": 7 * 24 * 60}
_CHECKING_SECONDS = 300

Job = dict[str, Any]  # options of sbatch; time in minutes, mem in MB


def doctor(
    *,
    profile: Path | None = None,
    config: list[str] | None = None,
    configfile: list[str] | None = None,
    mirror: str | None = None,
    no_probe: bool = False,
    patience: PositiveInt = 120,
) -> None:
    """Check a machine, and a Slurm cluster, for what breaks long runs.

    Run it in the project's folder, on the machine that Snakemake will run on. Each line is a finding: ok, a note, a
    warning or an error, with its fix. With a profile it also checks that the cluster has what the profile asks for, and
    runs a short job in each of its partitions. Exits with 1 if there is an error.

    python -m transformer doctor --config scale=paper --profile profiles/slurm

    Args:
        profile: The folder of a Snakemake profile for Slurm, such as profiles/slurm.
        config: KEY=VALUE, as Snakemake's.
        configfile: YAML files, as Snakemake's.
        mirror: The folder with copies of downloads; config.yaml's if not given.
        no_probe: Run no jobs on the cluster.
        patience: Seconds that such a job may wait for a node.
    """
    read = settings.read(configfile or [], config or [])
    jobs = read_profile(profile) if profile else None
    counts = Counter()
    place = None if no_probe else Path(read["results"])
    cluster = check_cluster(jobs, patience, place) if jobs else ()
    for finding in chain(check_machine(read, read["mirror"] if mirror is None else mirror), cluster):
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
    for finding in _check_node(place, gpus):
        print(finding, flush=True)


@dataclass(frozen=True)
class Node:
    """A node as a member of a partition, "" for the default one; minutes: the partition's limit."""

    partition: str
    minutes: float
    cpus: int
    memory: int  # MB
    gpus: int
    up: bool


def check_cluster(jobs: dict[str, Job], patience: int, results: Path | None) -> Iterator[Finding]:
    """Check that the cluster takes each rule's jobs.

    patience: seconds that a probe may wait for a node. results: the folder that it looks at; None for no probes.
    """
    yield (first := _check_slurm())
    if first.level == "error":
        return
    yield from _check_accounts(jobs)
    alike, nodes, good = {}, read_nodes(), []
    for rule, job in jobs.items():
        alike.setdefault(tuple(job.items()), []).append(rule)
    for items, rules in alike.items():
        job = dict(items)
        subject = f"partition {job.get('partition', '(default)')} for {', '.join(rules)}"
        yield (finding := _check_job(subject, job, nodes))
        good += [job] if finding.level != "error" else []
    good.sort(key=lambda job: ("gpus-per-node" in job, job["cpus-per-task"]))
    for job in {job.get("partition"): job for job in good}.values() if results else ():
        yield from probe(job, patience, results)


def read_profile(folder: Path) -> dict[str, Job]:
    """Read what the rules of a profile ask for; those that it does not name are "default"."""
    path = next((folder / name for name in _PROFILES if (folder / name).is_file()), None)
    if path is None:
        raise InputError(f"{folder}: expected a Snakemake profile, found neither {' nor '.join(_PROFILES)}")
    profile = read_yaml(path)
    if not isinstance(profile, dict) or profile.get("executor") != "slurm":
        raise InputError(f"{path}: expected executor: slurm")
    parts = [profile.get(key, {}) for key in ("default-resources", "set-resources", "set-threads")]
    if not all(isinstance(part, dict) for part in parts):
        raise InputError(f"{path}: expected mappings in default-resources, set-resources and set-threads")
    default, own, threads = parts
    named = {rule: _read_job(rule, default | own.get(rule, {}), threads.get(rule)) for rule in {**own, **threads}}
    return {"default": _read_job("default", default, None)} | named


def _read_job(rule: str, resources: dict, threads: Any) -> Job:
    """Return one rule's options. threads: what set-threads has for it."""
    nodes = whole(resources.get("nodes")) or 1
    gpus = count_gpus(str(resources.get("gres", ""))) or -(-whole(resources.get("gpu")) // nodes)
    extra = shlex.split(str(resources.get("slurm_extra", "")).strip("'"))
    said = resources | dict(word.lstrip("-").split("=", 1) for word in extra if "=" in word)
    of_gpus = training_threads(resources) if rule in _TRAINING_RULES else None
    options = {
        "partition": resources.get("slurm_partition"),
        "account": resources.get("slurm_account"),
        "time": minutes(resources.get("runtime")),
        "mem": whole(resources.get("mem_mb")),
        "nodes": nodes,
        "ntasks": nodes,
        "cpus-per-task": whole(resources.get("cpus_per_task")) or whole(threads) or of_gpus or 1,
        "gpus-per-node": gpus and ":".join([*filter(None, [resources.get("gpu_model")]), str(gpus)]),
        **{key: said.get(key) for key in _PASSED},
    }
    return {key: value for key, value in options.items() if value}


def whole(value: Any) -> int:
    """Return a plain number; 0 for nothing and for an expression."""
    return int(value) if str(value).isdecimal() else 0


def minutes(value: Any) -> int:
    """Return the minutes of a plain number or of one with a unit, such as 3h; 0 for an expression."""
    match = re.fullmatch(r"(\d+)\s*([smhdw]?)", str(value))
    return int(int(match[1]) * _MINUTES[match[2]]) if match else 0


def slurm_minutes(limit: str) -> float:
    """Return the minutes of a limit as sinfo prints it: infinite, or [days-][hours:]minutes:seconds."""
    numbers = [float(number) for number in re.split("[-:]", limit.replace("infinite", "inf:0"))]
    return sum(number * unit for number, unit in zip(reversed(numbers), (1 / 60, 1, 60, 24 * 60), strict=False))


def count_gpus(gres: str) -> int:
    """Count the GPUs of generic resources, such as gpu:h200:8(S:0-1) or gpu:2."""
    kinds = re.findall(r"gpu(?::[^:,(]*[a-zA-Z_][^:,(]*)?(?::(\d+))?", gres)
    return sum(int(count or 1) for count in kinds)


def ask(*command: str, seconds: float = 30) -> subprocess.CompletedProcess:
    """Run a command, outside of any job that doctor itself runs in. The exit code is 1 if it does not answer."""
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


def _check_slurm() -> Finding:
    """Check that Slurm's commands are here and that its controller answers."""
    if absent := [name for name in _SLURM_COMMANDS if not shutil.which(name)]:
        return error("Slurm", f"no {', '.join(absent)} on PATH", "run on a login node; module load slurm")
    answer = ask("scontrol", "ping")
    if " UP" in answer.stdout:
        return ok("Slurm", f"{ask('sinfo', '--version').stdout.strip()}, the controller answers")
    fix = "wait, or tell who runs the cluster; SLURM_CONF if there are several clusters"
    return error("Slurm", f"the controller does not answer: {_complaint(answer)}", fix)


def _check_accounts(jobs: dict[str, Job]) -> Iterator[Finding]:
    """Check that the user has the profile's accounts: with a wrong one Snakemake hangs without a word."""
    user = getpass.getuser()
    answer = ask("sacctmgr", "-nPs", "list", "user", user, "format=account")
    own = sorted(set(answer.stdout.split()))
    for account in sorted({job["account"] for job in jobs.values() if "account" in job}):
        if not own:
            fix = "remove slurm_account from the profile"
            yield note(f"account {account}", f"cannot be looked up: {_complaint(answer)}", fix)
        elif account.lower() not in own:
            fix = f"slurm_account in the profile: one of {', '.join(own)}"
            yield error(f"account {account}", f"not one of {user}'s: Snakemake hangs without a word", fix)
        else:
            yield ok(f"account {account}", f"{user} has it")


def read_nodes() -> list[Node]:
    """Ask for all nodes, once for each of their partitions; those of the default partition twice."""
    nodes = []
    for line in ask("sinfo", "--all", "--Node", "--noheader", "--format=%P|%l|%c|%m|%G|%a|%T").stdout.splitlines():
        name, limit, cpus, memory, gres, available, state = line.split("|")
        up = available == "up" and not re.search(r"down(?!~)|drain|fail|maint|\*|%", state)
        node = Node(name.rstrip("*"), slurm_minutes(limit), int(cpus), int(memory), count_gpus(gres), up)
        nodes += [node, replace(node, partition="")] if name.endswith("*") else [node]
    return nodes


def _check_job(subject: str, job: Job, nodes: list[Node]) -> Finding:
    """Compare a job with its partition's limits and nodes, then ask Slurm, which knows other limits, too."""
    here = [node for node in nodes if node.partition == job.get("partition", "")]
    if not here:
        names = ", ".join(sorted({node.partition for node in nodes} - {""}))
        return error(subject, "there is none of that name", f"slurm_partition in the profile: one of {names}")
    if (time := job.get("time", 0)) > (limit := here[0].minutes):
        fix = f"runtime: {limit:g} in the profile; a longer training continues in the same job, queued again"
        return error(subject, f"runtime {time} min, the limit is {limit:g}: jobs wait for ever", fix)
    gpus = count_gpus(f"gpu:{job.get('gpus-per-node', 0)}")
    wanted = {"gpus": gpus, "cpus": job["cpus-per-task"], "memory": job.get("mem", 0)}
    for name, unit in {"gpus": "GPUs", "cpus": "CPUs", "memory": "MB of memory"}.items():
        if wanted[name] > (most := max(getattr(node, name) for node in here)):
            fix = f"at most {most} in the profile, or another partition"
            return error(subject, f"{wanted[name]} {unit} a node, its largest has {most}", fix)
    fitting = [node for node in here if all(getattr(node, name) >= count for name, count in wanted.items())]
    if len(fitting) < job["nodes"]:
        fix = f"nodes: {len(fitting)} in the profile"
        return error(subject, f"{job['nodes']} such nodes, it has {len(fitting)}", fix)
    if (up := sum(node.up for node in fitting)) < job["nodes"]:
        return warning(subject, f"{job['nodes']} such nodes, {up} are up now: jobs wait", "sinfo -R gives the reason")
    answer = ask("sbatch", "--test-only", *_slurm_words(job), "--wrap", "true")
    if answer.returncode:
        return error(subject, f"Slurm refuses such a job: {_complaint(answer)}", "ask for less, or another partition")
    return ok(subject, "takes such a job")


def _slurm_words(job: Job) -> list[str]:
    return [f"--{key}={value}" for key, value in job.items()]


def probe(job: Job, patience: int, results: Path) -> Iterator[Finding]:
    """Run `_check_node` as a job in a partition."""
    where = f"probe of {job.get('partition', 'the default partition')}"
    with trial(results) as place:
        gpus = count_gpus(f"gpu:{job.get('gpus-per-node', 0)}")
        program = [sys.executable, "-m", "transformer", "doctor-node", place, f"--gpus={gpus}"]
        small = job | {"nodes": 1, "ntasks": 1, "time": 10, "mem": 4000}
        small |= {"job-name": Path(place).name, "immediate": patience}
        result = ask("srun", *_slurm_words(small), *program, seconds=patience + _CHECKING_SECONDS)
        ask("scancel", f"--name={Path(place).name}")  # one that is still there
    for level, text in re.findall(rf"^({'|'.join(LEVELS)}) +(.+)\.$", result.stdout, re.MULTILINE):
        yield Finding(level, where, text)
    if result.returncode:
        fix = "what the message asks for; sinfo shows free nodes; --patience SECONDS, or --no-probe"
        yield error(where, f"did not run: {_complaint(result)}", fix)


def _check_node(place: Path, gpus: int) -> Iterator[Finding]:
    """Check the node of this process. place: a new folder of the login node."""
    node = f"node {os.environ.get('SLURMD_NODENAME', socket.gethostname())}"
    fix = "the project, its environment and results/ on a file system that all nodes have"
    here = place.exists()
    yield ok(node, "sees the login node's files") if here else error(node, "lacks the login node's files", fix)
    yield from check_packages()
    yield from check_gpus(gpus)
    yield check_folder(place.parent)
