"""The command line, called as a user calls it."""

import pytest

from transformer import cli

errors: list[str] = []  # all that `error` returned


def do(*argv) -> None:
    """Run `python -m transformer` with these words."""
    cli.main([str(word) for word in argv])


def error(*argv) -> str:
    """Return the one line that `python -m transformer` ends with on bad input, without its beginning."""
    with pytest.raises(SystemExit) as stopped:
        do(*argv)
    message, beginning = stopped.value.code, f"transformer {argv[0]}: error: "
    assert isinstance(message, str)  # which Python prints, to exit with 1
    assert message.startswith(beginning)
    assert "\n" not in message
    errors.append(message.removeprefix(beginning))
    return errors[-1]
