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


def system_entry(name: str) -> dict:
    """Return one of config.yaml's systems as the option --system of the table `measures` has it."""
    system = CONFIG["systems"][name]
    sides = CONFIG["corpora"][system["test"]]["files"]
    files = {side: str(mirrored(sides[system[side]]["download"])) for side in ("source", "target")}
    files |= {key: str(mirrored(system[key]["download"])) for key in ("input", "output", "published") if key in system}
    about = {key: system.get(key) for key in ("label", "test", "sentences", "form", "note")}
    return {"name": name, "language": system["target"], "files": files} | about
