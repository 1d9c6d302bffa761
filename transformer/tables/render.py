"""A table for readers, in Markdown, LaTeX and HTML from one source; CSV beside them holds all digits."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jinja2
import pandas as pd
from markupsafe import Markup, escape
from tabulate import LATEX_ESCAPE_RULES, tabulate

from transformer.common.files import replacing
from transformer.tables.cells import Cell, Note, Row

# Headings of columns that hold words, which stand to the left; numbers stand to the right.
WORDS = re.compile(
    "Kind|Task|Model|From|Row|Experiment|Changed|Parser|Training|Test trees|Layer type|Choice|Variant|Signature|Run|"
    "Averaged|Decoding|Hardware|Fidelity|Commit|Digest|Data"
)

CODE = re.compile(r"`([^`]*)`")
BREAKABLE = re.compile(r"[:/|+]")
POWER = re.compile(r"(?<=\w)\^(-?\d+(?:\.\d+)?)")
# What LaTeX cannot print as it stands.
IN_LATEX = {"±": r"$\pm$", "·": r"$\cdot$", "≤": r"$\le$", "≥": r"$\ge$", "†": r"$\dagger$", "‡": r"$\ddagger$"}
IN_LATEX |= {"−": "$-$", "×": r"$\times$", "α": r"$\alpha$", "β": r"$\beta$", "ε": r"$\epsilon$", "√": r"$\surd$"}
IN_LATEX |= {"“": "``", "”": "''", "’": "'", "–": "--", "—": "---", "…": r"\dots{}", "é": r"\'e", "§": r"\S{}"}
PAGE = 40  # rows of a further table: LaTeX breaks none between pages
TEMPLATES = Path(__file__).parent


@dataclass(frozen=True)
class Table:
    """Rows have the same headings in the same order. `code` in caption and notes is set as code."""

    name: str  # table2: then its title is Table 2
    caption: str
    rows: list[Row]
    notes: list[Note]

    @property
    def title(self) -> str:
        number = re.fullmatch(r"table(\d)", self.name)
        return f"Table {number[1]}." if number else ""


def write(table: Table, output: str, frame: pd.DataFrame) -> None:
    """Leave `output`.csv, `frame` with all its digits, and the table as .md, .tex and .html."""
    parts = {"csv": frame.to_csv(index=frame.index.name is not None)}
    parts |= {"md": markdown(table), "tex": latex(table), "html": html(table)}
    for ending, content in parts.items():
        with replacing(f"{output}.{ending}") as file:
            file.write(content)


def markdown(table: Table) -> str:
    """The caption, the table, then the notes."""
    title = f"**{table.title}** " if table.title else ""
    return title + "\n\n".join([table.caption, *map(markdown_note, [table.rows, *table.notes])]) + "\n"


def markdown_note(note: Note) -> str:
    if isinstance(note, str):
        return note
    if note and isinstance(note[0], dict):
        return tabulated(note, "pipe", lambda text: text.replace("|", r"\|"))
    return "\n".join(f"- {line}" for line in note)


def latex(table: Table) -> str:
    r"""A float of booktabs, as wide as the line at most, then the notes; wants booktabs, graphicx and T1 fonts.

    A table of the notes is as wide as the line, however small that makes it.
    """
    body = rf"\begin{{table}}[ht]\centering\caption{{{latex_text(table.caption)}}}\label{{tab:{table.name}}}"
    notes = [latex_note(note) for note in table.notes]
    return "\n\n".join([f"{body}\n{latex_rows(table.rows)}\n\\end{{table}}", *notes]) + "\n"


def latex_note(note: Note) -> str:
    if isinstance(note, str):
        return rf"\noindent {latex_text(note)}"
    if note and isinstance(note[0], dict):
        parts = [note[start : start + PAGE] for start in range(0, len(note), PAGE)]
        return "\n\n".join(rf"\noindent {latex_rows(part)}" for part in parts)
    return "\n".join([r"\begin{itemize}", *(rf"\item {latex_text(line)}" for line in note), r"\end{itemize}"])


def latex_rows(rows: list[Row]) -> str:
    r"""A tabular that \resizebox shrinks to the line where it is wider; nothing of no rows."""
    if not rows:
        return ""
    fitted = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
    top, head, body, end = tabulated(rows, "latex_raw", latex_text).split(r"\hline")
    return "".join([fitted, "\n", top, r"\toprule", head, r"\midrule", body, r"\bottomrule", end, "}"])


def latex_text(text: str | Cell) -> str:
    """Escaped; code in \\texttt, which may break after a mark."""
    parts = CODE.split(str(text))
    pairs = zip(parts, alternating(parts), strict=True)
    return "".join(latex_code(part) if odd else latex_plain(part) for part, odd in pairs)


def latex_plain(text: str) -> str:
    text = POWER.sub("\0\\1\0", text)
    text = "".join(IN_LATEX.get(mark) or LATEX_ESCAPE_RULES.get(mark, mark) for mark in text)
    return re.sub("\0([^\0]*)\0", r"$^{\1}$", text)


def latex_code(text: str) -> str:
    escaped = "".join(LATEX_ESCAPE_RULES.get(mark, mark) for mark in text)
    return r"\texttt{" + BREAKABLE.sub(r"\g<0>\\allowbreak{}", escaped) + "}"


def html(table: Table) -> str:
    """A fragment: the table, each cell of ours naming its runs in `data-runs`, and its notes."""
    return environment().get_template("table.html").render(table=table, is_word=WORDS.fullmatch)


def environment(templates: Path = TEMPLATES) -> jinja2.Environment:
    """What fills the templates of a folder: escapes all but `Markup`, and sets `code` by the filter `marked`."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters["marked"] = html_text
    return made


def html_text(text: str | Cell) -> Markup:
    """Escaped; code as code, exponents raised."""
    parts = CODE.split(str(text))
    pairs = zip(parts, alternating(parts), strict=True)
    return Markup("").join(Markup("<code>{}</code>").format(part) if odd else raised(part) for part, odd in pairs)


def raised(text: str) -> Markup:
    return Markup(POWER.sub(r"<sup>\1</sup>", str(escape(text))))


def alternating(parts: list[str]) -> list[int]:
    """0, 1, 0, ...: `re.split` with one group gives what lies between the matches, and the group, in turn."""
    return [number % 2 for number in range(len(parts))]


def tabulated(rows: list[Row], form: str, text: Callable[[str], str]) -> str:
    """Rows in one of tabulate's formats, words to the left and numbers to the right."""
    headings = list(rows[0]) if rows else []
    sides = ["left" if WORDS.fullmatch(heading) else "right" for heading in headings]
    cells = [[text(str(row[heading])) for heading in headings] for row in rows]
    return tabulate(cells, [text(heading) for heading in headings], form, disable_numparse=True, colalign=sides)
