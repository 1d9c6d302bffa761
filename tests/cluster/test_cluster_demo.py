"""Pipelines as jobs of a real Slurm cluster: every rule but `page`, and a short chain without accounting."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from support.project import ENVIRONMENT, RUN, SUBMITTING, all_rules, make_small, rules_of, write_profile
from support.slurm import Cluster

from transformer.layout import Results

pytestmark = pytest.mark.slow


def adapt(project: Path) -> None:
    """Write profiles/here: the Slurm profile, adapted to processors and two GPUs of a node."""
    profile = yaml.safe_load((project / "profiles/slurm/profile.yaml").read_text())
    for rule in profile["set-resources"].values():
        rule |= {"gpu": 1, "runtime": 30}
    profile["set-threads"] = {"train": 1, "train_parser": 1}
    profile["default-resources"]["runtime"] = 30
    several = {"treebank": 3, "translate": 2, "parse": 2, "analyse": 2}  # jobs that take seconds
    profile["groups"] |= {rule: rule for rule in several}
    profile["group-components"] |= several | {"results": 8}
    write_profile(project, profile)


def run(cluster: Cluster, project: Path, *arguments: str) -> list[str]:
    """Run Snakemake with profiles/here. Return the numbers of its jobs, and check that all have completed."""
    command = [*SUBMITTING, "--workflow-profile", "profiles/here", *arguments]
    with (project / "output").open("w") as output:
        process = cluster.popen(*command, cwd=project, env=ENVIRONMENT, stdout=output, stderr=subprocess.STDOUT)
        try:
            assert process.wait(timeout=1500) == 0, (project / "output").read_text()[-5000:]
        finally:
            process.kill()
    numbers = re.findall(r"SLURM jobid (\d+)", (project / "output").read_text())
    query = ["squeue", "--noheader", "--states=all", f"--jobs={','.join(numbers)}", "--format=%i %T %k"]
    jobs = cluster.run(*query, timeout=20).stdout
    print(jobs)
    assert jobs.count(" COMPLETED ") == len(numbers)
    return numbers


def test_every_rule(cluster, tmp_path):
    """Make one file of each kind, with one run of each kind."""
    project = make_small(tmp_path)
    adapt(project)
    (project / "one.yaml").write_text("scales: {small: {rows: [base]}}\n")
    results, figures = Results("results/small"), ("figure3", "timing", "recall", "head_importance")
    files = [results.table("table2", "csv"), results.run("semi-supervised", "parser", 1).folder / "test.json"]
    files += [results.figure(name, "svg") for name in figures]
    numbers = run(cluster, project, "--configfile", "one.yaml", "--", *map(str, files))
    assert all_rules() - rules_of((project / "output").read_text("utf-8")) == {"page", "all"}
    assert all((project / file).stat().st_size > 500 for file in files)
    check_memory(cluster, numbers)


class TestWithoutAccounting:  # the test mostly waits, so it runs in parallel to other tests
    def test_without_accounting(self, plain_cluster, prepared, tmp_path):
        """Run the rules from preprocessed text to a score."""
        project = shutil.copytree(prepared, tmp_path / "project")
        adapt(project)
        score = f"{RUN}/test.json"
        numbers = run(plain_cluster, project, "--configfile", "own.yaml", "--config", "scale=mine", "--", score)
        assert len(numbers) == 4  # the test set is tokenised, too
        assert (project / score).stat().st_size > 300


def check_memory(cluster: Cluster, numbers: list[str]) -> None:
    """Check that no job needed more memory than its rule requests."""
    form = ["--noheader", "--parsable2", "--units=M", "--format=JobID,ReqMem,MaxRSS,Comment"]
    asked, used = {}, {}
    for line in cluster.run("sacct", f"--jobs={','.join(numbers)}", *form, timeout=30).stdout.splitlines():
        step, wanted, peak, comment = line.split("|")
        job, _, part = step.partition(".")
        if not part:
            asked[job] = (float(wanted.rstrip("M")), comment)
        elif peak:
            used[job] = used.get(job, 0) + float(peak.rstrip("M"))
    table = sorted((comment, used.get(job, 0), wanted) for job, (wanted, comment) in asked.items())
    print("\n".join(f"{comment}: {peak:.0f} of {wanted:.0f} MB" for comment, peak, wanted in table))
    assert any("rule_train" in asked[job][1] for job in used)  # Slurm has measured the memory of trainings
    assert [row for row in table if row[1] > row[2]] == []
