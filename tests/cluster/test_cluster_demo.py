"""The whole demo as jobs of a real Slurm cluster, with accounting and without: every rule, few steps and sentences."""

import re
import subprocess

import yaml
from support.project import ENVIRONMENT, FIGURES, SNAKEMAKE, TABLES, copy_project, write_profile

QUICK = """
running: {log_every: 2, evaluate_every: 100, bleu_sentences: 0, save_every: 100}
table1: {lengths: [8, 16, 32, 64], widths: [8, 16, 32], seconds: 0.001}
decoding: {extra_length: 5}
parsing: {decoding: {beam: 4, extra_length: 5}, silver: {extra_length: 5}}
corpora:
  grammar-train: {grammar: {take: 3000}}
  grammar-dev: {grammar: {take: 20}}
  grammar-test: {grammar: {take: 40}}
  grammar-text: {grammar: {take: 40}}
scales:
  demo:
    base: {steps: 6, warmup_steps: 2, checkpoint_every: 1}
    experiments: {big: {steps: 6, checkpoint_every: 1}}
    parsing:
      parser: {steps: 6, checkpoint_every: 1}
      tasks: {semi-supervised: {silver: {sentences: 40}}}
"""


def adapt(project):
    """Write profiles/here: the Slurm profile as a user adapts it, to four processors and two GPUs on a node."""
    profile = yaml.safe_load((project / "profiles/slurm/profile.yaml").read_text())
    for rule in profile["set-resources"].values():
        rule |= {"gpu": 1, "runtime": 30}
    profile["set-threads"] = dict.fromkeys(profile["set-threads"], 1)
    profile["default-resources"]["runtime"] = 30
    profile["groups"]["translate"], profile["group-components"]["translate"] = "translate", 2
    write_profile(project, profile | {"max-jobs-per-timespan": "100/1s"})


def test_the_whole_demo(any_cluster, tmp_path, shown):
    project = copy_project(tmp_path)
    adapt(project)
    (project / "quick.yaml").write_text(QUICK)
    command = [*SNAKEMAKE[:3], "--workflow-profile", "profiles/here", "--configfile", "quick.yaml"]
    with (project / "output").open("w") as output:
        process = any_cluster.popen(*command, cwd=project, env=ENVIRONMENT, stdout=output, stderr=subprocess.STDOUT)
        try:
            assert process.wait(timeout=1500) == 0, (project / "output").read_text()[-5000:]
        finally:
            process.kill()
    for table in TABLES:
        assert (project / f"results/demo/tables/{table}.csv").stat().st_size > 300
    for figure in FIGURES:
        assert (project / f"results/demo/figures/{figure}.pdf").read_bytes().startswith(b"%PDF")
    assert (project / "results/demo/report.html").stat().st_size > 100_000
    numbers = re.findall(r"SLURM jobid (\d+)", (project / "output").read_text())
    query = ["squeue", "--noheader", "--states=all", f"--jobs={','.join(numbers)}", "--format=%i %T %k"]
    jobs = any_cluster.run(*query, timeout=20).stdout
    shown(jobs)
    assert len(numbers) > 40
    assert jobs.count(" COMPLETED ") == len(numbers)
    if any_cluster.accounting:
        fits(any_cluster, numbers, shown)


def fits(cluster, numbers, shown):
    """No job needed more memory than its rules say."""
    query = [
        "sacct",
        f"--jobs={','.join(numbers)}",
        "--noheader",
        "--parsable2",
        "--units=M",
        "--format=JobID,ReqMem,MaxRSS,Comment",
    ]
    asked, used = {}, {}
    for line in cluster.run(*query, timeout=30).stdout.splitlines():
        step, wanted, peak, comment = line.split("|")
        job, _, part = step.partition(".")
        if not part:
            asked[job] = (float(wanted.rstrip("M")), comment)
        elif peak:
            used[job] = used.get(job, 0) + float(peak.rstrip("M"))
    table = sorted((comment, used.get(job, 0), wanted) for job, (wanted, comment) in asked.items())
    shown("\n".join(f"{comment}: {peak:.0f} of {wanted:.0f} MB" for comment, peak, wanted in table))
    assert any("rule_train" in asked[job][1] for job in used)  # Slurm has looked at what was used
    assert [row for row in table if row[1] > row[2]] == []
