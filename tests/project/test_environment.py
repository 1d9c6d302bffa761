"""pyproject.toml, requirements.lock and environment.yml agree with each other and with the installed packages."""

import importlib.metadata
import os
import re
import shutil
import subprocess
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
CUDA = re.compile(r"(nvidia|cuda)-.*|triton")  # packages of torch's CUDA build; not in the lock


def direct() -> list[Requirement]:
    """Return the requirements in pyproject.toml: to build, to run and to test."""
    build, project = PYPROJECT["build-system"], PYPROJECT["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    return [Requirement(line) for line in [*build["requires"], *project["dependencies"], *extras]]


def pins(requirements: list[Requirement]) -> dict[str, str]:
    """Return the versions by package. Each requirement must have the form `package==version` and occur once."""
    specifiers = {canonicalize_name(requirement.name): str(requirement.specifier) for requirement in requirements}
    assert len(specifiers) == len(requirements)
    assert all(re.fullmatch(r"==[^,]+", specifier) for specifier in specifiers.values())
    return {name: specifier.removeprefix("==") for name, specifier in specifiers.items()}


def lock() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text("utf-8").split("\n")
    return pins([Requirement(line) for line in lines if line and not line.startswith("#")])


@cache
def needs(package: str, extras: frozenset[str], python: str) -> frozenset[tuple[str, frozenset[str]]]:
    """Return the packages, with extras, that `package[extras]` requires under this Python version."""
    versions = {"python_version": python, "python_full_version": f"{python}.0"}
    return frozenset(
        (canonicalize_name(requirement.name), frozenset(requirement.extras))
        for requirement in map(Requirement, importlib.metadata.requires(package) or [])
        if requirement.marker is None
        or any(requirement.marker.evaluate(versions | {"extra": extra}) for extra in extras or {""})
    )


def closure(requirements: list[Requirement], python: str) -> set[str]:
    """Return the packages and all their dependencies, from the metadata of the installed packages."""
    todo = [(canonicalize_name(requirement.name), frozenset(requirement.extras)) for requirement in requirements]
    done = set()
    while todo:
        package = todo.pop()
        if package not in done and not CUDA.fullmatch(package[0]):
            done.add(package)
            todo += needs(*package, python)
    return {name for name, _ in done}


def test_lock_has_versions_within_the_bounds_of_pyproject():
    versions, named = lock(), direct()
    assert len({requirement.name for requirement in named}) == len(named)
    for requirement in named:
        assert Version(versions[canonicalize_name(requirement.name)]) in requirement.specifier, requirement
        assert "<" in str(requirement.specifier) or "==" in str(requirement.specifier), requirement


@pytest.mark.parametrize("python", PYTHONS)
def test_lock_has_all_that_is_needed_and_nothing_else(python: str):
    assert sorted(closure(direct(), python)) == sorted(lock())


def test_installed_versions_agree_with_the_lock():
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
    packages, named = importlib.metadata.packages_distributions(), {canonicalize_name(each.name) for each in direct()}
    foreign = roots - {"transformer", "benchmarks", "support"} - sys.stdlib_module_names
    assert [root for root in foreign if not set(map(canonicalize_name, packages.get(root, []))) & named] == []


WITHOUT = """
import runpy, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing}:
            raise ModuleNotFoundError("no " + name, name=name)
sys.meta_path.insert(0, Missing())
sys.argv = [{module!r}, *{arguments}]
runpy.run_module({module!r}, run_name="__main__")
"""


def run_without_extras(*arguments: str, text: str = "", module: str = "transformer") -> subprocess.CompletedProcess:
    """Run a subcommand, or another module, with only the packages in `dependencies` and their dependencies."""
    there = closure([Requirement(line) for line in PYPROJECT["project"]["dependencies"]], PYTHONS[0])
    packages = importlib.metadata.packages_distributions().items()
    missing = {module for module, of in packages if not set(map(canonicalize_name, of)) & {*there, "transformer"}}
    program = WITHOUT.format(missing=missing, module=module, arguments=list(arguments))
    return subprocess.run([sys.executable, "-c", program], input=text, cwd=ROOT, capture_output=True, encoding="utf-8")


def test_the_smallest_installation_translates():
    run = "results/record/multi30k/runs/en-de/base/1"
    result = run_without_extras("translate", "--run", run, text="Two dogs play in the snow.\n")
    assert (result.stdout, result.returncode) == ("Zwei Hunde spielen im Schnee.\n", 0), result.stderr


def test_examples_of_the_interface_need_the_smallest_installation(tmp_path):
    pages = "".join((ROOT / name).read_text("utf-8") for name in ("README.md", "docs/export.md"))
    blocks, examples = re.findall(r"```pycon\n(.*?)```", pages, re.DOTALL), tmp_path / "examples"
    assert len(blocks) == 2
    examples.write_text("\n".join(blocks), encoding="utf-8")
    result = run_without_extras(str(examples), module="doctest")
    assert (result.stdout, result.returncode) == ("", 0), result.stdout + result.stderr


@pytest.mark.parametrize(("command", "extra", "package"), [
    (["score", "--hyp", "README.md", "--ref", "README.md"], "workflow", "tabulate"),
    (["explain", "table2", "base", "en-de"], "report", "pandas"),
    (["attend", "A dog.", "--run", "results/record/multi30k/runs/en-de/base/1"], "report", "matplotlib"),
    (["serve", "--run", "results/record/multi30k/runs/en-de/base/1"], "serve", "uvicorn"),
])  # fmt: skip
def test_a_missing_extra_is_named(command, extra, package):
    result = run_without_extras(*command)
    expected = f'the package {package} is missing; install the extra "{extra}" with pip install "CHECKOUT[{extra}]"'
    assert result.stderr.splitlines()[-1] == f"transformer {command[0]}: error: {expected}"
    assert result.returncode == 1


@pytest.mark.parametrize(("file", "tool"), [("Dockerfile", "docker"), ("apptainer.def", "apptainer")])
def test_containers_have_a_fitting_python_and_the_lock(file, tool, tmp_path):
    """Where the tool runs, it builds the image."""
    text = (ROOT / file).read_text("utf-8")
    (version,) = re.findall(r"^from:? python:([\d.]+)-slim$", text, re.MULTILINE | re.IGNORECASE)
    assert version in SpecifierSet(PYPROJECT["project"]["requires-python"])
    assert re.search(r"pip install .* -r /\w+/requirements\.lock$", text, re.MULTILINE)
    if shutil.which(tool) and not subprocess.run([tool, "info"] if tool == "docker" else [tool, "version"]).returncode:
        command = {"docker": ["docker", "build", "."], "apptainer": ["apptainer", "build", str(tmp_path / "sif"), file]}
        subprocess.run(command[tool], cwd=ROOT, check=True)


def test_forge_files_are_valid_and_run_what_exists():
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text("utf-8"))
    commands = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert len(commands) == 2
    assert re.search(r"^test:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert commands[0].startswith("make test ")
    assert os.access(ROOT / commands[1].split()[-1], os.X_OK)


def test_a_copied_checkout_does_not_run_the_code_of_the_first(tmp_path):
    """Its .venv/bin/transformer begins with the path of the first environment."""
    (tmp_path / "transformer").mkdir()
    shutil.copy(ROOT / "transformer/cli.py", tmp_path / "transformer")
    program = f"import sys; sys.path[0] = {str(ROOT)!r}; from transformer import cli; cli.program()"
    command = [sys.executable, "-c", program, "plan"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 1
    assert f"this command runs the code of {ROOT}; delete .venv" in result.stderr
    assert "the code of" not in subprocess.run(command, cwd=tmp_path.parent, capture_output=True, text=True).stderr
