"""The tables, the figures and the page: made from files and written. Snakemake's scripts call these functions."""

import logging
from types import SimpleNamespace
from typing import Any

from transformer.pipeline.registry import FIGURES, TABLES
from transformer.report.figures.style import save_drawing
from transformer.report.page.page import make
from transformer.report.tables.render import write_table
from transformer.storage.files import replacing

logger = logging.getLogger(__name__)


def build_table(name: str, files: Any, params: dict, output: str) -> None:
    """Make a table; `files` has those of its entry as attributes, `output` is the path without ending."""
    table, frame = TABLES[name].make(files, SimpleNamespace(**params))
    write_table(table, output, frame)
    logger.info("%s.md: %d rows", output, len(frame))


def build_figure(name: str, files: Any, params: dict, output: str) -> None:
    """Draw a figure as PDF, SVG and PNG, with title and caption as JSON."""
    drawing = FIGURES[name].make(files, SimpleNamespace(**params))
    save_drawing(drawing, FIGURES[name].title, output)
    logger.info("%s.svg: %s", output, drawing.caption)


def build_page(files: Any, params: dict, output: str) -> None:
    text = make(files, SimpleNamespace(**params))
    with replacing(output) as file:
        file.write(text)
    logger.info("%s: %.1f MB", output, len(text.encode()) / 1e6)
