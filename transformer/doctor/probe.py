"""A job that looks at a cluster's node from inside, and is looked at from here."""

import json
import os
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

from transformer.doctor.finding import Finding, error, ok
from transformer.doctor.folders import RESULTS, SEEN_WITHIN, SKEW, appears, trial
from transformer.doctor.machine import LOCK, same_packages, versions
from transformer.doctor.partitions import options
from transformer.doctor.profile import Asked
from transformer.doctor.slurm import ask, complaint
from transformer.runtime.lock import taken

PATIENCE = 120  # seconds until a node is free
CHECKING = 300  # seconds for the checks there
MEMORY = 4000  # MB, for PyTorch and a small product
MINUTES = 10


def largest(asked: list[Asked]) -> list[Asked]:
    """For each partition, of its rules the one that asks for most GPUs, then processors."""
    order = sorted(asked, key=lambda rule: (rule.gpus, rule.cpus))
    return list({rule.partition: rule for rule in order}.values())


def probe(rule: Asked, config: dict, patience: float) -> Iterator[Finding]:
    """Run the checks on a node of the rule's partition. `config` says by what: files, entries, mirror, submits."""
    where = f"probe of {rule.partition or 'the default partition'}"
    with trial(RESULTS) as place, open(place / "lock", "a+") as lock:
        taken(lock)
        token = secrets.token_hex(4)
        (place / "login").write_text(token)
        order = {"place": str(place), "token": token, "gpus": rule.gpus, "cpus": rule.cpus} | config
        with open(place / "stderr", "w+b") as said:
            job = submit(rule, f"doctor-{token}", order, said)
            try:
                yield from told(where, converse(job, place, f"doctor-{token}", patience))
            finally:
                cancel(job, f"doctor-{token}")


def submit(rule: Asked, name: str, order: dict, said: IO[bytes]) -> subprocess.Popen:
    """Start the job; not as a step of a job that doctor itself may run in."""
    environment = {
        key: value for key, value in os.environ.items() if key == "SLURM_CONF" or not key.startswith("SLURM_")
    }
    limits = [f"--mem={min(MEMORY, rule.mem_mb or MEMORY)}M", f"--time={MINUTES}", f"--job-name={name}"]
    program = [sys.executable, "-m", "transformer", "doctor", "--inside", json.dumps(order)]
    command = ["srun", *options(rule, nodes=1), *limits, *program]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, bufsize=0, env=environment)


def cancel(job: subprocess.Popen, name: str) -> None:
    """End the job if it lives."""
    if job.poll() is None:
        ask("scancel", f"--name={name}")
        job.terminate()
    job.wait()
    job.stdout.close()


def told(where: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """The findings as those of a place, what is well in one line: of GPUs all that was found."""
    well = []
    for finding in findings:
        if finding.level == "ok" and not finding.about.startswith("GPU "):
            well.append(finding.about)
        else:
            yield replace(finding, about=f"{where}: {finding.about}")
    if well:
        yield ok(where, f"{', '.join(dict.fromkeys(well))} as they must be")


def converse(job: subprocess.Popen, place: Path, name: str, patience: float) -> Iterator[Finding]:
    """Read what the job says: first its clock, then what it found."""
    hello = answer(job, patience)
    if hello is None:
        yield waiting(job, place, name, patience)
        return
    yield ok(f"node {hello['node']}", "answers")
    yield watch(hello["time"] - time.time())
    yield seen(place / "node", hello["node"])
    result = answer(job, CHECKING)
    if result is None:
        yield error("checks", f"did not end: {last_line(place)}", "look at that node, or leave it out")
        return
    yield from (Finding(**finding) for finding in result["findings"])
    if result["versions"]:
        yield same_packages(versions(LOCK), result["versions"])


def answer(job: subprocess.Popen, patience: float) -> dict | None:
    """The next object that the job prints, None when it ends or the time is up; a node may print lines of its own."""
    end = time.monotonic() + patience
    while select.select([job.stdout], [], [], max(0, end - time.monotonic()))[0]:
        line = job.stdout.readline()
        if not line:
            return None
        if line.startswith(b"{"):
            return json.loads(line)
    return None


def waiting(job: subprocess.Popen, place: Path, name: str, patience: float) -> Finding:
    """Why the job did not start."""
    with suppress(subprocess.TimeoutExpired):
        job.wait(1)
        fix = "what the message asks for; nodes must find Python and the project at the same paths"
        return error("start", f"did not run: {last_line(place)}", fix)
    queue = ask("squeue", f"--name={name}", "--noheader", "--format=%T, %r")
    text = f"did not start within {patience:g} s: {complaint(queue)}"
    return error("start", text, "sinfo shows what is free; --patience for a longer wait, --no-probe for none")


def last_line(place: Path) -> str:
    """What srun said last."""
    lines = [line for line in (place / "stderr").read_text(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if "Exited with" not in line]
    return (telling or lines or ["it said nothing"])[-1].strip()


def watch(skew: float) -> Finding:
    """The node's clock and this one agree."""
    if abs(skew) <= SKEW:
        return ok("clock", "is right")
    text = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine's: Snakemake takes old for new"
    return error("clock", text, "set both clocks by NTP (chronyc tracking)")


def seen(path: Path, expected: str) -> Finding:
    """What the node wrote is seen here."""
    if appears(path, expected):
        return ok("files", "are seen by both")
    fix = "the project and results/ on a file system that all nodes have"
    return error("files", f"what the node writes is not seen here within {SEEN_WITHIN} s", fix)
