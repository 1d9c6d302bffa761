"""Print the runs behind a number of a table."""

from transformer.config import settings
from transformer.files import InputError
from transformer.pipeline import Pipeline
from transformer.report.page.runs import read_run_records, run_cards
from transformer.report.tables.render import Cell, Grid, Row, Table, read_table


def explain(
    table: str, row: str, column: str, /, *, config: list[str] | None = None, configfile: list[str] | None = None
) -> None:
    """Print the runs behind a number of a table: how each was trained, averaged, decoded and scored.

    The page shows the same cards when a number is chosen.

    python -m transformer explain table2 base en-de

    Args:
        table: the table, such as table2
        row: part of the row's text, or an experiment
        column: part of the column's heading, or a task
        config: KEY=VALUE, as Snakemake's
        configfile: YAML files, as Snakemake's
    """
    results = Pipeline(settings.read(configfile or [], config or [])).files
    path = results.table(table, "json")
    cells = _find_cells(read_table(path), row.casefold(), column.casefold())
    if not cells:
        raise InputError(f"{path}: expected a number of ours in a row {row}, a column {column}, found none")
    for where, cell in cells:
        print(f"{where}: {cell}")
    runs = [results.run(*name.split("/")) for name in dict.fromkeys(name for _, cell in cells for name in cell.runs)]
    scores = [path for run in runs for path in (run.scores("test"), run.scores("dev", ".last")) if path.exists()]
    cards = run_cards(read_run_records(run.record for run in runs if run.record.exists()), scores)
    for card in cards:
        print(f"\n{card.text()}")
    for run in runs:
        if run.name not in {card.run for card in cards}:
            print(f"\n{run.name}: no file {run.record}")


def _find_cells(table: Table, row: str, column: str) -> list[tuple[str, Cell]]:
    """Find the numbers of ours in rows that have this text or experiment; without any, in those that contain it."""
    cells = [
        (f"{' '.join(texts[:2])}, {heading}", cell, [*map(str.casefold, texts), *experiments])
        for grid in [table.grid, *(note for note in table.notes if isinstance(note, Grid))]
        for cells in grid.rows
        for texts in [_row_texts(grid, cells)]
        for heading, cell in cells.items()
        if isinstance(cell, Cell) and cell.runs
        for tasks, experiments, _ in [zip(*(run.casefold().split("/") for run in cell.runs), strict=True)]
        if column in heading.casefold() or column in tasks
    ]
    whole = [(where, cell) for where, cell, names in cells if row in names]
    return whole or [(where, cell) for where, cell, names in cells if row in "\n".join(names)]


def _row_texts(grid: Grid, cells: Row) -> list[str]:
    """List the texts of a row; a row of numbers alone has its first."""
    headings = [heading for heading in cells if heading in (grid.words or list(cells)[:1])]
    return [text for heading in headings if (text := str(cells[heading]).replace("`", ""))]
