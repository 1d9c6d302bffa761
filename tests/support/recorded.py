"""What a record keeps of a scale's tables, figures and pages."""

import hashlib
from pathlib import Path

from transformer.commands.record import MADE


def of_pages(folder: Path) -> dict[str, str]:
    """Return the checksums of all tables, figures and pages of a scale or of its record."""
    paths = sorted(path for pattern in MADE for path in folder.glob(pattern))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
