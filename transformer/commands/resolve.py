"""Write the settings of one run."""

from pathlib import Path

from transformer.config import experiment as run
from transformer.files import InputError
from transformer.records import parse_json


def resolve(*, experiment: str | None = None, decoding: str | None = None, output: Path) -> None:
    """Write the experiment.yaml or the decoding.yaml of one run.

    python -m transformer resolve --decoding '{"beam": 4, ...}' --output RUN/decoding.yaml

    Args:
        experiment: JSON: what config.yaml says of the run (transformer/config/runs.py: parts)
        decoding: JSON: the settings of beam search
        output: The YAML file to write.
    """
    if (experiment is None) == (decoding is None):
        raise InputError("expected one of --experiment and --decoding")
    if decoding is not None:
        settings = run.Decoding.read(parse_json(decoding, dict, "--decoding"), "decoding")
    else:
        settings = run.resolve(parse_json(experiment, dict, "--experiment"))
    run.save(settings, output)
