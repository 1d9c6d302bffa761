"""What the Snakemake workflow catalogue asks of workflows with standardized usage.

Its page, of November 2025:
https://github.com/snakemake/snakemake-workflow-catalog/blob/main/source/docs/about/adding_workflows.md
"""

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
