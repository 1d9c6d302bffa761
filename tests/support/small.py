"""The smallest project that needs every rule: text from a download, from files and from the grammar; see small.yaml."""

import gzip
import hashlib
from pathlib import Path

import yaml

from support.project import ROOT, copy_project
from support.toy import write_text
from transformer.data.grammar import take

HOST = "example.org"


def make_small(place: Path) -> Path:
    """Copy the project, and write the configuration and the files that it names; nothing is run."""
    project = copy_project(place)
    config = overlaid(
        yaml.safe_load((ROOT / "config.yaml").read_text("utf-8")),
        yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8")),
    )
    train, test = take(1, 0, 300), take(2, 0, 8)
    write_text(project / "bank.trees", [item.tree for item in take(2, 8, 8)])
    config["downloads"] = {}
    for language in ("en", "fr"):
        write_text(project / f"train.{language}", [getattr(item, language) for item in train])
        lines = [getattr(item, language) for item in test]
        write_text(project / f"half.{language}", lines[:4])
        name = f"test.{language}.gz"
        config["downloads"][name] = mirrored(project, name, gzip.compress("\n".join([*lines, ""]).encode(), mtime=0))
    (project / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return project


def overlaid(config: dict, changes: dict) -> dict:
    """Return the configuration with some values replaced; of scales and corpora only new ones are left."""
    for section in ("experiments", "claims"):
        config[section] = {name: config[section][name] for name in changes.pop(section)}
    config["scales"] = config["corpora"] = {}
    for key, value in changes.items():
        config[key] = merged(config[key], value)
    return config


def merged(value: object, change: object) -> object:
    """Return the value with a change laid over it, key by key where both are mappings."""
    if not (isinstance(value, dict) and isinstance(change, dict)):
        return change
    return value | {key: merged(value.get(key), part) for key, part in change.items()}


def mirrored(project: Path, name: str, content: bytes) -> dict:
    """Put a download where the mirror has it; return its entry in config.yaml."""
    path = project / "mirror" / HOST / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return {"urls": [f"https://{HOST}/{name}"], "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
