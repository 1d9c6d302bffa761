"""CSV files of tables: what the paper printed (workflow/paper), and our tables with all digits."""

from pathlib import Path

import pandas as pd

from transformer.files import InputError


def read_csv(path: str | Path, columns: list[str]) -> pd.DataFrame:
    """Return a table with each cell as text, as it stands in the file, blank ones as "".

    Raises InputError where the file cannot be read or one of `columns` is missing.
    """
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as CSV: {str(error).strip()}") from error
    for column in columns:
        if column not in table:
            raise InputError(f"{path}: expected a column {column!r}, found {', '.join(table)}")
    return table
