"""What a score says of the run behind it."""

from dataclasses import asdict
from pathlib import Path

from transformer.checkpoints import load_about
from transformer.config import Decoding, load
from transformer.files import read_json


def describe(run: Path, weights: Path) -> dict:
    """The run's run.json, with how its weights were averaged and how it was decoded."""
    return read_json(run / "run.json") | {
        "averaged_steps": averaged_steps(weights),
        "decoding": asdict(load(run / "decoding.yaml", Decoding)),
    }


def averaged_steps(weights: Path) -> list[int]:
    """The steps of an average, or the one step of a single checkpoint."""
    about = load_about(weights)
    return about["steps"] if "steps" in about else [about["step"]]
