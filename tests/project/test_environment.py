"""pyproject.toml, requirements.lock and environment.yml say the same, and it is what is installed here."""

import ast
import importlib.metadata
import re
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
CUDA = re.compile(r"(nvidia|cuda)-.*|triton")  # what torch's CUDA build asks for; not in the lock


def direct() -> list[Requirement]:
    """Return what pyproject.toml names: to build, to run and to test."""
    build, project = PYPROJECT["build-system"], PYPROJECT["project"]
    lines = [*build["requires"], *project["dependencies"], *project["optional-dependencies"]["test"]]
    return [Requirement(line) for line in lines]


def pins(requirements: list[Requirement]) -> dict[str, str]:
    """Return the versions by package; all must be of the form `package==version`."""
    versions = {}
    for requirement in requirements:
        ((operator, version),) = [(s.operator, s.version) for s in requirement.specifier]
        assert operator == "==", requirement
        assert canonicalize_name(requirement.name) not in versions, f"{requirement} is named twice"
        versions[canonicalize_name(requirement.name)] = version
    return versions


def lock() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text("utf-8").split("\n")
    return pins([Requirement(line) for line in lines if line and not line.startswith("#")])


@cache
def needs(package: str, extras: frozenset[str], python: str) -> frozenset[tuple[str, frozenset[str]]]:
    """Return the packages, with their extras, that `package[extras]` asks for under that Python."""
    environments = [
        {"python_version": python, "python_full_version": f"{python}.0", "extra": extra} for extra in (extras or {""})
    ]
    return frozenset(
        (canonicalize_name(requirement.name), frozenset(requirement.extras))
        for requirement in map(Requirement, importlib.metadata.requires(package) or [])
        if requirement.marker is None or any(requirement.marker.evaluate(extra) for extra in environments)
    )


def closure(python: str) -> set[str]:
    """Return what pyproject.toml names and all that this needs, from the metadata of the packages installed here."""
    todo = [(canonicalize_name(requirement.name), frozenset(requirement.extras)) for requirement in direct()]
    done = set()
    while todo:
        package = todo.pop()
        if package not in done and not CUDA.fullmatch(package[0]):
            done.add(package)
            todo += needs(*package, python)
    return {name for name, _ in done}


def test_lock_has_the_versions_of_pyproject():
    assert pins(direct()).items() <= lock().items()


@pytest.mark.parametrize("python", PYTHONS)
def test_lock_has_all_that_is_needed_and_nothing_else(python: str):
    assert sorted(closure(python)) == sorted(lock())


def test_installed_versions_are_those_of_the_lock():
    installed = {package: Version(importlib.metadata.version(package)).public for package in lock()}
    assert installed == lock()


def test_conda_brings_a_fitting_python_and_the_packages_of_the_lock():
    *tools, pip = CONDA["dependencies"]
    python, *others = tools
    name, version = python.split("=")
    assert name == "python"
    assert version in SpecifierSet(PYPROJECT["project"]["requires-python"])
    assert not set(others) & set(lock())
    assert pins([Requirement(line) for line in pip["pip"]]) == lock()


def test_python_that_make_asks_for_is_that_of_pyproject():
    ((major, minor),) = re.findall(r"sys\.version_info >= \((\d+), (\d+)\)", (ROOT / "Makefile").read_text("utf-8"))
    assert PYPROJECT["project"]["requires-python"] == f">={major}.{minor}"


def test_whatever_is_imported_is_named_in_pyproject():
    ours = {"transformer", "benchmarks", "support"}
    packages = importlib.metadata.packages_distributions()
    roots = {
        root for folder in ("transformer", "tests") for path in (ROOT / folder).rglob("*.py") for root in imports(path)
    }
    unknown = {
        root
        for root in roots - ours - sys.stdlib_module_names
        if not {canonicalize_name(name) for name in packages.get(root, [])} & pins(direct()).keys()
    }
    assert unknown == set()


def imports(path: Path) -> set[str]:
    """Return the first parts of the names that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module)
    return {name.split(".")[0] for name in names}
