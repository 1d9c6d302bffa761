"""What the Snakemake workflow catalogue asks of workflows with standardized usage.

Its page, of November 2025:
https://github.com/snakemake/snakemake-workflow-catalog/blob/main/source/docs/about/adding_workflows.md
"""

import re
import subprocess
import sys
from pathlib import Path

import yaml

from transformer.config import settings
from transformer.config.schema import manual

ROOT = Path(__file__).parents[2]


def test_the_manual_is_that_of_the_structs():
    """`python -m transformer.config.schema > config/README.md` writes the file again."""
    assert (ROOT / "config/README.md").read_text("utf-8") == manual()


def test_configuration_that_is_deployed_is_accepted():
    """Deploying copies config/ and names its config.yaml, which is laid over the project's."""
    deployed = yaml.safe_load((ROOT / "config/config.yaml").read_text("utf-8"))
    config = settings.completed(ROOT / "config.yaml", deployed)
    settings.accept(config)
    assert config == yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))


def test_usage_is_true():
    """Snakemake has the flags; each rule names a conda environment; no rule a container; some outputs are reported."""
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text("utf-8"))["usage"]
    assert usage.keys() == {"mandatory-flags", "software-stack-deployment", "report"}
    command = [sys.executable, "-m", "snakemake", "--help"]
    help_text = subprocess.run(command, capture_output=True, text=True, timeout=300).stdout
    assert set(usage["mandatory-flags"]["flags"].split()) <= set(re.findall(r"--[\w-]+", help_text))
    text = "".join(path.read_text("utf-8") for path in (ROOT / "workflow/rules").glob("*.smk"))
    rules = [rule for rule in re.split(r"^(?=rule |use rule )", text, flags=re.MULTILINE) if rule.startswith("rule ")]
    deployment = usage["software-stack-deployment"]
    assert deployment["conda"] is all("    conda:\n" in rule for rule in rules)
    assert deployment["apptainer"] is ("container:" in text)
    assert deployment["report"] is usage["report"] is ("report(" in text)
