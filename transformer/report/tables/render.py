"""A table for readers as data, and in Markdown, LaTeX and HTML; CSV beside them holds all digits."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import jinja2
import pandas as pd
from markupsafe import Markup, escape
from tabulate import LATEX_ESCAPE_RULES, tabulate

from transformer.report import environment
from transformer.storage.files import write

_CODE = re.compile(r"`([^`]*)`")
_BOLD = re.compile(r"\*\*([^*]+)\*\*")
_BREAKABLE = re.compile(r"[:/|+]")
_POWER = re.compile(r"(?<=\w)\^(-?\d+(?:\.\d+)?)")
# What LaTeX cannot print as it stands.
_IN_LATEX = {"±": r"$\pm$", "·": r"$\cdot$", "≤": r"$\le$", "≥": r"$\ge$", "†": r"$\dagger$", "‡": r"$\ddagger$"}
_IN_LATEX |= {"−": "$-$", "×": r"$\times$", "α": r"$\alpha$", "β": r"$\beta$", "ε": r"$\epsilon$", "√": r"$\surd$"}
_IN_LATEX |= {"“": "``", "”": "''", "’": "'", "–": "--", "—": "---", "…": r"\dots{}", "é": r"\'e", "§": r"\S{}"}
_PAGE = 40  # rows of a grid in the notes: LaTeX breaks none between pages


@dataclass(frozen=True)
class Cell:
    """A number of ours as readers see it, and the runs that it comes from, each as `task/experiment/seed`."""

    text: str
    runs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


Row = dict[str, str | Cell]  # by heading


@dataclass(frozen=True)
class Grid:
    """Rows with the same headings in the same order. The columns `words` are set to the left, numbers to the right."""

    words: tuple[str, ...]
    rows: list[Row]

    @property
    def lines(self) -> list[list[str | Cell]]:
        """The headings, then the cells of each row."""
        return [list(self.rows[0]), *(list(row.values()) for row in self.rows)]

    @property
    def sides(self) -> list[str]:
        """The side that each column is set to."""
        return ["left" if heading in self.words else "right" for heading in self.rows[0]]


@dataclass(frozen=True)
class Column:
    """A column of a table. `cell` is a column of the frame behind it, or makes a cell from the frame's row."""

    heading: str
    cell: str | Callable[[dict], str | Cell]
    detail: bool = False  # in the second grid
    text: bool = False  # set to the left
    key: bool = False  # a text that names the row: in both grids
    format: str = ""  # of the frame's number, and of its row by name; blank for a missing number


def lay_out(frame: pd.DataFrame, columns: list[Column], detail: bool = False) -> Grid:
    """Lay out a frame as the main grid, or the one of details."""
    chosen = [column for column in columns if column.key or column.detail == detail]
    words = tuple(column.heading for column in chosen if column.text or column.key)

    def cell(row: dict, column: Column) -> str | Cell:
        value = row[column.cell] if isinstance(column.cell, str) else column.cell(row)
        return ("" if pd.isna(value) else column.format.format(value, **row)) if column.format else value

    return Grid(words, [{column.heading: cell(row, column) for column in chosen} for row in frame.to_dict("records")])


Note = str | list[str] | Grid  # a paragraph, a list, or a further grid


@dataclass(frozen=True)
class Table:
    """A table with its caption and notes, in which text in backquotes is set as code, and text in ** bold."""

    name: str  # table2: then its caption begins with Table 2
    title: str  # its heading on the page
    caption: str
    grid: Grid
    notes: list[Note]
    found: str = ""  # the findings in a sentence, and our scores beside the paper's, for the page's summary
    scores: list[Row] = field(default_factory=list)

    @property
    def label(self) -> str:
        number = re.fullmatch(r"table(\d)", self.name)
        return f"Table {number[1]}." if number else ""


# Those behind them depend on the processor.
NINE_DIGITS = "{:.9g}"


def write_table(table: Table, output: str, frame: pd.DataFrame) -> None:
    """Write `output`.csv, `frame` with nine digits, and the table as .json, .md, .tex and .html."""
    rounded = frame.map(lambda value: float(NINE_DIGITS.format(value)) if isinstance(value, float) else value)
    parts = {"csv": rounded.to_csv(index=frame.index.name is not None)}
    parts |= {"json": json.dumps(asdict(table), indent=1, ensure_ascii=False) + "\n"}
    parts |= {"md": _markdown(table), "tex": _latex(table), "html": html(table)}
    for ending, content in parts.items():
        write(f"{output}.{ending}", content)


