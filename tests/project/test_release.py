"""A release: one version everywhere, licences as documented, and a package that works when installed with pip."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml
from support.toy import write_text

from transformer import __version__
from transformer.data.grammar import take

ROOT = Path(__file__).parents[2]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
LICENCES = (ROOT / "docs/licences.md").read_text("utf-8")
OTHER = re.compile(r"GPL|MPL|Mozilla|GNU|Proprietary|Commercial")  # licences that are not permissive
OUTSIDE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def test_version_and_date_are_the_same_everywhere():
    (newest, date), *_ = re.findall(r"^## (\d\S*) - (\S+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert (CITATION["version"], CITATION["date-released"]) == (newest, date)
    assert __version__ == newest


def test_licence_is_the_one_that_pyproject_and_citation_name():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (file,) = project["license-files"]
    name = (ROOT / file).read_text("utf-8").split("\n")[0]
    assert name == f"{project['license']} License" == f"{CITATION['license']} License"


def test_licences_speak_of_every_download_and_of_no_other():
    downloads = yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))["downloads"]
    patterns = re.findall("`([^`]+)`", LICENCES[LICENCES.index("## Translation") : LICENCES.index("## What follows")])
    assert [name for name in downloads if not any(fnmatch(name, pattern) for pattern in patterns)] == []
    assert [pattern for pattern in patterns if not any(fnmatch(name, pattern) for name in downloads)] == []


def test_licences_lists_the_packages_that_are_not_permissive():
    lines = (ROOT / "requirements.lock").read_text("utf-8").split("\n")
    stated = {(name := line.split("==")[0]): licence(name) for line in lines if line and not line.startswith("#")}
    assert [name for name, text in stated.items() if not text] == []
    named = re.findall("`([^`]+)`", LICENCES.partition("## What the code needs")[2])
    assert {name.lower() for name, text in stated.items() if OTHER.search(text)} == set(named)


def licence(package: str) -> str:
    """Return the licence in a package's metadata, or else the first line of its licence file."""
    distribution = importlib.metadata.distribution(package)
    metadata = distribution.metadata
    licences = [metadata.get("License-Expression", ""), metadata.get("License", "").split("\n")[0]]
    licences += [classifier for classifier in metadata.get_all("Classifier", []) if classifier.startswith("License")]
    if text := " ".join(filter(None, licences)):
        return text
    (file,) = [file for file in distribution.files if re.match("LICEN[CS]E", file.name)]
    return file.read_text().split("\n")[0]


def test_version_is_printed_with_the_commit_and_without_torch():
    git = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True)
    commit = rf", commit {git.stdout.strip()}(\+changes)?" if git.returncode == 0 else ""
    program = "import sys; from transformer.cli import program; program(); sys.exit('torch' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program, "--version"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert re.fullmatch(rf"transformer {re.escape(__version__)}{commit}\n", result.stdout)
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Build the package like pip, in a copy of the checkout and without a network."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    for file in ("pyproject.toml", "README.md", "LICENSE", "config.yaml"):
        shutil.copy(ROOT / file, source)
    for folder in ("transformer", "workflow"):
        shutil.copytree(ROOT / folder, source / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    pip("wheel", "--no-build-isolation", "--wheel-dir", built, source)
    (file,) = built.iterdir()
    return file


@pytest.fixture(scope="module")
def programs(wheel, tmp_path_factory) -> Path:
    """Return the programs of an environment with this package and its dependencies from our environment."""
    folder = tmp_path_factory.mktemp("project") / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "ours.pth").write_text(sysconfig.get_path("purelib"))
    pip("--python", folder / "bin/python", "install", "--no-compile", wheel)
    return folder / "bin"


def pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    subprocess.run([*command, "--no-deps", "--no-index"], env=OUTSIDE, check=True, timeout=300)


def installed(programs: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    options = {"cwd": folder, "env": OUTSIDE, "capture_output": True, "text": True, "timeout": 120}
    return subprocess.run([programs / "transformer", *arguments], **options)


@pytest.mark.slow
def test_package_has_every_file_and_its_metadata_the_licence(wheel, programs):
    with zipfile.ZipFile(wheel) as archive:
        packed = {name: archive.read(name) for name in archive.namelist() if name.startswith("transformer/")}
    files = [path for path in (ROOT / "transformer").rglob("*") if path.is_file() and path.parent.name != "__pycache__"]
    assert packed == {str(path.relative_to(ROOT)): path.read_bytes() for path in files}
    (packages,) = programs.parent.glob("lib/python*/site-packages")
    (ours,) = importlib.metadata.distributions(name="transformer", path=[str(packages)])
    assert (ours.version, ours.metadata["License-Expression"]) == (__version__, "MIT")
    (file,) = [file for file in ours.files if file.name == "LICENSE"]
    assert file.read_text() == (ROOT / "LICENSE").read_text("utf-8")


@pytest.mark.slow
def test_installed_commands_work_outside_the_checkout(programs, tmp_path):
    assert "config.yaml: no such file" in installed(programs, tmp_path, "plan").stderr
    text = write_text(tmp_path / "text", [item.de for item in take(1, 0, 30)])
    program = "from transformer.data.grammar import take; print(*[item.de for item in take(1, 0, 30)], sep='\\n')"
    options = {"cwd": tmp_path, "env": OUTSIDE, "text": True}
    assert subprocess.check_output([programs / "python", "-c", program], **options) == text.read_text("utf-8")
    result = installed(programs, tmp_path, "score", "--hyp", "text", "--ref", "text", "--lang", "de")
    assert re.search(r"^sacrebleu +100\.00 ", result.stdout, re.MULTILINE), result.stderr
