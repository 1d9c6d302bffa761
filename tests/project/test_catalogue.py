"""The Snakemake workflow catalogue's requirements for workflows with standardized usage.

Its page, of November 2025:
https://github.com/snakemake/snakemake-workflow-catalog/blob/main/source/docs/about/adding_workflows.md
"""

import json
from pathlib import Path

import jsonschema
import yaml

from transformer.config import settings
from transformer.config.manual import manual, schema

ROOT = Path(__file__).parents[2]


def test_manual_and_schema_agree_with_the_structs():
    """`python -m transformer.config.manual` rewrites both files."""
    assert (ROOT / "config/README.md").read_text("utf-8") == manual()
    assert (ROOT / "config/schema.json").read_text("utf-8") == schema()


def test_the_schema_for_editors_accepts_the_same_as_the_pipeline():
    """It accepts config.yaml and a user's file with changes, but no wrong key. config.yaml's first line names it."""
    text = (ROOT / "config.yaml").read_text("utf-8")
    named = text.splitlines()[0].removeprefix("# yaml-language-server: $schema=")
    check = jsonschema.Draft202012Validator(json.loads((ROOT / named).read_text("utf-8"))).is_valid
    assert check(yaml.safe_load(text))
    assert check({"scales": {"mine": {"like": "multi30k", "base": {"steps": 9}}}})
    assert not check({"scales": {"mine": {"lik": "multi30k"}}})
    assert not check({"base": {"steps": 0}})


def test_configuration_that_is_deployed_is_accepted():
    """A deployment copies config/. Its config.yaml is merged into the project's."""
    deployed = yaml.safe_load((ROOT / "config/config.yaml").read_text("utf-8"))
    content = settings.completed(ROOT / "config.yaml", deployed)
    settings.accept(content)
    assert content == yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))
