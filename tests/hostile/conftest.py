"""What tests of hostile input have in common: stages that may have 1.5 GiB, and what they may print."""

import re

import pytest
from support import commands
from support.limited import Result, limited

CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")  # tabs and line ends, of bars, are none


@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    """Yield what runs a stage in a process of its own."""
    with limited(tmp_path_factory.mktemp("limited")) as running:
        yield running


@pytest.fixture(autouse=True)
def outcome(record_property):
    """Yield a list of lines that a case ended with; `pytest -v` shows the last beside the case's name."""
    commands.errors.clear()
    lines: list[str] = []
    yield lines
    record_property("outcome", ["as asserted", *commands.errors, *lines][-1])


@pytest.fixture
def run(stages, outcome):
    """Run a stage; check that it came to an end, and that neither a traceback nor a control character was printed."""

    def run(*argv, constants=None) -> Result:
        result = stages.run(*argv, constants=constants)
        outcome.append(f"exit {result.status}: {(result.printed.splitlines() or ['nothing printed'])[-1]}")
        assert result.status is not None, f"not ended in time: {result.printed}"
        assert "Traceback" not in result.printed, result.printed
        assert not CONTROLS.search(result.printed), ascii(result.printed)
        return result

    return run
