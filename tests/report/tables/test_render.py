"""A table has the same content in Markdown, LaTeX, HTML and JSON for all cells. A real pdfLaTeX compiles it."""

import re

import pandas as pd
import pytest
from lxml import html as parser
from support.tools import typeset

from transformer.report.tables import render
from transformer.report.tables.render import Cell, Column, Grid, Table, _latex, lay_out

AWKWARD = "50 % & more_of {x}: a\\b ~ c^d # $1 <i> “q” ± ≤ ≥ † ‡ − × α β ε √ … é § ’ – —"
TABLE = Table(
    "table2",
    "A heading",
    "Caption with `--code_x|v:1` and 3.3·10^18.",
    Grid(
        ("Model",),
        [
            {"Model": AWKWARD, "BLEU": Cell("27.3 ± 0.2", ("en-de/base/1", "en-de/base/2")), "FLOPs": "2.3·10^19"},
            {"Model": "plain", "BLEU": "", "FLOPs": "n^-0.03"},
        ],
    ),
    [
        "A paragraph with `code`.",
        ["one", "two & `three`"],
        Grid(("Run",), [{"Run": "en-de/base/1", "Steps": "100,000"}]),
    ],
)


def test_html_has_every_cell_as_it_is_and_the_runs_behind_it():
    fragment = parser.fragment_fromstring(render.html(TABLE), create_parent="div")
    table, further = fragment.findall("table")
    assert table.get("id") == "table2"
    assert table.find("caption").text_content() == "Table 2. Caption with --code_x|v:1 and 3.3·1018."
    assert [cell.text_content() for cell in table.find("thead").iter("th")] == ["Model", "BLEU", "FLOPs"]
    first, second = table.find("tbody").findall("tr")
    assert [cell.text_content() for cell in first] == [AWKWARD, "27.3 ± 0.2", "2.3·1019"]
    assert [cell.get("data-runs") for cell in first] == [None, "en-de/base/1 en-de/base/2", None]
    assert [cell.get("class") for cell in first] == ["word", None, None]
    assert [cell.text_content() for cell in second] == ["plain", "", "n-0.03"]
    assert fragment.xpath("//sup/text()") == ["18", "19", "-0.03"]
    assert [line.text_content() for line in fragment.iter("li")] == ["one", "two & three"]
    assert [cell.text_content() for cell in further.find("tbody")[0]] == ["en-de/base/1", "100,000"]
    assert [code.text for code in fragment.iter("code")] == ["--code_x|v:1", "code", "three"]


def test_markdown():
    """Columns are as wide as their widest cell."""
    title, table, paragraph, lines, further = render._markdown(TABLE).split("\n\n")
    assert (title, paragraph) == (f"**Table 2.** {TABLE.caption}", TABLE.notes[0])
    assert lines == "- one\n- two & `three`"
    assert (len(table.splitlines()), len(further.splitlines())) == (4, 3)
    grid = Grid(("Model",), [{"Model": "a|b", "§": "3.1"}, {"Model": "c", "§": ""}])
    assert render._markdown_grid(grid) == "| Model |   § |\n|:------|----:|\n| a\\|b  | 3.1 |\n| c     |     |"


def test_a_frame_is_laid_out_in_two_grids_with_the_same_names():
    columns = [Column("Model", "model", key=True), Column("BLEU", "bleu", format="{:.1f} ({n})")]
    columns.append(Column("Note", "note", detail=True, text=True))
    frame = pd.DataFrame({"model": ["base", "big"], "bleu": [27.31, None], "n": [1, 2], "note": ["a", "b"]})
    assert lay_out(frame, columns).rows == [{"Model": "base", "BLEU": "27.3 (1)"}, {"Model": "big", "BLEU": ""}]
    assert lay_out(frame[:1], columns, detail=True) == Grid(("Model", "Note"), [{"Model": "base", "Note": "a"}])


@pytest.mark.slow
def test_latex_compiles(tmp_path):
    assert _latex(TABLE).count(r"\midrule") == 2
    assert r"n$^{-0.03}$" in _latex(TABLE)
    log = typeset(tmp_path, _latex(TABLE))
    assert "Missing character" not in log
    assert not re.search(r"LaTeX (Font )?Warning: (?!Label|There were)", log)
