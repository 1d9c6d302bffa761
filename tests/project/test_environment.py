"""pyproject.toml, requirements.lock and environment.yml say the same, and it is what is installed here."""

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
    """Return the versions by package; all must be of the form `package==version`, each once."""
    specifiers = {canonicalize_name(requirement.name): str(requirement.specifier) for requirement in requirements}
    assert len(specifiers) == len(requirements)
    assert all(re.fullmatch(r"==[^,]+", specifier) for specifier in specifiers.values())
    return {name: specifier.removeprefix("==") for name, specifier in specifiers.items()}


def lock() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text("utf-8").split("\n")
    return pins([Requirement(line) for line in lines if line and not line.startswith("#")])


@cache
def needs(package: str, extras: frozenset[str], python: str) -> frozenset[tuple[str, frozenset[str]]]:
    """Return the packages, with their extras, that `package[extras]` asks for under that Python."""
    versions = {"python_version": python, "python_full_version": f"{python}.0"}
    return frozenset(
        (canonicalize_name(requirement.name), frozenset(requirement.extras))
        for requirement in map(Requirement, importlib.metadata.requires(package) or [])
        if requirement.marker is None
        or any(requirement.marker.evaluate(versions | {"extra": extra}) for extra in extras or {""})
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


def test_whatever_is_imported_is_named_in_pyproject():
    files = [path for folder in ("transformer", "tests") for path in (ROOT / folder).rglob("*.py")]
    pattern = re.compile(r"^ *(?:import|from) (\w+)[\w.]*(?: import .*| as \w+)?$", re.MULTILINE)
    roots = {root for path in files for root in pattern.findall(path.read_text("utf-8"))}
    packages, named = importlib.metadata.packages_distributions(), pins(direct()).keys()
    foreign = roots - {"transformer", "benchmarks", "support"} - sys.stdlib_module_names
    assert [root for root in foreign if not set(map(canonicalize_name, packages.get(root, []))) & named] == []
