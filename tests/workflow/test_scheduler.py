"""Snakemake's own process: it waits without work while jobs run, and prints a line where one ends."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
SNAKEFILE = """
include: "{rules}/scheduler.smk"
rule all:
    input: "slept", expand("{{n}}.waited", n=range({jobs}))
rule quick:
    output: "{{n}}.done"
    shell: "touch {{output}}"
rule slow:
    input: expand("{{n}}.done", n=range({jobs}))
    output: "slept"
    threads: 2
    priority: 1
    shell: "touch begun; sleep 60"
rule waits:
    input: expand("{{n}}.done", n=range({jobs}))
    output: "{{n}}.waited"
    shell: "touch {{output}}"
"""


@pytest.mark.slow
def test_finished_jobs_cost_no_processor_time(tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE.format(rules=ROOT / "workflow/rules", jobs=200))
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--scheduler", "greedy", "-q", "all"]
    with subprocess.Popen(command, cwd=tmp_path) as snakemake:
        try:
            for _ in range(1200):
                if (tmp_path / "begun").exists():
                    break
                assert snakemake.poll() is None
                time.sleep(0.1)
            times = psutil.Process(snakemake.pid).cpu_times
            time.sleep(1)
            before = sum(times()[:2])
            time.sleep(10)
            used = sum(times()[:2]) - before
        finally:
            for child in psutil.Process(snakemake.pid).children(recursive=True):
                child.kill()
            snakemake.kill()
    assert used < 0.5  # of 10 seconds; with timers left, several


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


def test_make_shows_a_line_for_each_job_and_what_a_failed_one_says(tmp_path):
    (tmp_path / "Snakefile").write_text(JOBS)
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--keep-going", "--logger", "lines"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow/logger")}
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    lines = result.stderr.splitlines()
    assert lines[0] == "2 jobs, 0 of them trainings, on 2 cores: about 0:02"
    assert [line.split()[-2:] for line in lines if " left " in line] == [["good", "good"]]
    assert "expected a number" in lines
    assert result.returncode == 1
