"""The commit of a run comes from a real repository, with a mark if the code differs from the commit."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.project import ROOT

FILES = ("transformer/__init__.py", "transformer/storage/provenance.py", "README.md", "results/record/run.json")


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit_of(folder: Path) -> str:
    program = "from transformer.storage.provenance import commit; print(commit())"
    return subprocess.check_output([sys.executable, "-c", program], cwd=folder, text=True).strip()


@pytest.fixture
def repository(tmp_path):
    for name in FILES:
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes() if (ROOT / name).exists() else b"{}\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "all")
    return tmp_path


@pytest.mark.parametrize("edited", [None, *FILES])
def test_what_is_edited_is_marked_unless_it_is_a_result(repository, edited):
    """Recording a run while another trains does not change the training code. Foreign files do not count either."""
    with open(repository / (edited or "notes"), "ab") as file:
        file.write(b"\n")
    mark = "+changes" if edited and not edited.startswith("results/") else ""
    assert commit_of(repository) == git(repository, "rev-parse", "HEAD") + mark


def test_outside_a_repository_the_commit_is_unknown(repository):
    git(repository, "rm", "-r", "--cached", "--quiet", "transformer")
    assert commit_of(repository) == "unknown"
