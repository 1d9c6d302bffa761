"""What README.md shows is what was recorded: its tables are those of results/record/demo, its files are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RECORD = ROOT / "results/record/demo/tables"


@pytest.mark.parametrize("name", ["table1", "table2", "table3", "table4"])
def test_tables_are_the_recorded_ones(name):
    grid = (RECORD / f"{name}.md").read_text(encoding="utf-8").split("\n\n")[1]
    assert grid.startswith("|")
    assert f"\n{grid}\n" in README


def test_links_lead_somewhere():
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if not link.startswith("http")]
    assert len(links) > 30
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_what_is_recorded_is_small():
    sizes = {path: path.stat().st_size for path in (ROOT / "results/record").rglob("*") if path.is_file()}
    assert sum(sizes.values()) < 5e6
    assert max(sizes.values()) < 1e6
