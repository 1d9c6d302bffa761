"""The record's figures, drawn again from the recorded files: the same bytes; captions as on the recorded page."""

import csv
import re
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from markupsafe import escape

from transformer.report.figures.style import save_files

RECORD, PAPER = Path("results/record/multi30k"), Path("workflow/paper")
LABEL = "multi30k: multi30k-val"
RUN = RECORD / "runs/en-de/base/1"


def runs(task: str, *experiments: str) -> list[str]:
    """Return the recorded runs of these experiments, as task/experiment/seed."""
    folders = [path for name in experiments for path in sorted((RECORD / "runs" / task / name).glob("*"))]
    return [str(path.relative_to(RECORD / "runs")) for path in folders]


def files(names: list[str], file: str) -> list[str]:
    return [f"{RECORD}/runs/{name}/{file}" for name in names]


with open(PAPER / "table3.csv", encoding="utf-8", newline="") as rows:
    TABLE_3 = runs("en-de", *(row["experiment"] for row in csv.DictReader(rows)))
TABLE_2 = runs("en-de", "base", "big") + runs("en-fr", "base", "big")
TRAINED = list(dict.fromkeys(TABLE_3 + TABLE_2)) + runs("supervised", "parser") + runs("semi-supervised", "parser")
LONG = runs("en-de", "base", "learned-positions", "no-positions")

DRAWN = {  # by figure: module, files, parameters
    "figure1": ("architecture", {"experiment": RUN / "experiment.yaml"}, {}),
    "figure2": ("architecture", {"experiment": RUN / "experiment.yaml"}, {}),
    "figure3": ("attention", {"attention": RECORD / "attention.json"}, {}),
    "figure4": ("attention", {"attention": RECORD / "attention.json"}, {}),
    "figure5": ("attention", {"attention": RECORD / "attention.json"}, {}),
    "positions": (
        "formulas",
        {"experiment": RUN / "experiment.yaml", "weights": RUN / "average.safetensors"},
        {},
    ),
    "schedule": ("formulas", {"experiment": files(["en-de/base/1", "en-de/big/1"], "experiment.yaml")}, {}),
    "timing": ("formulas", {"measured": RECORD / "layers.json"}, {}),
    "curves": (
        "curves",
        {"metrics": files(TRAINED, "metrics.jsonl"), "paper": PAPER / "table3.csv"},
        {"label": LABEL, "expected": TRAINED, "task": None},
    ),
    "bleu_parameters": (
        "cost",
        {"score": files(TABLE_3, "dev.last.json"), "paper": PAPER / "table3.csv"},
        {"label": LABEL, "expected": TABLE_3},
    ),
    "bleu_flops": (
        "cost",
        {
            "score": files(TABLE_2, "test.json"),
            "dev": files(TABLE_3, "dev.last.json"),
            "paper": PAPER / "table2.csv",
        },
        {"label": "Multi30k task 1, test_2016_flickr", "expected": TABLE_2},
    ),
    "head_importance": ("heads", {"heads": RUN / "heads.json"}, {}),
    "bleu_length": ("lengths", {"lengths": files(LONG, "lengths.json")}, {"label": LABEL, "expected": LONG}),
}


def rounded(svg: str) -> str:
    """Return an SVG without its ids, which are hashes, and with four decimals in each number."""
    svg = re.sub(r'(?<=id=")\w+(?=")|(?<=#)\w+', "", svg)
    return re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.4f}", svg)


@pytest.mark.parametrize("name", DRAWN)
def test_recorded_figures_are_drawn_again(name, tmp_path):
    module, input, params = DRAWN[name]
    draw = getattr(import_module(f"transformer.report.figures.{module}"), name)
    drawing = draw(SimpleNamespace(**input), SimpleNamespace(**params))
    save_files(drawing.figure, tmp_path / name)
    drawn, recorded = (folder / f"{name}.svg" for folder in (tmp_path, RECORD / "figures"))
    if name == "timing":  # its last digits depend on the processor
        assert rounded(drawn.read_text()) == rounded(recorded.read_text())
    else:
        assert drawn.read_bytes() == recorded.read_bytes()
    page = (RECORD / "report.html").read_text(encoding="utf-8")
    assert str(escape(drawing.caption)) in page
    assert str(escape(drawing.alt)) in page


def test_every_recorded_figure_is_compared():
    assert {path.stem for path in RECORD.glob("figures/*.svg")} == set(DRAWN)
