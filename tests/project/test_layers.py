"""Imports, in code or in strings: a package of transformer/ uses only lower layers, without cycles."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "transformer").rglob("*.py"))
NAMES = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in MODULES}

LAYERS = (  # from the lowest to the highest; a new package must be added
    ("layout", "storage"),
    ("config", "process"),
    ("cli", "device"),
    ("data", "model"),
    ("pipeline",),
    ("translation",),
    ("parsing", "training"),
    ("evaluation",),
    ("report",),
    ("commands",),
    ("__main__",),
)
# These modules need no model, so all packages may use them.
MODEL_FREE = tuple(f"transformer.evaluation.{name}" for name in ("analyses", "bleu", "scores", "significance"))
PLACES = {name: place for place, layer in enumerate(LAYERS) for name in layer}


def imported(path: Path) -> set[str]:
    """Return the full names of all imports anywhere in a file. `from a import b` counts as a.b."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{'.' * node.level}{node.module}.{alias.name}" for alias in node.names}
    return names


def functions_of(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)}


IMPORTS = {NAMES[path]: imported(path) for path in MODULES}
FUNCTIONS = {NAMES[path].removesuffix(".__init__"): functions_of(path) for path in MODULES}


def named(path: Path) -> set[str]:
    """Return the modules named in a file's strings: "module:function", or a dotted name or its end."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name, colon, function = node.value.strip(".").partition(":")
            for module, functions in FUNCTIONS.items() if colon or "." in name else ():
                if f".{module}".endswith(f".{name}") and (not colon or function in functions):
                    names.add(module)
    return names


def upward(uses: dict[str, set[str]]) -> set[str]:
    """List the uses of a package by a package in the same or a lower layer."""
    return {
        f"{name} uses {other}"
        for name, others in uses.items()
        for other in others
        if other.startswith("transformer.") and not other.startswith(MODEL_FREE)
        if (package := other.split(".")[1]) != (own := name.split(".")[1])
        if PLACES[package] >= PLACES.get(own, len(LAYERS))
    }


def test_packages_import_lower_layers_only():
    """Each package is in one layer. Imports have full names, none is relative and none is Snakemake."""
    assert PLACES.keys() == {name.split(".")[1] for name in NAMES.values()} - {"__init__"}
    assert not {other.split(".")[0] for others in IMPORTS.values() for other in others} & {"", "snakemake"}
    assert upward(IMPORTS) == set()


def test_no_string_names_a_module_of_a_higher_layer():
    """Only the command line names subcommands in strings, because it imports their modules only when they run."""
    assert upward({NAMES[path]: named(path) for path in MODULES if path.stem != "cli"}) == set()


def test_there_is_no_circle_between_modules():
    depends = {
        name: {part for full in others for part in (full, full.rpartition(".")[0]) if part in IMPORTS} - {name}
        for name, others in IMPORTS.items()
    }
    TopologicalSorter(depends).prepare()  # raises CycleError


def test_a_workflow_starts_without_torch_numpy_and_pandas():
    code = "import sys, transformer.pipeline.inputs; print(*{'torch', 'numpy', 'pandas'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True).stdout == "\n"


def test_the_workflow_imports_only_packages_meant_for_it():
    files = [path for path in (ROOT / "workflow").rglob("*") if path.suffix in (".smk", ".py", "") and path.is_file()]
    pattern = re.compile(r"^\s*(?:import|from)\s+transformer(?:\.(\w+))?", re.MULTILINE)
    names = {name for path in files for name in pattern.findall(path.read_text("utf-8"))}
    assert names <= {"", "cli", "config", "data", "evaluation", "layout", "parsing", "pipeline", "report", "storage"}


def test_only_layout_contains_file_names_of_results():
    spelt = re.compile(r'"(?:run\.json|experiment\.yaml|decoding\.yaml|average\.safetensors|metrics\.jsonl)"')
    assert [NAMES[path] for path in MODULES if path.stem != "layout" and spelt.search(path.read_text("utf-8"))] == []
