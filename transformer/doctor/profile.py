"""The resources that a Snakemake profile for Slurm asks for."""

import math
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer.config.reading import read_yaml
from transformer.config.runs import training_threads
from transformer.files import InputError

TRAININGS = ("train", "train_parser")  # the rules whose threads follow from their GPUs
NAMES = ("profile.yaml", "config.yaml")  # in the order in which Snakemake looks for them
SCRIPT = "job"  # beside a profile that submits no jobs: the Slurm job that everything runs in
MINUTES = {"": 1, "s": 1 / 60, "m": 1, "h": 60, "d": 24 * 60, "w": 7 * 24 * 60}
PASSED = ("constraint", "qos", "reservation")  # options of sbatch and srun that resources, or slurm_extra, may say


@dataclass(frozen=True)
class Asked:
    """The resources of a rule's jobs; None where the profile gives none, or an expression that Snakemake evaluates."""

    rule: str  # "default" for all rules that the profile does not name
    partition: str | None
    account: str | None
    minutes: float | None
    mem_mb: float | None  # per node
    cpus: int  # per node
    nodes: int
    gpus: int  # per node
    options: tuple[str, ...]  # of sbatch and srun
    gpu_model: str | None = None


@dataclass(frozen=True)
class Profile:
    """A profile's settings, and what its rules ask for, beginning with those that it does not name."""

    path: Path
    settings: dict[str, Any]
    asked: list[Asked]
    submits: bool = True  # False where Snakemake itself runs in a job


def read_profile(folder: Path) -> Profile:
    """Read the profile in a folder. Raises InputError unless Snakemake submits jobs by it, or runs in one."""
    path = next((folder / name for name in NAMES if (folder / name).is_file()), None)
    if path is None:
        raise InputError(f"{folder}: expected a Snakemake profile, found neither {' nor '.join(NAMES)}")
    settings = read_yaml(path)
    if isinstance(settings, dict) and settings.get("executor") == "slurm":
        return Profile(path, settings, asked_by_rules(settings))
    if isinstance(settings, dict) and (folder / SCRIPT).is_file():
        return read_script(folder / SCRIPT, settings)
    raise InputError(f"{path}: expected a profile with executor: slurm, or a file {SCRIPT} for sbatch beside it")


def asked_by_rules(settings: dict) -> list[Asked]:
    """Return what the rules of a profile ask for, beginning with those that it does not name."""
    default = pairs(settings.get("default-resources"))
    own = {rule: pairs(resources) for rule, resources in pairs(settings.get("set-resources"), ":").items()}
    threads = pairs(settings.get("set-threads"))
    rules = dict.fromkeys([*own, *threads])
    asked = [reckon("default", default)]
    return asked + [reckon(rule, default | own.get(rule, {}), threads.get(rule)) for rule in rules]


def read_script(path: Path, settings: dict) -> Profile:
    """Read what the job itself asks for. Raises InputError where a rule asks for more than the job has."""
    words = dict(re.findall(r"^#SBATCH --([a-z-]+)[= ]?(\S*)", path.read_text(), re.MULTILINE))
    job = Asked(
        rule=path.name,
        partition=words.get("partition"),
        account=words.get("account"),
        minutes=minutes_of_slurm(words["time"]) if "time" in words else None,
        mem_mb=whole(words.get("mem")) or None,  # 0 is all of a node's
        cpus=whole(words.get("cpus-per-task")) or 1,
        nodes=whole(words.get("nodes")) or 1,
        gpus=whole(words.get("gpus-per-node")) or 0,
        options=passed_of(words),
    )
    for rule in asked_by_rules(settings):
        for resource, key in {"nodes": "nodes", "GPUs a node": "gpus", "CPUs a node": "cpus"}.items():
            if (asked := getattr(rule, key)) > (has := getattr(job, key)):
                raise InputError(
                    f"{path}: expected {asked} {resource}, as its profile asks for {rule.rule}, found {has}"
                )
    own = {"slurm-requeue": "requeue" in words, "slurm_extra": [f"--{name}" for name in words]}
    return Profile(path, own, [job], submits=False)


def pairs(value: Any, sign: str = "=") -> dict:
    """Return a mapping, which a profile may also write as a list: [mem_mb=100], [train:mem_mb=100, train:gpu=1]."""
    if isinstance(value, dict):
        return value
    result = {}
    for entry in value or []:
        key, _, rest = str(entry).partition(sign)
        result[key] = rest if sign == "=" else [*result.get(key, []), rest]
    return result


def reckon(rule: str, resources: dict, threads: Any = None) -> Asked:
    """Return one rule's resources as Slurm understands them; threads: those that the profile sets, if it does."""
    nodes = whole(resources.get("nodes")) or 1
    try:
        own_threads = training_threads(resources) if rule in TRAININGS else None
    except ValueError as problem:
        raise InputError(f"{rule}: {problem}") from None
    extra = shlex.split(str(resources.get("slurm_extra", "")).strip("'"))
    return Asked(
        rule=rule,
        partition=name(resources.get("slurm_partition")),
        account=name(resources.get("slurm_account")),
        minutes=minutes(resources.get("runtime")),
        mem_mb=whole(resources.get("mem_mb")),
        cpus=whole(resources.get("cpus_per_task")) or whole(threads) or own_threads or 1,
        nodes=nodes,
        gpus=gpus_per_node(resources, nodes),
        options=passed_of(resources | dict(pair for word in extra if len(pair := word.strip("-").split("=", 1)) == 2)),
        gpu_model=name(resources.get("gpu_model")),
    )


def passed_of(options: dict) -> tuple[str, ...]:
    """Return the options that say on which nodes, or by which right, a job may run."""
    return tuple(f"--{name}={options[name]}" for name in PASSED if name in options)


def gpus_per_node(resources: dict, nodes: int) -> int:
    """Return a job's GPUs on each node: `gpu` counts those of all nodes, gres: "gpu:h200:2" those of one."""
    if gres := re.fullmatch(r"gpu(?::[^:]+)?(?::(\d+))?", str(resources.get("gres", ""))):
        return int(gres[1] or 1)
    return math.ceil((whole(resources.get("gpu")) or 0) / nodes)


def name(value: Any) -> str | None:
    """Return a name without the quotes that a profile may put around it; None where it is empty."""
    return None if value in (None, "") else str(value).strip("'\"")


def whole(value: Any) -> int | None:
    """Return a plain number; None for an expression."""
    return int(value) if str(value).isdecimal() else None


def minutes(value: Any) -> float | None:
    """Return minutes, given as a plain number or with a unit such as 3h or 2d; None for an expression."""
    match = re.fullmatch(r"(\d+)\s*([smhdw]?)", str(value))
    return int(match[1]) * MINUTES[match[2]] if match else None


def minutes_of_slurm(limit: str) -> float:
    """Return the minutes of a time limit in Slurm's format.

    That is days-hours[:minutes[:seconds]] or, without days, [hours:]minutes[:seconds].
    """
    if limit == "UNLIMITED":
        return math.inf
    days, dash, clock = limit.rpartition("-")
    numbers = list(map(int, clock.split(":")))
    hours, mins, secs = numbers if len(numbers) == 3 else [*numbers, 0, 0][:3] if dash else [0, *numbers, 0][:3]
    return (int(days or 0) * 24 + hours) * 60 + mins + secs / 60
