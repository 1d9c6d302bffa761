"""A logger for Snakemake that prints one line per job with the remaining time: `snakemake --logger lines`.

Snakemake finds this package by its name on PYTHONPATH. `make` adds the folder to PYTHONPATH.
"""

import logging
import sys
import time
from collections import Counter, defaultdict

from snakemake.common import NOTHING_TO_BE_DONE_MSG
from snakemake.logging import DefaultFilter, DefaultFormatter
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

SECONDS = {"train": 10, "train_parser": 30}  # estimate per job of the demo, until a job of the rule has finished
OTHERS = 2.5  # estimate for jobs of other rules


class LogHandler(LogHandlerBase):
    """A handler that records the unfinished jobs and the duration of finished jobs by rule."""

    writes_to_stream = has_filter = has_formatter = True
    writes_to_file = needs_rulegraph = False

    def __post_init__(self) -> None:
        self.began = time.monotonic()
        self.waiting: Counter[str] = Counter()  # number of unfinished jobs by rule
        self.jobs: dict[int, tuple[str, str, float]] = {}  # running jobs: rule, output, start time
        self.seconds: dict[str, list[float]] = defaultdict(list)  # durations of finished jobs by rule
        self.cores = 1
        self.addFilter(DefaultFilter({}, False, False, self.common_settings.dryrun, False))
        self.setFormatter(DefaultFormatter(show_failed_logs=True))

    def emit(self, record) -> None:
        """Print a line when a job ends, and errors and warnings in Snakemake's format."""
        event = getattr(record, "event", None)
        if event == LogEvent.RESOURCES_INFO:
            self.cores = getattr(record, "cores", None) or self.cores
        elif event == LogEvent.RUN_INFO:
            self.waiting.update({rule: count for rule, count in record.stats.items() if rule not in ("all", "total")})
            trainings = self.waiting["train"] + self.waiting["train_parser"]
            self.print(
                f"{self.waiting.total()} jobs, {trainings} of them trainings, on {self.cores} cores: {self.left()}"
            )
        elif event == LogEvent.JOB_INFO:
            made = record.output[0] if record.output else ""
            self.jobs[record.jobid] = record.rule_name, made, time.monotonic()
        elif event == LogEvent.JOB_FINISHED and record.job_id in self.jobs:
            rule, made, began = self.jobs.pop(record.job_id)
            self.seconds[rule].append(time.monotonic() - began)
            self.waiting[rule] -= 1
            if rule != "all":
                elapsed = clock(time.monotonic() - self.began)
                self.print(f"{elapsed}, {self.left():>10} left  {rule:12} {made}")
        elif event == LogEvent.JOB_ERROR or record.levelno > logging.INFO or record.msg == NOTHING_TO_BE_DONE_MSG:
            self.print(self.format(record))

    def left(self) -> str:
        """Estimate the remaining time from the mean duration of each rule's finished jobs, in parallel on all cores."""
        means = {rule: sum(seconds) / len(seconds) for rule, seconds in self.seconds.items()}
        total = sum(count * means.get(rule, SECONDS.get(rule, OTHERS)) for rule, count in self.waiting.items())
        return f"about {clock(total / self.cores)}"

    @staticmethod
    def print(line: str) -> None:
        """Write to stderr, like Snakemake."""
        print(line, file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """Format seconds as minutes and seconds, for example 2:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
