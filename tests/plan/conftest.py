"""A folder with what a plan reads."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch) -> Path:
    """Return the working folder: a project's, without a treebank."""
    for name in ("config.yaml", "workflow", "benchmarks"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path
