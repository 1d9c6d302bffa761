"""The workflow as a `module` of another workflow, in another folder and without this package in its environment."""

import csv
import re
import shutil
from pathlib import Path

import pytest
from support.project import PARTS, last_line, make_small, snakemake

FOREIGN = """
configfile: "settings.yaml"


module attention:
    snakefile:
        "{checkout}/workflow/Snakefile"
    config:
        config["attention"]


use rule * from attention as attention_*


rule best:
    default_target: True
    input:
        "results/small/tables/table2.csv",
    output:
        rows="best.csv",
        package="package.txt",
    shell:
        "grep -E '^model|ours' {{input}} > {{output.rows}}"
        "; python -P -c 'import transformer; print(transformer.__file__)' > {{output.package}}"
"""


@pytest.fixture
def checkout(tmp_path) -> Path:
    """Make the smallest project, and beside it a folder with its data and a workflow that imports the project's."""
    (tmp_path / "checkout").mkdir()
    checkout = make_small(tmp_path / "checkout")
    shutil.copytree(checkout, tmp_path / "work", ignore=shutil.ignore_patterns(*PARTS))
    return checkout


def foreign(checkout: Path) -> Path:
    """Write the other workflow, with a part of the configuration. Return its folder."""
    folder = checkout.with_name("work")
    (folder / "Snakefile").write_text(FOREIGN.format(checkout=checkout))
    (folder / "settings.yaml").write_text("of the other: 1\nattention: {scale: small}\n")
    return folder


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if "__pycache__" not in path.parts}


@pytest.mark.slow
def test_another_workflow_makes_table_2_and_reads_it(checkout):
    """The package comes from the unchanged checkout. config.yaml provides the missing keys."""
    before, work = files(checkout), foreign(checkout)
    result = snakemake(work)
    assert result.returncode == 0, result.stdout + result.stderr
    rows = list(csv.DictReader((work / "best.csv").read_text("utf-8").splitlines()))
    assert [row["model"].partition(" (")[2] for row in rows] == ["base)", "big)", "lstm)"]
    assert all(0 <= float(row["en-de_bleu"]) <= 100 for row in rows)
    assert Path((work / "package.txt").read_text().strip()) == checkout / "transformer/__init__.py"
    assert files(checkout) == before


def listing(folder: Path, target: str) -> str:
    """Return the files and the command of each job in a dry run."""
    result = snakemake(folder, "--dry-run", "--printshellcmds", target)
    assert result.returncode == 0, result.stdout + result.stderr
    lines = re.findall(r"^(?:    (?:input|output|log):|Shell command:) .*", result.stdout, re.MULTILINE)
    return "\n".join(sorted(lines))


def test_every_rule_finds_its_files_from_elsewhere(checkout):
    """Code and scripts belong to the checkout. Otherwise, all jobs equal those of the checkout."""
    expected, found = listing(checkout, "all"), listing(foreign(checkout), "attention_all")
    for name in ("workflow/scripts/train", "workflow/paper/table2.csv", "transformer/report/tables/table2.py"):
        assert f"{checkout}/{name}" in found
    assert sorted(found.replace(f"{checkout}/", "").splitlines()) == sorted(expected.splitlines())


def test_a_module_with_a_prefix_is_refused_in_one_line(checkout):
    """Snakemake would move inputs and outputs below the prefix, but not the paths in parameters."""
    work = foreign(checkout)
    text = (work / "Snakefile").read_text()
    (work / "Snakefile").write_text(text.replace("    config:\n", '    prefix:\n        "made"\n    config:\n', 1))
    result = snakemake(work, "--dry-run")
    assert result.returncode == 1
    assert last_line(result).startswith("Snakefile: expected a module without `prefix:`")
    assert "Traceback" not in result.stderr
