"""A folder that doctor takes for a project's."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path, monkeypatch) -> Path:
    """Return the working folder, which has what doctor reads."""
    for name in ("config.yaml", "requirements.lock", "workflow"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path
