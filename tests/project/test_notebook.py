"""The notebook: its functions are the tour's, and it runs from top to bottom."""

import json
import os
import re
import subprocess
import sys

import pytest
from support.project import ROOT

CELLS = json.loads((ROOT / "docs/notebook.ipynb").read_text("utf-8"))["cells"]
CODE = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]
RIGHT = re.compile(r"(\d+) of 100 translations are right")


def printed() -> str:
    """Return the text that the cells printed when the notebook was saved."""
    return "".join(
        "".join(output["text"])
        for cell in CELLS
        for output in cell.get("outputs", [])
        if output.get("name") == "stdout"
    )


def test_the_notebook_has_the_functions_of_the_tour():
    tour = (ROOT / "docs/tour.md").read_text("utf-8")
    blocks = [block.strip() for block in re.findall(r"```python\n(.*?)```", tour, re.DOTALL)]
    assert len(blocks) == 3
    assert set(blocks) <= set(CODE)
    assert sum("".join(cell["source"]).count("\n") + 1 for cell in CELLS) <= 300


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom():
    """Its model trains for less than a minute. Without training, no translation is right."""
    environment = os.environ | {"MPLBACKEND": "agg", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", "\n\n".join(CODE)]
    result = subprocess.run(command, cwd=ROOT / "docs", env=environment, capture_output=True, encoding="utf-8")
    assert result.returncode == 0, result.stderr
    first, summary, *_ = result.stdout.splitlines()
    assert first == printed().splitlines()[0] == "Zwei Hunde spielen im Schnee."
    assert int(RIGHT.fullmatch(summary)[1]) >= 30
    assert int(RIGHT.search(printed())[1]) >= 30
