"""The list of the files in a folder that was made elsewhere."""

from pathlib import Path

from transformer.files import open_input

SUMS = "SHA256SUMS"  # as sha256sum writes it


def read_list(path: Path) -> bytes:
    """Return the content of such a list. Raises InputError where it cannot be read."""
    with open_input(path) as file:
        return file.read()
