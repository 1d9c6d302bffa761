"""Programs that some tests run and that pip does not install."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from support import slurm


def needs(tool: str, install: str) -> str:
    """Where a command or a file is; without it the test is skipped, or fails if REQUIRE_TOOLS is 1 (.ci/run)."""
    if found := shutil.which(tool, mode=os.F_OK):
        return found
    without(f"{tool} is not here: {install}")


def needs_cluster() -> None:
    """Skip the test, or fail as above, where no Slurm cluster can be started (tests/slurm.py)."""
    if reason := slurm.obstacle():
        without(f"no Slurm cluster here: {reason}")


def without(missing: str) -> NoReturn:
    pytest.fail(missing) if os.environ.get("REQUIRE_TOOLS") == "1" else pytest.skip(missing)


DOCUMENT = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage{booktabs,graphicx}
\begin{document}
%s
\end{document}
"""


def typeset(folder: Path, content: str) -> str:
    """What pdfLaTeX says of a document with this content; it ends at the first error."""
    pdflatex = needs("pdflatex", "apt-get install texlive-latex-recommended")
    (folder / "main.tex").write_text(DOCUMENT % content, encoding="utf-8")
    command = [pdflatex, "-interaction=nonstopmode", "-halt-on-error", "main.tex"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    assert result.returncode == 0, result.stdout[-2000:]
    return result.stdout
