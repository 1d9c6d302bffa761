"""README.md and docs/: what they link to and show exists, and the recorded results are those of results/record."""

import contextlib
import re
from pathlib import Path

import pytest
import yaml
from snakemake.utils import update_config

from transformer.cli import COMMANDS, main
from transformer.config.reading import structured
from transformer.config.schema import Config

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, ROOT / "benchmarks/README.md", ROOT / "config/README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXT = {path: path.read_text(encoding="utf-8") for path in PAGES}
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def links(page: Path) -> set[Path]:
    """Return the files and folders that a page links to or shows as images."""
    targets = re.findall(r'\]\(([^)#]+)[^)]*\)|src="([^"]+)"', TEXT[page])
    return {(page.parent / (link or image)).resolve() for link, image in targets if not link.startswith("http")}


def examples(page: Path) -> list[dict]:
    """Return the YAML that a page shows."""
    return [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", TEXT[page], re.DOTALL)]


@each_page
def test_links_lead_somewhere(page):
    assert [str(path) for path in links(page) if not path.exists()] == []


@each_page
def test_headings_that_links_name_are_there(page):
    for target, heading in re.findall(r"\]\(([^)#]*\.md)#([^)]+)\)", TEXT[page]):
        text = (page.parent / target).read_text(encoding="utf-8")
        assert heading in {line.lstrip("# ").lower().replace(" ", "-") for line in text.splitlines() if line[:1] == "#"}


@each_page
def test_verbs_and_options_exist(page, capsys):
    for verb, options in re.findall(r"python -m transformer\s+([a-z]\w*)([^\n`|<#]*)", TEXT[page]):
        assert verb in COMMANDS
        with contextlib.suppress(SystemExit):
            main([verb, "--help"])
        assert set(re.findall(r"--[\w-]+", options)) <= set(re.findall(r"--[\w-]+", capsys.readouterr().out)), verb


@each_page
def test_benchmarks_exist(page):
    for name in re.findall(r"-m benchmarks\.(\w+)", TEXT[page]):
        assert (ROOT / f"benchmarks/{name}.py").exists()


@each_page
def test_keys_exist(page):
    """In YAML, added to config.yaml and to the README's examples as Snakemake adds it, and after --config."""
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    for example in [*examples(README), *examples(page)]:
        update_config(config, example)
    structured(config, Config, page)
    assert set(re.findall(r"--config (\w+)=", TEXT[page])) <= config.keys()


def test_readme_is_short_and_leads_to_every_page():
    assert len(re.sub(r"^\|.*", "", TEXT[README], flags=re.MULTILINE).split()) <= 1300  # without tables
    assert {page for page in PAGES if page.parent == ROOT / "docs"} <= links(README)


def grid(table: str) -> list[str]:
    """Return the lines of a recorded table's first grid, which has the scores; the others say where they come from."""
    text = (ROOT / f"results/record/multi30k/tables/{table}.md").read_text(encoding="utf-8")
    lines = text.split("\n\n")[1].split("\n")
    assert all(line.startswith("|") for line in lines)
    return lines


def test_table_2_in_readme_is_the_recorded_one():
    assert "\n".join(["", *grid("table2"), ""]) in TEXT[README]


def test_the_record_is_small_as_a_whole():
    assert sum(path.stat().st_size for path in (ROOT / "results/record").rglob("*") if path.is_file()) < 30e6


@pytest.mark.parametrize(
    ("name", "limit"), [("average.safetensors", 4e6), ("report.html", 2e6), ("*", 1e6)], ids=["weights", "page", "rest"]
)
def test_what_is_recorded_is_small(name, limit):
    paths = {path for path in (ROOT / "results/record").rglob(name) if path.is_file()}
    if name == "*":
        paths = {path for path in paths if path.name not in ("average.safetensors", "report.html")}
    assert paths
    assert {str(path): path.stat().st_size for path in paths if path.stat().st_size >= limit} == {}
