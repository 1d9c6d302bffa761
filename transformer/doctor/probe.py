"""A job that checks a node of a cluster from inside, while the login node checks it from outside."""

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
from transformer.doctor.machine import LOCK, check_same_packages, versions
from transformer.doctor.partitions import options
from transformer.doctor.profile import Asked
from transformer.doctor.slurm import ask, complaint
from transformer.runtime.lock import taken

PATIENCE = 120  # seconds until a node is free
CHECKING = 300  # seconds for the checks there
MEMORY = 4000  # MB, for PyTorch and a small product
MINUTES = 10


def largest(asked: list[Asked]) -> list[Asked]:
    """Return for each partition the rule that asks for the most GPUs and then processors."""
    order = sorted(asked, key=lambda rule: (rule.gpus, rule.cpus))
    return list({rule.partition: rule for rule in order}.values())


def probe(rule: Asked, config: dict, patience: float) -> Iterator[Finding]:
    """Run the checks on a node of the rule's partition.

    config: files, entries, mirror and submits, which the node reads its configuration by. patience: seconds that the
    job may wait for a node.
    """
    where = f"probe of {rule.partition or 'the default partition'}"
    with trial(RESULTS) as place, open(place / "lock", "a+") as lock:
        taken(lock)
        token = secrets.token_hex(4)
        (place / "login").write_text(token)
        order = {"place": str(place), "token": token, "gpus": rule.gpus, "cpus": rule.cpus} | config
        with open(place / "stderr", "w+b") as stderr:
            job = submit(rule, f"doctor-{token}", order, stderr)
            try:
                yield from summarised(where, converse(job, place, f"doctor-{token}", patience))
            finally:
                if job.poll() is None:  # it still runs or waits
                    ask("scancel", f"--name=doctor-{token}")
                    job.terminate()
                job.wait()
                job.stdout.close()


def submit(rule: Asked, name: str, order: dict, stderr: IO[bytes]) -> subprocess.Popen:
    """Start the job, which is no step of the job that doctor itself may run in."""
    environment = {
        key: value for key, value in os.environ.items() if key == "SLURM_CONF" or not key.startswith("SLURM_")
    }
    limits = [f"--mem={min(MEMORY, rule.mem_mb or MEMORY)}M", f"--time={MINUTES}", f"--job-name={name}"]
    program = [sys.executable, "-m", "transformer", "doctor", "--node", json.dumps(order)]
    command = ["srun", *options(rule, nodes=1), *limits, *program]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, bufsize=0, env=environment)


def summarised(where: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the findings as those of a place, and all that is well in one line; GPUs keep their own lines."""
    well = []
    for finding in findings:
        if finding.level == "ok" and not finding.subject.startswith("GPU "):
            well.append(finding.subject)
        else:
            yield replace(finding, subject=f"{where}: {finding.subject}")
    if well:
        yield ok(where, f"{', '.join(dict.fromkeys(well))} as they must be")


def converse(job: subprocess.Popen, place: Path, name: str, patience: float) -> Iterator[Finding]:
    """Read what the job prints, first its clock and then its findings, and check the node from here."""
    greeting = answer(job, patience)
    if greeting is None:
        yield explain_silence(job, place, name, patience)
        return
    yield ok(f"node {greeting['node']}", "answers")
    yield check_clock(greeting["time"] - time.time())
    if appears(place / "node", greeting["node"]):
        yield ok("files", "are seen by both")
    else:
        fix = "the project and results/ on a file system that all nodes have"
        yield error("files", f"what the node writes is not seen here within {SEEN_WITHIN} s", fix)
    result = answer(job, CHECKING)
    if result is None:
        yield error("checks", f"did not end: {last_line(place)}", "look at that node, or leave it out")
        return
    yield from (Finding(**finding) for finding in result["findings"])
    if result["versions"]:
        yield check_same_packages(versions(LOCK), result["versions"])


def answer(job: subprocess.Popen, patience: float) -> dict | None:
    """Read the next JSON object that the job prints; None when the job ends or `patience` seconds are over.

    A node may print lines of its own.
    """
    end = time.monotonic() + patience
    while select.select([job.stdout], [], [], max(0, end - time.monotonic()))[0]:
        line = job.stdout.readline()
        if not line:
            return None
        if line.startswith(b"{"):
            return json.loads(line)
    return None


def explain_silence(job: subprocess.Popen, place: Path, name: str, patience: float) -> Finding:
    """Return why the job did not start."""
    with suppress(subprocess.TimeoutExpired):
        job.wait(1)
        fix = "what the message asks for; nodes must find Python and the project at the same paths"
        return error("start", f"did not run: {last_line(place)}", fix)
    queue = ask("squeue", f"--name={name}", "--noheader", "--format=%T, %r")
    message = f"did not start within {patience:g} s: {complaint(queue)}"
    return error("start", message, "sinfo shows what is free; --patience for a longer wait, --no-probe for none")


def last_line(place: Path) -> str:
    """Return srun's last message that says more than an exit code."""
    lines = [line for line in (place / "stderr").read_text(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if "Exited with" not in line]
    return (telling or lines or ["it said nothing"])[-1].strip()


def check_clock(skew: float) -> Finding:
    """Check that the node's clock and this one differ by few seconds."""
    if abs(skew) <= SKEW:
        return ok("clock", "is right")
    message = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine's: Snakemake takes old for new"
    return error("clock", message, "set both clocks by NTP (chronyc tracking)")
