"""What makes each table and figure, by name; Snakemake's scripts call these functions.

pipeline/registry.py has the files and parameters of each, which its function takes by name.
"""

import logging
from dataclasses import replace
from typing import Any

from transformer.report.figures import analyses, architecture, attention, bleu, curves
from transformer.report.figures.style import save_drawing
from transformer.report.tables import table1, table2, table3, table4, table5, why
from transformer.report.tables.render import write_table

logger = logging.getLogger(__name__)
_TABLES = {
    "table1": table1.table1,
    "table2": table2.table2,
    "table3": table3.table3,
    "table4": table4.table4,
    "table5": table5.table5,
    "training": table2.training,
    "why": why.why,
}
_FIGURES = {
    "differences": bleu.differences,
    "figure1": architecture.figure1,
    "figure2": architecture.figure2,
    "figure3": attention.figure3,
    "figure4": attention.figure4,
    "figure5": attention.figure5,
    "positions": curves.positions,
    "schedule": curves.schedule,
    "curves": curves.curves,
    "bleu_parameters": bleu.bleu_parameters,
    "bleu_flops": bleu.bleu_flops,
    "timing": curves.timing,
    "head_importance": analyses.head_importance,
    "bleu_length": analyses.bleu_length,
}


def build_table(name: str, title: str, output: str, given: dict[str, Any]) -> None:
    """Make a table of these files and parameters; `output` is the path without ending."""
    table, frame = _TABLES[name](**given)
    write_table(replace(table, title=title), output, frame)
    logger.info("%s.md: %d rows", output, len(frame))


def build_figure(name: str, title: str, output: str, given: dict[str, Any]) -> None:
    """Draw a figure as PDF, SVG and PNG, with title and caption as JSON."""
    drawing = _FIGURES[name](**given)
    save_drawing(drawing, title, output)
    logger.info("%s.svg: %s", output, drawing.caption)
