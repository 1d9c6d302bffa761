"""The workflow as a `module` of another one: in another folder, without this project's package in its environment."""

import csv
import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from support.project import ENVIRONMENT, PARTS, ROOT, copy_project, last_line, run_warm
from support.small import make_small

FOREIGN = """
configfile: "settings.yaml"


module attention:
    snakefile:
        {snakefile}
    prefix:
        {prefix!r}
    config:
        config["attention"]


use rule * from attention as attention_*


rule best:
    default_target: True
    input:
        "results/demo/tables/table2.csv",
    output:
        rows="best.csv",
        package="package.txt",
    shell:
        "grep -E '^model|ours' {{input}} > {{output.rows}}"
        "; python -P -c 'import transformer; print(transformer.__file__)' > {{output.package}}"
"""
FEW = {"steps": 6, "checkpoint_every": 1}
LINES = {"grammar-train": 2000, "grammar-dev": 8, "grammar-test": 8}
DEMO = {
    "scales": {"demo": {"base": FEW, "experiments": {"big": FEW}, "running": {"bleu_sentences": 0}}},
    "corpora": {corpus: {"grammar": {"take": lines}} for corpus, lines in LINES.items()},
}


def foreign(folder: Path, snakefile: str, config: dict, prefix: str | None = None) -> Path:
    """Write a workflow that uses this one, with a configuration of its own; return its folder."""
    folder.mkdir(exist_ok=True)
    (folder / "Snakefile").write_text(FOREIGN.format(snakefile=snakefile, prefix=prefix))
    (folder / "settings.yaml").write_text(yaml.safe_dump({"of the other": 1, "attention": config}, sort_keys=False))
    return folder


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if "__pycache__" not in path.parts}


def test_another_workflow_makes_table_2_and_reads_it(tmp_path):
    """By the package of the checkout, in which nothing is written; config.yaml holds what the other does not say."""
    (checkout := tmp_path / "checkout").mkdir()
    before = files(copy_project(checkout))
    work = foreign(tmp_path / "work", repr(f"{checkout}/workflow/Snakefile"), DEMO)
    result = run_warm(work, "-m", "snakemake", "--cores", "2")
    assert result.returncode == 0, result.stdout + result.stderr
    rows = list(csv.DictReader((work / "best.csv").read_text("utf-8").splitlines()))
    assert [row["model"] for row in rows] == ["Transformer (base)", "Transformer (big)"]
    for row in rows:
        assert all(0 <= float(row[f"{task}_bleu"]) <= 100 for task in ("en-de", "en-fr"))
    about = json.loads((work / "results/demo/runs/en-fr/big/1/run.json").read_text())
    assert about["steps"] == FEW["steps"]
    assert Path((work / "package.txt").read_text().strip()) == checkout / "transformer/__init__.py"
    assert files(checkout) == before


def listing(folder: Path, target: str) -> str:
    """Return the files and the command of each job in a dry run."""
    result = run_warm(folder, "-m", "snakemake", "--cores", "2", "--dry-run", "--printshellcmds", target)
    assert result.returncode == 0, result.stdout + result.stderr
    lines = re.findall(r"^(?:    (?:input|output|log):|Shell command:) .*", result.stdout, re.MULTILINE)
    return "\n".join(sorted(lines))


@pytest.mark.parametrize("prefix", [None, "made/here"])
def test_every_rule_finds_its_files_from_elsewhere(tmp_path, prefix):
    """Code and scripts are the checkout's; with a prefix, whatever is made lies below it, and what is given does not.

    Otherwise, all jobs are those of the checkout itself.
    """
    (checkout := tmp_path / "checkout").mkdir()
    make_small(checkout)
    config = yaml.safe_load((checkout / "config.yaml").read_text("utf-8"))
    work = shutil.copytree(checkout, tmp_path / "work", ignore=shutil.ignore_patterns(*PARTS))
    foreign(work, repr(f"{checkout}/workflow/Snakefile"), config, prefix)
    expected, found = listing(checkout, "all"), listing(work, "attention_all")
    for name in ("workflow/scripts/train", "workflow/paper/table2.csv", "transformer/report/tables/table2.py"):
        assert f"{checkout}/{name}" in found
    made = re.findall(r"([\w/]*/)?((?:results|resources|logs)/)", found)
    assert {before for before, _ in made} == {f"{prefix}/" if prefix else ""}
    assert " --module" in found
    for difference in (f"{prefix}/", f"{work}/", f"{checkout}/", " --module"):
        found = found.replace(difference, "")
    assert sorted(found.splitlines()) == sorted(expected.splitlines())


