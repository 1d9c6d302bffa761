"""Checks of what a profile asks of a cluster's partitions."""

import re
from collections.abc import Iterator

from transformer.doctor.finding import Finding, error, ok, warning
from transformer.doctor.profile import Asked, minutes_of_slurm
from transformer.doctor.slurm import ask, complaint

# In the state of a node that takes no job now. A node that was powered down starts on demand.
AWAY = re.compile(r"(?<!POWER_)(?<!POWERED_)DOWN|DRAIN|FAIL|MAINT|NOT_RESPONDING|POWERING_DOWN|\*")
KEYS = ("account", "minutes", "mem_mb", "cpus", "nodes", "gpus", "options", "gpu_model")  # equal where rules ask alike


def records(kind: str) -> list[dict[str, str]]:
    """Return scontrol's records of all partitions or nodes; of a value with blanks, only the first word."""
    lines = ask("scontrol", "--oneliner", "show", kind).stdout.splitlines()
    return [record for line in lines if (record := dict(re.findall(r"(\w+)=(\S*)", line)))]


def check_partitions(asked: list[Asked]) -> Iterator[tuple[Finding, list[Asked]]]:
    """Check that each rule's partition takes its jobs. Rules that ask alike share one finding."""
    known = {record["PartitionName"]: record for record in records("partition")}
    default = next((name for name, record in known.items() if record.get("Default") == "YES"), None)
    nodes = records("node")
    alike = {}
    for rule in asked:
        partition = rule.partition or default
        alike.setdefault((partition, *(getattr(rule, key) for key in KEYS)), []).append(rule)
    for (name, *_), rules in alike.items():
        subject = f"partition {name or '?'} for {', '.join(rule.rule for rule in rules)}"
        here = [node for node in nodes if name in node.get("Partitions", "").split(",")]
        problems = list(refusals(subject, rules[0], name, known, here))
        yield from ((finding, rules) for finding in problems or [check_submission(subject, rules[0])])


def refusals(
    subject: str, rule: Asked, name: str | None, known: dict[str, dict], nodes: list[dict]
) -> Iterator[Finding]:
    """Yield the reasons why a partition does not take a rule's jobs, or not now."""
    if name not in known:
        message = "there is none of that name" if name else "none is named, and the cluster has no default"
        yield error(subject, message, f"slurm_partition in the profile: one of {', '.join(known)}")
        return
    partition = known[name]
    if partition["State"] != "UP":
        yield error(subject, f"is {partition['State']}", f"wait, or another partition ({', '.join(known)})")
    if rule.minutes and rule.minutes > (limit := minutes_of_slurm(partition["MaxTime"])):
        fix = f"runtime: {limit:g} in the profile, with retries: a training goes on where it stopped"
        message = f"runtime {rule.minutes:g} min, the partition's MaxTime is {limit:g}: jobs wait for ever"
        yield error(subject, message, fix)
    allowed = partition.get("AllowAccounts", "ALL")
    if rule.account and allowed != "ALL" and rule.account.lower() not in allowed.lower().split(","):
        message = f"account {rule.account} may not use it"
        yield error(subject, message, f"slurm_account in the profile: one of {allowed}")
    if rule.gpus and partition.get("PreemptMode") == "CANCEL":
        message = "preempted jobs end, and Snakemake waits for them for ever"
        yield warning(subject, message, "another partition, or one whose PreemptMode is REQUEUE")
    yield from check_sizes(subject, rule, nodes)


def check_sizes(subject: str, rule: Asked, nodes: list[dict]) -> Iterator[Finding]:
    """Check that enough nodes have the GPUs, processors and memory that a rule asks of each."""
    needs = {
        "GPUs": (rule.gpus, gpus),
        "CPUs": (rule.cpus, lambda node: int(node.get("CPUEfctv", node.get("CPUTot", 0)))),
        "MB of memory": (rule.mem_mb or 0, lambda node: int(node.get("RealMemory", 0))),
    }
    for resource, (needed, count) in needs.items():
        most = max(map(count, nodes), default=0)
        if needed > most:
            message = f"{needed} {resource} a node, its largest has {most}"
            yield error(subject, message, f"at most {most} in the profile, or another partition")
            return
    fitting = [node for node in nodes if all(count(node) >= needed for needed, count in needs.values())]
    if len(fitting) < rule.nodes:
        yield error(subject, f"{rule.nodes} such nodes, it has {len(fitting)}", f"nodes: {len(fitting)} in the profile")
    elif (present := sum(not AWAY.search(node["State"]) for node in fitting)) < rule.nodes:
        message = f"{rule.nodes} such nodes, {present} are up now: jobs wait for them"
        yield warning(subject, message, "sinfo -R says why; another partition, or wait")


def gpus(node: dict[str, str]) -> int:
    """Return the number of a node's GPUs, which Slurm writes as gpu:h200:8(S:0-1)."""
    return sum(
        int(count or 1) for count in re.findall(r"gpu(?::[^:,(]*[a-zA-Z_][^:,(]*)?(?::(\d+))?", node.get("Gres", ""))
    )


def options(rule: Asked, nodes: int) -> list[str]:
    """Return what a rule asks for, as options of sbatch and srun."""
    chosen = {"--partition": rule.partition, "--account": rule.account}
    words = [f"{option}={value}" for option, value in chosen.items() if value]
    kind = f"{rule.gpu_model}:" if rule.gpu_model else ""
    words += [f"--gpus-per-node={kind}{rule.gpus}"] if rule.gpus else []
    return [*words, *rule.options, f"--nodes={nodes}", f"--ntasks={nodes}", f"--cpus-per-task={rule.cpus}"]


def check_submission(subject: str, rule: Asked) -> Finding:
    """Ask Slurm whether it takes such a job: it also knows limits of users, accounts and qualities of service."""
    words = options(rule, rule.nodes)
    words += [f"--time={int(rule.minutes)}"] if rule.minutes else []
    words += [f"--mem={rule.mem_mb}M"] if rule.mem_mb else []
    result = ask("sbatch", "--test-only", *words, "--wrap", "true")
    if result.returncode:
        fix = "ask for less in the profile, or another partition"
        return error(subject, f"Slurm refuses such a job: {complaint(result)}", fix)
    start = re.search(r"to start at (\S+)", result.stderr)
    soon = f", which now would start at {start[1].replace('T', ' ')}" if start else ""
    return ok(subject, f"takes such a job{soon}")
