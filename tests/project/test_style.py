"""Linters and formatters find no fault, and docstrings are no clauses without a subject."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLAUSE = re.compile(r"(What|Of|How|Whether|Which|The same)\b")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@pytest.mark.parametrize(
    "command",
    [
        "ruff check --output-format concise",
        "ruff format --check",
        "snakefmt --check Snakefile workflow",
        "snakemake --lint",
    ],
)
def test_clean(command: str):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    result = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=ROOT,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_docstrings_are_sentences():
    clauses = [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: {docstring.splitlines()[0]}"
        for folder in ("transformer", "benchmarks")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, DOCUMENTED) and CLAUSE.match(docstring := ast.get_docstring(node) or "")
    ]
    assert not clauses, "\n".join(clauses)
