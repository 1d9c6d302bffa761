"""Real downloads, and the real systems of config.yaml, where TRANSFORMER_MIRROR names a folder of them.

The folder is laid out as `transformer fetch --mirror` reads it. Without it, tests that read downloads are skipped.
"""

import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from transformer.config.reading import read_yaml

CONFIG = read_yaml(Path(__file__).parents[2] / "config.yaml")


def mirrored(download: str) -> Path:
    """Return the path of a download of config.yaml; fail where there is a mirror that lacks it."""
    if not (mirror := os.environ.get("TRANSFORMER_MIRROR")):
        pytest.skip("TRANSFORMER_MIRROR names no folder of downloads")
    url = urlsplit(CONFIG["downloads"][download]["urls"][0])
    path = Path(mirror, url.netloc, url.path.lstrip("/"))
    assert path.exists(), f"TRANSFORMER_MIRROR: expected the download {download}, found no {path}"
    return path
