"""README.md and docs/: their links and images exist, and their recorded results agree with results/record."""

import contextlib
import re
from pathlib import Path

import pytest
import yaml
from snakemake.utils import update_config

from transformer.cli import COMMANDS, main
from transformer.config.settings import check

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, ROOT / "benchmarks/README.md", ROOT / "config/README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXT = {path: path.read_text(encoding="utf-8") for path in PAGES}
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def links(page: Path) -> set[tuple[Path, str]]:
    """Return a page's links and images as files or folders, each with the linked heading or nothing."""
    targets = re.findall(r'\]\(([^)#]+)#?([^)]*)\)|src="([^"]+)"', TEXT[page])
    own = [(link or image, heading) for link, heading, image in targets if not link.startswith("http")]
    return {((page.parent / path).resolve(), heading) for path, heading in own}


@each_page
def test_links_lead_somewhere(page):
    for path, heading in links(page):
        assert path.exists()
        lines = path.read_text(encoding="utf-8").splitlines() if heading else []
        titles = [re.sub(r"[^\w\- ]", "", line).strip() for line in lines if line.startswith("#")]
        headings = {title.lower().replace(" ", "-") for title in titles}  # GitHub's form of headings
        assert not heading or heading in headings


@each_page
def test_commands_and_options_exist(page, capsys):
    for command, options in re.findall(r"python -m transformer\s+([a-z]\w*)([^\n`|<#]*)", TEXT[page]):
        assert command in COMMANDS
        with contextlib.suppress(SystemExit):
            main([command, "--help"])
        assert set(re.findall(r"--[\w-]+", options)) <= set(re.findall(r"--[\w-]+", capsys.readouterr().out)), command
    for name in re.findall(r"-m benchmarks\.(\w+)", TEXT[page]):
        assert (ROOT / f"benchmarks/{name}.py").exists()


@each_page
def test_keys_exist(page):
    """In YAML, added to config.yaml and to the README's examples like Snakemake adds it, and after --config."""
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    for example in re.findall(r"```yaml\n(.*?)```", TEXT[README] + TEXT[page], re.DOTALL):
        update_config(config, yaml.safe_load(example))
    check(config)
    assert set(re.findall(r"--config (\w+)=", TEXT[page])) <= config.keys()


def test_readme_is_short_and_leads_to_every_page():
    assert len(TEXT[README].split()) <= 1300
    targets = {path for path, _ in links(README)}
    assert {page for page in PAGES if page.parent == ROOT / "docs"} <= targets
    assert ROOT / "results/record/multi30k/figures/differences.svg" in targets
