"""What the Snakemake workflow catalogue asks of workflows with standardized usage.

Its page, of November 2025:
https://github.com/snakemake/snakemake-workflow-catalog/blob/main/source/docs/about/adding_workflows.md
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.project import ENVIRONMENT, copy_project

from transformer.config import settings
from transformer.config.schema import manual

ROOT = Path(__file__).parents[2]
USAGE = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text("utf-8"))["usage"]
RULES = sorted((ROOT / "workflow/rules").iterdir())


def test_files_that_the_catalogue_asks_for_are_there():
    """The page's criteria, generic ones and those of standardized usage; GitHub's own are not for a test."""
    for path in ("README.md", "workflow/Snakefile", "config/README.md", ".snakemake-workflow-catalog.yml"):
        assert (ROOT / path).is_file()
    words = (ROOT / "README.md").read_text("utf-8").lower()
    assert "snakemake" in words
    assert "workflow" in words
    assert {path.suffix for path in RULES} == {".smk"}


def test_the_manual_is_that_of_the_structs():
    """`python -m transformer.config.schema > config/README.md` writes the file again."""
    assert (ROOT / "config/README.md").read_text("utf-8") == manual()


def test_configuration_that_is_deployed_is_accepted():
    """Deploying copies config/ and names its config.yaml, which is laid over the project's."""
    deployed = yaml.safe_load((ROOT / "config/config.yaml").read_text("utf-8"))
    config = settings.completed(ROOT / "config.yaml", deployed)
    settings.accept(config, [])
    assert config == yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))


def test_usage_has_the_catalogues_keys():
    """Those of the page's example, and `report` where the catalogue had it before."""
    assert USAGE.keys() == {"mandatory-flags", "software-stack-deployment", "report"}
    assert USAGE["mandatory-flags"].keys() == {"desc", "flags"}
    deployment = USAGE["software-stack-deployment"]
    assert deployment.keys() == {"conda", "apptainer", "apptainer+conda", "report"}
    assert all(type(value) is bool for value in deployment.values())
    assert deployment["report"] is USAGE["report"]


def test_usage_is_true():
    """Snakemake has the flags; each rule names a conda environment; no rule a container; some outputs are reported."""
    command = [sys.executable, "-m", "snakemake", "--help"]
    help_text = subprocess.run(command, capture_output=True, text=True, timeout=300).stdout
    assert set(USAGE["mandatory-flags"]["flags"].split()) <= set(re.findall(r"--[\w-]+", help_text))
    texts = [path.read_text("utf-8") for path in RULES]
    rules = [rule for text in texts for rule in re.split(r"^(?=rule |use rule )", text, flags=re.MULTILINE)[1:]]
    makes = [rule for rule in rules if rule.startswith("rule ")]
    deployment = USAGE["software-stack-deployment"]
    assert deployment["conda"] is all("    conda:\n" in rule for rule in makes)
    assert deployment["apptainer"] is any("container:" in text for text in texts)
    assert deployment["report"] is any("report(" in text for text in texts)


@pytest.mark.parametrize("command", ["snakemake --lint", "snakefmt --check --diff Snakefile workflow"])
def test_lint_and_format_are_clean_by_their_defaults(tmp_path, command):
    """In a copy without this project's settings of tools, and without a mirror."""
    project = copy_project(tmp_path)
    env = {name: value for name, value in ENVIRONMENT.items() if name != "TRANSFORMER_MIRROR"}
    program = [sys.executable, "-m", *command.split()]
    result = subprocess.run(program, cwd=project, env=env, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Lints for" not in result.stderr