def _markdown(table: Table) -> str:
    """Write the caption, the table, then the notes."""
    parts = [f"**{table.label}** {table.caption}" if table.label else table.caption]
    for note in (table.grid, *table.notes):
        if isinstance(note, Grid):
            parts.append(_markdown_grid(note))
        else:
            parts.append(note if isinstance(note, str) else "\n".join(f"- {line}" for line in note))
    return "\n\n".join(parts) + "\n"


def _markdown_grid(grid: Grid) -> str:
    """Write the rows as a table of Markdown, each column as wide as its widest cell; nothing without rows."""
    if not grid.rows:
        return ""
    lines = [[str(cell).replace("|", r"\|") for cell in line] for line in grid.lines]
    # Of headings tabulate makes columns wider: as a first row, the headings come below the rule.
    rule, head, *rows = tabulate(lines, tablefmt="pipe", disable_numparse=True, colalign=grid.sides).split("\n")
    return "\n".join([head, rule, *rows])


def _latex(table: Table) -> str:
    r"""Write a float, as wide as the line at most, then the notes. Documents need booktabs, graphicx and T1 fonts."""
    caption = rf"\caption{{{_latex_text(table.caption)}}}\label{{tab:{table.name}}}"
    parts = [f"\\begin{{table}}[ht]\\centering{caption}\n{_latex_grid(table.grid)}\n\\end{{table}}"]
    for note in table.notes:
        if isinstance(note, str):
            parts.append(rf"\noindent {_latex_text(note)}")
        elif isinstance(note, Grid):
            pages = (note.rows[start : start + _PAGE] for start in range(0, len(note.rows), _PAGE))
            parts += [rf"\noindent {_latex_grid(Grid(note.words, rows))}" for rows in pages]
        else:
            items = (rf"\item {_latex_text(line)}" for line in note)
            parts.append("\n".join([r"\begin{itemize}", *items, r"\end{itemize}"]))
    return "\n\n".join(parts) + "\n"


def _latex_grid(grid: Grid) -> str:
    r"""Write a tabular that \resizebox shrinks to the line where it is wider; nothing if there are no rows."""
    if not grid.rows:
        return ""
    fitted = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
    headings, *cells = [[_latex_text(cell) for cell in line] for line in grid.lines]
    tabular = tabulate(cells, headings, "latex_raw", disable_numparse=True, colalign=grid.sides)
    top, head, body, end = tabular.split(r"\hline")
    return "".join([fitted, "\n", top, r"\toprule", head, r"\midrule", body, r"\bottomrule", end, "}"])


def _latex_text(text: str | Cell) -> str:
    parts = _CODE.split(str(text))  # texts and codes in turn
    for place, part in enumerate(parts):
        if place % 2:
            escaped = "".join(LATEX_ESCAPE_RULES.get(mark, mark) for mark in part)
            parts[place] = r"\texttt{" + _BREAKABLE.sub(r"\g<0>\\allowbreak{}", escaped) + "}"
        else:
            raised = _POWER.sub("\0\\1\0", part)
            escaped = "".join(_IN_LATEX.get(mark) or LATEX_ESCAPE_RULES.get(mark, mark) for mark in raised)
            parts[place] = _BOLD.sub(r"\\textbf{\1}", re.sub("\0([^\0]*)\0", r"$^{\1}$", escaped))
    return "".join(parts)


def html(table: Table, scrolls: str = "") -> Markup:
    """Write the table, cells with their runs in `data-runs`, and the notes; grids scroll in boxes called `scrolls`."""
    return Markup(marked_environment().get_template("table.html").render(table=table, scrolls=scrolls))


def marked_environment() -> jinja2.Environment:
    """Return the environment of the templates, with the filter `marked`, which sets code and exponents."""

    def marked(text: str | Cell) -> Markup:
        parts = _CODE.split(str(text))  # texts and codes in turn
        parts[::2] = (_BOLD.sub(r"<strong>\1</strong>", str(escape(part))) for part in parts[::2])
        parts[::2] = (_POWER.sub(r"<sup>\1</sup>", part) for part in parts[::2])
        parts[1::2] = (f"<code>{escape(part)}</code>" for part in parts[1::2])
        return Markup("".join(parts))

    jinja = environment()
    jinja.filters["marked"] = marked
    return jinja
