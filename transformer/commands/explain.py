"""Print the runs behind a number of a table."""

from pathlib import Path

from transformer.config import settings
from transformer.files import InputError
from transformer.layout import Scale
from transformer.report.page.cards import card_text, read_run_records, run_cards
from transformer.report.tables.render import Cell, Grid, Row, Table, read


def explain(table: str, row: str, column: str, /, *, scale: str | None = None) -> None:
    """Print the runs behind a number of a table: how each was trained, averaged, decoded and scored.

    The page shows the same cards when a number is chosen.

    python -m transformer explain table2 base en-de

    Args:
        table: The table, such as table2.
        row: A part of the row's text, or an experiment.
        column: A part of the column's heading, or a task.
        scale: The scale; config.yaml's if not given.
    """
    results = Scale(Path("results", scale or settings.read([], [])["scale"]))
    path = results.table(table, "json")
    cells = find_cells(read(path), row, column)
    if not cells:
        raise InputError(f"{path}: expected a number of ours in a row {row}, a column {column}, found none")
    for where, cell in cells:
        print(f"{where}: {cell}")
    runs = [results.run(*name.split("/")) for name in dict.fromkeys(name for _, cell in cells for name in cell.runs)]
    scores = [path for run in runs for path in (run.scores("test"), run.scores("dev", ".last")) if path.exists()]
    cards = run_cards(read_run_records(run.record for run in runs if run.record.exists()), scores)
    for card in cards:
        print(f"\n{card_text(card)}")
    for run in runs:
        if run.name not in {card.run for card in cards}:
            print(f"\n{run.name}: no file {run.record}")


def find_cells(table: Table, row: str, column: str) -> list[tuple[str, Cell]]:
    """Find the numbers of ours in rows that have this text or experiment; without any, in those that contain it."""
    cells = [
        (f"{' '.join(row_texts(grid, cells)[:2])}, {heading}", cell, names_of_row(grid, cells, cell))
        for grid in [table.grid, *(note for note in table.notes if isinstance(note, Grid))]
        for cells in grid.rows
        for heading, cell in cells.items()
        if isinstance(cell, Cell) and cell.runs and in_column(heading, cell, column)
    ]
    whole = [(where, cell) for where, cell, names in cells if row.casefold() in names]
    return whole or [(where, cell) for where, cell, names in cells if row.casefold() in "\n".join(names)]


def row_texts(grid: Grid, cells: Row) -> list[str]:
    """List the texts of a row; a row of numbers alone has its first."""
    headings = [heading for heading in cells if heading in (grid.words or list(cells)[:1])]
    return [text for heading in headings if (text := str(cells[heading]).replace("`", ""))]


def names_of_row(grid: Grid, cells: Row, cell: Cell) -> list[str]:
    """List what a row may be called: its texts, and the experiments behind the cell."""
    return [name.casefold() for name in (*row_texts(grid, cells), *(run.split("/")[1] for run in cell.runs))]


def in_column(heading: str, cell: Cell, column: str) -> bool:
    return column.casefold() in heading.casefold() or any(run.split("/")[0] == column for run in cell.runs)