def test_a_module_without_changes_takes_the_projects_configuration(tmp_path):
    (checkout := tmp_path / "checkout").mkdir()
    copy_project(checkout)
    work = foreign(tmp_path / "work", repr(f"{checkout}/workflow/Snakefile"), {})
    assert "--scale demo" in listing(work, "results/demo/report.html")


def test_a_module_from_a_git_host(tmp_path):
    """As catalogues deploy it. Its clone is made here, so that Snakemake reads nothing from the network."""
    (checkout := tmp_path / "checkout").mkdir()
    copy_project(checkout)
    git = ["git", "-C", str(checkout), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"], ["tag", "v1"]):
        subprocess.run([*git, *arguments], check=True)
    clone = tmp_path / "cache/snakemake/snakemake/source-cache/snakemake-git-cache/github.com/example/attention"
    subprocess.run(["git", "clone", "-q", "--bare", checkout, clone], check=True)
    shutil.rmtree(checkout)
    source = 'github("example/attention", path="workflow/Snakefile", tag="v1")'
    work = foreign(tmp_path / "work", source, {"scale": "demo"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENVIRONMENT, "XDG_CACHE_HOME", str(tmp_path / "cache"))
        found = listing(work, "best")
    (project,) = (work / ".snakemake/checkouts").iterdir()
    assert project.stat().st_mode & 0o777 == 0o755
    assert f"Shell command: {project}/workflow/scripts/train here " in found
    assert f" --paper {project}/workflow/paper/table2.csv" in found
    assert (project / "transformer/commands/table.py").exists()


def test_a_clone_that_fails_ends_in_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    """A commit that is not there; no git; and another Snakemake that was faster is no failure."""
    (origin := tmp_path / "origin").mkdir()
    git = ["git", "-C", str(origin), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "one"], ["tag", "v1"]):
        subprocess.run([*git, *arguments], check=True)
    names = runpy.run_path(ROOT / "workflow/inputs/checkout.smk")
    monkeypatch.chdir(tmp_path)
    checkouts = tmp_path / ".snakemake/checkouts"
    with pytest.raises(SystemExit, match=r"^Snakefile: git .*rev-parse.*: fatal: "):
        names["checkout"](origin, "v2")
    (place := names["checkout"](origin, "v1")).joinpath("of-the-other").touch()
    answers = iter([False])  # not there at first
    with monkeypatch.context() as patch:
        patch.setattr(Path, "exists", lambda path: next(answers, True))
        assert names["checkout"](origin, "v1") == place
    assert [path.name for path in place.iterdir() if path.name != ".git"] == ["of-the-other"]
    assert list(checkouts.iterdir()) == [place]
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit, match=r"^Snakefile: expected git on PATH"):
        names["checkout"](origin, "v1")


def test_a_wrong_configuration_of_a_module_is_refused_in_one_line(tmp_path):
    (checkout := tmp_path / "checkout").mkdir()
    copy_project(checkout)
    work = foreign(tmp_path / "work", repr(f"{checkout}/workflow/Snakefile"), {"base": {"N": "six"}})
    result = run_warm(work, "-m", "snakemake", "--dry-run")
    assert result.returncode == 1
    assert last_line(result) == "config.yaml: base.N: 'six' is not of type 'integer'"
    assert "Traceback" not in result.stderr
