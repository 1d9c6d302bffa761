"""Snakemake's own process: a limit that the rules remove, and a line for each finished job."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

from snakemake.scheduling.job_scheduler import JobScheduler

ROOT = Path(__file__).parents[2]


def test_the_limit_that_the_rules_take_away_is_there():
    """workflow/rules/common.smk sets it to None. Under another name this would have no effect."""
    assert "if self.job_rate_limiter is None" in inspect.getsource(JobScheduler)


JOBS = """
rule all:
    input: "good", "bad"
rule good:
    output: "good"
    shell: "touch {output}"
rule bad:
    output: "bad"
    log: "bad.log"
    shell: "echo 'expected a number' > {log}; exit 1"
"""


def test_make_shows_a_line_for_each_job_and_the_error_of_a_failed_job(tmp_path):
    (tmp_path / "Snakefile").write_text(JOBS)
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--keep-going", "--logger", "lines"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow/logger")}
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    lines = result.stderr.splitlines()
    assert lines[0] == "2 jobs, 0 of them trainings, on 2 cores: about 0:02"
    assert [line.split()[-2:] for line in lines if " left " in line] == [["good", "good"]]
    assert "expected a number" in lines
    assert result.returncode == 1
