"""Decisions of the schema of config.yaml: no key has a default, each number has bounds, each name its characters."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from transformer.config.fidelity import PRESETS

ROOT = Path(__file__).parents[2]
SCHEMA = yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text("utf-8"))


def nodes(tree: Any) -> Iterator[dict]:
    """Yield every mapping of the schema, but for what asks and says nothing."""
    if isinstance(tree, list):
        for item in tree:
            yield from nodes(item)
    elif isinstance(tree, dict):
        yield tree
        for key, value in tree.items():
            if key not in ("if", "not"):
                yield from nodes(value)


def test_it_sets_nothing_and_describes_each_key_in_one_sentence():
    assert not any("default" in node for node in nodes(SCHEMA))
    for node in nodes(SCHEMA):
        for key, schema in node.get("properties", {}).items():
            assert re.fullmatch(r"[A-Z](?!.*\. ).*\.", schema["description"]), key


def test_every_mapping_is_closed_and_says_its_names():
    """A misspelt key is an error everywhere; names, which become parts of paths, have a pattern."""
    for node in nodes(SCHEMA):
        if node.get("type") == "object":
            rest = node.get("additionalProperties", node.get("unevaluatedProperties"))
            closed_where_used = node in SCHEMA["$defs"].values() and "urls" in node.get("properties", {})
            assert rest is False or "propertyNames" in node or closed_where_used, node


def test_what_may_be_left_out():
    """What replaces something else, and what there may be more or less of."""
    required = {key for node in nodes(SCHEMA) for key in node.get("required", [])}
    keys = {key for node in nodes(SCHEMA) for key in node.get("properties", {})}
    optional = "elsewhere figure3 figure4 figure5 figures format lines measures member note phrases published split"
    optional += " alternatives subsets grammar treebank repacked md5 sections"  # or what excludes them
    optional += " tried chosen"  # what people did before
    optional += " seeds_of norm residual scaled tied warmup"  # the paper's in all rows but Table 5's
    optional += " measured data_of_paper decapitalize"  # of few scales
    assert keys - required == set(optional.split())


def test_every_number_has_bounds():
    """So that a digit too many is refused, and not tried."""
    for node in nodes(SCHEMA):
        if node.get("type") in ("integer", "number"):
            assert {"minimum", "exclusiveMinimum"} & node.keys(), node
            assert {"maximum", "exclusiveMaximum"} & node.keys(), node


def test_every_pattern_ends_with_the_text():
    """`$` would take a newline at the end."""
    patterns = [node["pattern"] for node in nodes(SCHEMA) if "pattern" in node]
    assert len(patterns) > 5
    assert all(pattern.startswith("^") and pattern.endswith(r"\Z") for pattern in patterns)


def test_fidelity_may_be_any_preset_and_no_other():
    assert SCHEMA["properties"]["fidelity"]["enum"] == list(PRESETS)
