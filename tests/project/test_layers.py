"""Imports: a package of transformer/ imports lower ones only; the workflow, its configuration alone."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "transformer"
MODULES = sorted(PACKAGE.rglob("*.py"))
WORKFLOW = [
    ROOT / "Snakefile",
    *sorted(path for pattern in ("Snakefile", "*.smk", "*.py") for path in (ROOT / "workflow").rglob(pattern)),
]

LAYERS = (  # lowest first; a new package must be placed
    ("layout", "records", "files", "text", "provenance", "templates"),
    ("config", "cli", "commandline"),
    ("data", "model", "runtime"),
    ("plan",),
    ("translation",),
    ("parsing", "training", "doctor"),
    ("evaluation",),
    ("report",),
    ("commands",),
    ("__main__",),
)
# Within a layer, these alone.
BESIDE = {("data", "runtime")}
TORCHLESS = ("layout", "records", "files", "text", "config", "plan")  # what the Snakefile needs


def package(path: Path) -> str:
    """Return the name in LAYERS of a file."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def layer(name: str) -> int:
    (number,) = [number for number, names in enumerate(LAYERS) if name in names]
    return number


def imported(path: Path) -> set[str]:
    """Return all that a file imports, wherever in it, by full name: `from a import b` counts as a.b."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{'.' * node.level}{node.module}.{alias.name}" for alias in node.names}
    return names


def test_each_package_stands_in_one_layer():
    assert sorted(name for names in LAYERS for name in names) == sorted(
        {package(path) for path in MODULES} - {"__init__"}
    )


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module_imports_lower_packages_only(path: Path):
    importer = package(path)
    ours = {full.split(".")[1] for full in imported(path) if full.startswith("transformer.")} - {importer}
    assert {name for name in ours if layer(name) >= layer(importer) and (importer, name) not in BESIDE} == set()


@pytest.mark.parametrize("name", ["stages", "tools"])
def test_no_verb_is_imported_by_another(name: str):
    for path in (PACKAGE / name).glob("*.py"):
        assert not {full for full in imported(path) if re.match(r"transformer\.(stages|tools)\b", full)}, path


def test_packages_have_no_circle_between_modules():
    graph = {".".join(path.relative_to(ROOT).with_suffix("").parts): imported(path) for path in MODULES}
    TopologicalSorter({name: depends(graph, name) for name in graph}).prepare()  # raises CycleError


def depends(graph: dict[str, set[str]], name: str) -> set[str]:
    """Return the modules that a module imports, as a whole or something of them."""
    return {module for full in graph[name] for module in (full, full.rpartition(".")[0]) if module in graph} - {name}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module_names_what_it_imports_in_full_and_knows_no_workflow(path: Path):
    roots = {full.split(".")[0] for full in imported(path)}
    assert not roots & {"", "snakemake"}  # "" is a relative import


@pytest.mark.parametrize("name", TORCHLESS)
def test_some_packages_need_no_torch(name: str):
    for path in (PACKAGE / name).glob("*.py"):
        assert not re.search(r"^(import|from) torch\b", path.read_text("utf-8"), re.MULTILINE), path


def test_packages_import_nothing_by_themselves():
    assert {path: names for path in PACKAGE.rglob("__init__.py") if (names := imported(path))} == {}


@pytest.mark.parametrize("path", WORKFLOW, ids=lambda path: str(path.relative_to(ROOT)))
def test_workflow_imports_the_configuration_alone(path: Path):
    ours = re.findall(r"^\s*(?:import|from)\s+(transformer[\w.]*)", path.read_text("utf-8"), re.MULTILINE)
    assert {name for name in ours if not name.startswith("transformer.config")} == set()
