"""Linters and formatters find no fault."""

import subprocess
import sys

import pytest
from support.project import ENVIRONMENT, ROOT


@pytest.mark.parametrize(
    "command", ["ruff check", "ruff format --check", "snakefmt --check Snakefile workflow", "snakemake --lint"]
)
def test_clean(command: str):
    program = [sys.executable, "-m", *command.split()]
    result = subprocess.run(program, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
