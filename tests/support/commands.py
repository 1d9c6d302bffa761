"""The command line, called like a user calls it."""

import pytest

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
