"""Programs that some tests need and that pip does not install, and folders shared by all processes of pytest."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from filelock import FileLock

from support import slurm


def needs(tool: str, install: str) -> str:
    """Return a command's or a file's path. If it is missing, skip the test, or fail it if REQUIRE_TOOLS is 1."""
    if path := shutil.which(tool, mode=os.F_OK):
        return path
    without(f"{tool} is not here: {install}")


def needs_cluster() -> None:
    """Skip the test, or fail it like `needs`, if no Slurm cluster can be started (slurm.py)."""
    if reason := slurm.obstacle():
        without(f"no Slurm cluster here: {reason}")


def without(missing: str) -> NoReturn:
    pytest.fail(missing) if os.environ.get("REQUIRE_TOOLS") == "1" else pytest.skip(missing)


def typeset(folder: Path, content: str) -> str:
    """Typeset a document with this content. Return pdfLaTeX's output, and fail at its first error."""
    pdflatex = needs("pdflatex", "apt-get install texlive-latex-recommended")
    head = r"\documentclass{article}\usepackage[T1]{fontenc}\usepackage{booktabs,graphicx}\begin{document}"
    (folder / "main.tex").write_text(f"{head}\n{content}\n\\end{{document}}\n", encoding="utf-8")
    command = [pdflatex, "-interaction=nonstopmode", "-halt-on-error", "main.tex"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    assert result.returncode == 0, result.stdout[-2000:]
    return result.stdout


def once(tmp_path_factory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder filled by `make`, shared by all processes of pytest. Copy it before a change."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    made = folder.with_suffix(".made")
    with FileLock(f"{folder}.lock"):
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            made.touch()
    return folder
