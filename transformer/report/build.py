"""The functions that build each table and figure, by name. Snakemake's scripts call them.

pipeline/registry.py has the files and parameters of each table and figure. Functions take them by name.
"""

import logging
from dataclasses import replace
from typing import Any

from transformer.report.figures import analyses, architecture, attention, bleu, curves
from transformer.report.figures.style import save_drawing
from transformer.report.tables import bleu_variants, table1, table2, table3, table4, table5
from transformer.report.tables.render import write_table

logger = logging.getLogger(__name__)
_MAKERS = [table1.table1, table2.table2, table3.table3, table4.table4, table5.table5, table2.training]
_MAKERS += [bleu_variants.bleu_variants]
_DRAWERS = [architecture.figure1, architecture.figure2, attention.figure3, attention.figure4, attention.figure5]
_DRAWERS += [curves.positions, curves.schedule, curves.curves, curves.cost_curves, curves.timing, curves.recall]
_DRAWERS += [bleu.differences, bleu.bleu_parameters, bleu.bleu_flops, analyses.head_importance, analyses.bleu_length]
_TABLES = {maker.__name__: maker for maker in _MAKERS}
_FIGURES = {drawer.__name__: drawer for drawer in _DRAWERS}


def build_table(name: str, title: str, output: str, given: dict[str, Any]) -> None:
    """Build a table from files and parameters. `output` is the path without suffix."""
    table, frame = _TABLES[name](**given)
    write_table(replace(table, title=title), output, frame)
    logger.info("%s.md: %d rows", output, len(frame))


def build_figure(name: str, title: str, output: str, given: dict[str, Any]) -> None:
    """Draw a figure as PDF, SVG and PNG, and write its title and caption as JSON."""
    drawing = _FIGURES[name](**given)
    save_drawing(drawing, title, output)
    logger.info("%s.svg: %s", output, drawing.caption)
