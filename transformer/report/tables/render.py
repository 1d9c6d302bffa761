"""A table for readers as JSON, Markdown, LaTeX and HTML. A CSV file has all digits."""

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
# Replacements for characters that LaTeX cannot print.
_IN_LATEX = {"±": r"$\pm$", "·": r"$\cdot$", "≤": r"$\le$", "≥": r"$\ge$", "†": r"$\dagger$", "‡": r"$\ddagger$"}
_IN_LATEX |= {"−": "$-$", "×": r"$\times$", "α": r"$\alpha$", "β": r"$\beta$", "ε": r"$\epsilon$", "√": r"$\surd$"}
_IN_LATEX |= {"“": "``", "”": "''", "’": "'", "–": "--", "—": "---", "…": r"\dots{}", "é": r"\'e", "§": r"\S{}"}
_PAGE = 40  # maximum rows of a grid in the notes, because LaTeX does not break grids between pages


@dataclass(frozen=True)
class Cell:
    """One of our numbers as text, with its runs as `task/experiment/seed`."""

    text: str
    runs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


Row = dict[str, str | Cell]  # by heading


@dataclass(frozen=True)
class Grid:
    """Rows with the same headings in the same order. Columns in `words` are left-aligned, numbers right-aligned."""

    words: tuple[str, ...]
    rows: list[Row]

    @property
    def lines(self) -> list[list[str | Cell]]:
        """The headings, then the cells of each row."""
        return [list(self.rows[0]), *(list(row.values()) for row in self.rows)]

    @property
    def sides(self) -> list[str]:
        """The alignment of each column."""
        return ["left" if heading in self.words else "right" for heading in self.rows[0]]


@dataclass(frozen=True)
class Column:
    """A column of a table. `cell` is a column of the underlying frame, or a function of the frame's row."""

    heading: str
    cell: str | Callable[[dict], str | Cell]
    detail: bool = False  # in the second grid
    text: bool = False  # left-aligned
    key: bool = False  # a name of the row, which is in both grids
    format: str = ""  # format of the frame's number, with the row's values by name; blank for a missing number


def lay_out(frame: pd.DataFrame, columns: list[Column], detail: bool = False) -> Grid:
    """Convert a frame to the main grid or to the grid of details."""
    chosen = [column for column in columns if column.key or column.detail == detail]
    words = tuple(column.heading for column in chosen if column.text or column.key)

    def cell(row: dict, column: Column) -> str | Cell:
        value = row[column.cell] if isinstance(column.cell, str) else column.cell(row)
        return ("" if pd.isna(value) else column.format.format(value, **row)) if column.format else value

    return Grid(words, [{column.heading: cell(row, column) for column in chosen} for row in frame.to_dict("records")])


Note = str | list[str] | Grid  # a paragraph, a list, or a further grid


@dataclass(frozen=True)
class Table:
    """A table with its caption and notes. Text in backquotes becomes code, and text in ** becomes bold."""

    name: str  # for example table2, with a caption that begins with Table 2
    title: str  # its heading on the page
    caption: str
    grid: Grid
    notes: list[Note]
    found: list[str] = field(default_factory=list)  # for the page's summary: the findings, and our scores
    scores: list[Row] = field(default_factory=list)

    @property
    def label(self) -> str:
        number = re.fullmatch(r"table(\d)", self.name)
        return f"Table {number[1]}." if number else ""


# Further digits depend on the processor.
NINE_DIGITS = "{:.9g}"


def write_table(table: Table, output: str, frame: pd.DataFrame) -> None:
    """Write the frame with nine digits as OUTPUT.csv, and the table as .json, .md, .tex and .html."""
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
    """Format the rows as a Markdown table with aligned columns. Without rows, return ""."""
    if not grid.rows:
        return ""
    lines = [[str(cell).replace("|", r"\|") for cell in line] for line in grid.lines]
    # tabulate would widen columns for headings. As a first row they are below the rule, so swap the two lines.
    rule, head, *rows = tabulate(lines, tablefmt="pipe", disable_numparse=True, colalign=grid.sides).split("\n")
    return "\n".join([head, rule, *rows])


def _latex(table: Table) -> str:
    r"""Format a float of up to the line's width, then the notes. Documents need booktabs, graphicx and T1 fonts."""
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
    r"""Format a tabular that \resizebox shrinks to the line's width. Without rows, return ""."""
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
    """Format the table, with runs in `data-runs`, and the notes. Grids scroll in boxes with the label `scrolls`."""
    return Markup(marked_environment().get_template("table.html").render(table=table, scrolls=scrolls))


def marked_environment() -> jinja2.Environment:
    """Return the template environment with the filter `marked`, which formats code and exponents."""

    def marked(text: str | Cell) -> Markup:
        parts = _CODE.split(str(text))  # texts and codes in turn
        parts[::2] = (_BOLD.sub(r"<strong>\1</strong>", str(escape(part))) for part in parts[::2])
        parts[::2] = (_POWER.sub(r"<sup>\1</sup>", part) for part in parts[::2])
        parts[1::2] = (f"<code>{escape(part)}</code>" for part in parts[1::2])
        return Markup("".join(parts))

    jinja = environment()
    jinja.filters["marked"] = marked
    return jinja
