"""Imports: a package of transformer/ imports lower layers only, without a circle; the workflow imports few modules."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "transformer"
MODULES = sorted(PACKAGE.rglob("*.py"))
NAMES = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in MODULES}

LAYERS = (  # lowest first; a new package must be placed
    ("layout", "files"),
    ("provenance",),
    ("records",),
    ("config", "process"),
    ("cli", "device"),
    ("data", "model"),
    ("pipeline",),
    ("registry",),
    ("inputs", "plan"),
    ("translation",),
    ("parsing", "training"),
    ("evaluation",),
    ("report", "doctor"),
    ("commands",),
    ("__main__",),
)
SCORES = (
    "transformer.evaluation.bleu",
    "transformer.evaluation.scores",
)  # scores need no model: lower layers may use them
PLACES = {name: place for place, layer in enumerate(LAYERS) for name in layer}


def package(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


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
    assert PLACES.keys() == {package(path) for path in MODULES} - {"__init__"}


def test_packages_import_lower_layers_only():
    upward = {
        f"{NAMES[path]} imports {full}"
        for path in MODULES
        for full in imported(path)
        if full.startswith("transformer.")
        and not full.startswith(SCORES)
        and (name := full.split(".")[1]) != (own := package(path))
        if PLACES[name] >= PLACES.get(own, len(LAYERS))
    }
    assert upward == set()


def test_there_is_no_circle_between_modules():
    graph = {NAMES[path]: imported(path) for path in MODULES}
    depends = {
        name: {part for full in names for part in (full, full.rpartition(".")[0]) if part in graph} - {name}
        for name, names in graph.items()
    }
    TopologicalSorter(depends).prepare()  # raises CycleError


def test_modules_are_named_in_full_and_know_no_workflow():
    roots = {(NAMES[path], full.split(".")[0]) for path in MODULES for full in imported(path)}
    assert {name for name, root in roots if root in ("", "snakemake")} == set()  # "" is a relative import


def test_a_workflow_starts_without_torch_numpy_and_pandas():
    code = "import sys, transformer.inputs; print(*{'torch', 'numpy', 'pandas'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True).stdout == "\n"


def test_the_workflow_imports_what_is_made_for_it():
    files = [
        path for path in (ROOT / "workflow").rglob("*") if path.suffix in (".smk", ".py") or path.name == "Snakefile"
    ]
    pattern = re.compile(r"^\s*(?:import|from)\s+transformer(?:\.(\w+))?", re.MULTILINE)
    names = {name for path in files for name in pattern.findall(path.read_text("utf-8"))}
    assert names <= {"", "config", "inputs", "layout", "registry", "cli", "report", "evaluation", "files"}


def test_file_names_of_results_are_spelt_in_layout_alone():
    spelt = re.compile(r'"(?:run\.json|experiment\.yaml|decoding\.yaml|average\.safetensors|metrics\.jsonl)"')
    assert [NAMES[path] for path in MODULES if path.stem != "layout" and spelt.search(path.read_text("utf-8"))] == []
