"""Real downloads of config.yaml from the folder TRANSFORMER_MIRROR. `fetch --mirror` also reads it."""

import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from transformer.storage.reading import read_yaml

CONFIG = read_yaml(Path(__file__).parents[2] / "config.yaml")


def mirrored(download: str) -> Path:
    """Return the path of a download in config.yaml. Skip the test if there is no mirror."""
    if not (mirror := os.environ.get("TRANSFORMER_MIRROR")):
        pytest.skip("TRANSFORMER_MIRROR names no folder of downloads")
    url = urlsplit(CONFIG["downloads"][download]["urls"][0])
    path = Path(mirror, url.netloc, url.path.lstrip("/"))
    assert path.exists(), f"TRANSFORMER_MIRROR: expected the download {download}, found no {path}"
    return path
