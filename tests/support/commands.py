"""The command line, called like a user calls it."""

from pathlib import Path

import pytest

from support.toy import make_data, make_experiment, make_run
from transformer import cli


def do(*argv) -> None:
    """Run `python -m transformer` with these words."""
    cli.main([str(word) for word in argv])


def error(*argv) -> str:
    """Return the error line of `python -m transformer` on bad input, without its prefix."""
    with pytest.raises(SystemExit) as stopped:
        do(*argv)
    message, beginning = stopped.value.code, f"transformer {argv[0]}: error: "
    assert message.startswith(beginning)
    assert "\n" not in message
    return message.removeprefix(beginning)


def train_to_copy(folder: Path, train: list[str], dev: list[str], steps: int, **training) -> Path:
    """Make the data of a task in data/, and in run/ train a small model that learns to copy. Return the folder."""
    data = make_data(folder / "data", train, dev)
    model = {"N": 1, "d_model": 32, "d_ff": 64, "d_k": 16, "d_v": 16, "P_drop": 0.0}
    logging = {"log_every": 100, "evaluate_every": steps, "save_every": steps}
    run = make_run(folder / "run", make_experiment(model=model, logging=logging, steps=steps, **training))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_DEVICE", "cpu")
        do("train", run, "--data", data, "--threads", 1)
    return folder
