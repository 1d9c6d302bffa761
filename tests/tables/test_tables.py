"""A table reads alike in Markdown, LaTeX and HTML, whatever marks its cells hold; a real pdfLaTeX compiles it."""

import re

import pandas as pd
import pytest
from lxml import html as parser
from support.tools import typeset

from transformer.tables.cells import Cell, difference_text, flops_text, interval_text, mean_text
from transformer.tables.render import Table, latex, markdown, write
from transformer.tables.render import html as as_html

AWKWARD = "50 % & more_of {x}: a\\b ~ c^d # $1 <i> “q” ± ≤ ≥ † ‡ − × α β ε √ … é § ’ – —"
TABLE = Table(
    "table2",
    "Caption with `--code_x|v:1` and 3.3·10^18.",
    [
        {"Model": AWKWARD, "BLEU": Cell("27.3 ± 0.2", ("en-de/base/1", "en-de/base/2")), "FLOPs": "2.3·10^19"},
        {"Model": "plain", "BLEU": "", "FLOPs": "n^-0.03"},
    ],
    ["A paragraph with `code`.", ["one", "two & `three`"], [{"Run": "en-de/base/1", "Steps": "100,000"}]],
)


@pytest.mark.parametrize(
    ("flops", "text"), [("2.3e19", "2.3·10^19"), (9.96e14, "1.0·10^15"), (3.0, "3.0·10^0"), (float("nan"), "")]
)
def test_flops_text(flops, text):
    assert flops_text(flops) == text


def test_mean_text():
    assert mean_text("26.30", float("nan"), 1) == "26.30"
    assert mean_text(27.345, 0.25, 1) == "27.3 ± 0.2"
    assert mean_text(4.9249, 0.0151, 2) == "4.92 ± 0.02"
    assert mean_text(27.345, float("nan"), 1) == "27.3"
    assert mean_text(float("nan"), float("nan"), 1) == ""


def test_differences_and_intervals():
    assert (difference_text(0.44, 1), difference_text(-1.25, 1)) == ("+0.4", "−1.2")
    assert difference_text(-0.04, 1) == difference_text(0.0, 1) == "+0.0"
    assert interval_text(26.94, 27.55, 1) == "26.9 – 27.6"
    assert difference_text(float("nan"), 1) == interval_text(float("nan"), float("nan"), 1) == ""


def test_html_has_every_cell_as_it_is_and_the_runs_behind_it():
    fragment = parser.fragment_fromstring(as_html(TABLE), create_parent="div")
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
    title, table, paragraph, lines, further = markdown(TABLE).split("\n\n")
    assert title == f"**Table 2.** {TABLE.caption}"
    assert [cell.strip() for cell in table.splitlines()[3].strip("|").split("|")] == ["plain", "", "n^-0.03"]
    assert paragraph == TABLE.notes[0]
    assert lines == "- one\n- two & `three`"
    assert further.splitlines()[-1].split() == ["|", "en-de/base/1", "|", "100,000", "|"]


def test_a_table_without_rows_says_so_by_its_notes_alone():
    empty = Table("why", "Nothing was run.", [], ["A gap."])
    assert markdown(empty).endswith("A gap.\n")
    assert "A gap." in as_html(empty)
    assert "A gap." in latex(empty)


def test_all_four_files(tmp_path):
    write(TABLE, str(tmp_path / "t"), pd.DataFrame({"bleu": [27.345678901]}))
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".csv", ".html", ".md", ".tex"]
    assert (tmp_path / "t.csv").read_text() == "bleu\n27.345678901\n"


@pytest.mark.slow
def test_latex_compiles(tmp_path):
    assert latex(TABLE).count(r"\midrule") == 2
    assert r"n$^{-0.03}$" in latex(TABLE)
    said = typeset(tmp_path, latex(TABLE))
    assert "Missing character" not in said
    assert not re.search(r"LaTeX (Font )?Warning: (?!Label|There were)", said)


@pytest.mark.slow
def test_an_error_in_latex_is_seen(tmp_path):
    with pytest.raises(AssertionError, match="Undefined control sequence"):
        typeset(tmp_path, latex(TABLE) + r"\nosuchthing")
