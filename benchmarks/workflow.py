"""The time that `make` takes, by rule of the workflow, from the log of a finished run of Snakemake.

    python -m benchmarks.workflow                                      # the newest log in .snakemake/log
    python -m benchmarks.workflow --from .snakemake/log/2026-11-21T120000.000000.snakemake.log
    python -m benchmarks.workflow --run --cores all --forceall         # runs Snakemake with these options

A rule's wall-clock time is summed over its jobs, of which several run at once; the whole run's is from first to last.
The log has no processor time: --run measures that, by stage of the package.
"""

import argparse
import re
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psutil

from benchmarks.results import circumstances, command, leave, markdown, parser_of
from transformer.files import InputError

LOGS = Path(".snakemake/log")
WATCH = 0.1  # seconds between looks at the processes
STAMP = re.compile(r"\[(\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4})\]")
RULE = re.compile(r"(?:local)?(?:rule|checkpoint) (\w+):")
JOB = re.compile(r" +jobid: (\d+)")
THREADS = re.compile(r" +threads: (\d+)")
FINISHED = re.compile(r"Finished jobid: (\d+)")


@dataclass
class Job:
    """One job of a run; times are those of the log, to the second."""

    rule: str
    started: datetime
    threads: int = 1
    ended: datetime | None = None

    @property
    def seconds(self) -> float:
        return (self.ended - self.started).total_seconds()


def main(argv: list[str] | None = None) -> None:
    """Sum the jobs of a log, and write and print the result."""
    parser = parser_of("workflow", __doc__)
    parser.add_argument("--from", dest="log", type=Path, metavar="LOG", help="the newest if not given")
    parser.add_argument("--label", default="demo", help="what was made, in the result's name")
    parser.add_argument("--run", nargs=argparse.REMAINDER, metavar="OPTION", help="run Snakemake; the last option")
    args = parser.parse_args(argv)
    processors = run(args.run) if args.run is not None else {}
    jobs = read_jobs(args.log or newest(LOGS))
    result = circumstances("workflow", args) | {"label": args.label, "cpu_seconds": processors} | summed(jobs)
    leave(result, table(result), args, args.label)


def run(options: list[str]) -> dict[str, float]:
    """Run Snakemake to its end; return processor seconds by stage. Raises CalledProcessError where it fails."""
    argv = [sys.executable, "-m", "snakemake", *options]
    seen: dict[tuple[int, float], tuple[str, float]] = {}  # by process, as the same number may come again
    with subprocess.Popen(argv) as process:
        while process.poll() is None:
            for child in psutil.Process(process.pid).children(recursive=True):
                note(child, seen)
            time.sleep(WATCH)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, argv)
    stages: defaultdict[str, float] = defaultdict(float)
    for stage, seconds in seen.values():
        stages[stage] += seconds
    return dict(stages)


def note(process: psutil.Process, seen: dict) -> None:
    """Record the processor time of a process and of those that it waited for, if it runs a stage."""
    try:
        words, times = process.cmdline(), process.cpu_times()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):  # it has just ended
        return
    for flag, package, stage in zip(words, words[1:], words[2:], strict=False):
        if (flag, package) == ("-m", "transformer"):
            seen[process.pid, process.create_time()] = (stage, sum(times[:4]))


def newest(folder: Path) -> Path:
    """Return the newest log. Raises InputError where there is none."""
    logs = sorted(folder.glob("*.snakemake.log"))
    if not logs:
        raise InputError(f"{folder}: expected a log of Snakemake, found none")
    return logs[-1]


def read_jobs(log: Path) -> list[Job]:
    """Return the jobs that finished. Raises InputError where the log has none."""
    jobs: dict[str, Job] = {}
    stamp, job = None, None
    for line in log.read_text(encoding="utf-8").splitlines():
        if match := STAMP.match(line):
            stamp = datetime.strptime(match[1], "%a %b %d %H:%M:%S %Y")
        elif match := RULE.match(line):
            job = Job(match[1], stamp)
        elif match := JOB.match(line):
            jobs[match[1]] = job
        elif match := THREADS.match(line):
            job.threads = int(match[1])
        elif match := FINISHED.match(line):
            jobs[match[1]].ended = stamp
    finished = [job for job in jobs.values() if job.ended]
    if not finished:
        raise InputError(f"{log}: expected finished jobs, found none")
    return finished


def summed(jobs: list[Job]) -> dict:
    """Sum the jobs: the seconds of the whole run, and each rule's numbers."""
    rules: defaultdict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        rules[job.rule].append(job)
    whole = max(job.ended for job in jobs) - min(job.started for job in jobs)
    return {"jobs": len(jobs), "seconds": whole.total_seconds(), "rules": {name: totals(rules[name]) for name in rules}}


def totals(jobs: list[Job]) -> dict:
    """Return one rule's numbers."""
    return {
        "jobs": len(jobs),
        "seconds": sum(job.seconds for job in jobs),
        "core_seconds": sum(job.seconds * job.threads for job in jobs),
    }


def table(result: dict) -> str:
    """Return the result in Markdown, the longest rule first."""
    by_time = sorted(result["rules"].items(), key=lambda pair: -pair[1]["core_seconds"])
    title = f"The workflow, {result['label']}: {result['jobs']} jobs in {result['seconds'] / 60:.1f} minutes"
    if result["cpu_seconds"]:
        title += f", {sum(result['cpu_seconds'].values()) / 60:.1f} of a processor core"
    return markdown(title, [row(name, rule, result["cpu_seconds"]) for name, rule in by_time], result)


def row(name: str, rule: dict, cpu_seconds: dict[str, float]) -> dict:
    """Return a rule's line of the table, without processor time if its stage has another name."""
    cells = {"Rule": name, "Jobs": str(rule["jobs"]), "Seconds": f"{rule['seconds']:,.0f}"}
    cells["Seconds x threads"] = f"{rule['core_seconds']:,.0f}"
    return cells | ({"CPU seconds": f"{cpu_seconds[name]:,.0f}" if name in cpu_seconds else ""} if cpu_seconds else {})


if __name__ == "__main__":
    command(main)
