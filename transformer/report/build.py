"""The tables, the figures and the page: made from files and written. Snakemake's scripts call these functions."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from transformer.files import replacing
from transformer.inputs import Inputs
from transformer.pipeline import Pipeline
from transformer.registry import FIGURES, TABLES, made
from transformer.report.figures.style import save_drawing
from transformer.report.page.page import make
from transformer.report.tables.render import write_table

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


def build_all(pipeline: Pipeline) -> None:
    """Make all tables, all figures and the page of a scale without Snakemake, from files that are there."""
    kinds = ((TABLES, build_table, pipeline.files.table), (FIGURES, build_figure, pipeline.files.figure))
    for entries, build, path in kinds:
        for name in made(pipeline, entries):
            files, params = namespace(entries[name].files(pipeline)), entries[name].params(pipeline)
            build(name, files, params, str(path(name, "")).rstrip("."))
    ask, wildcards = Inputs(pipeline.config, pipeline.project), SimpleNamespace(scale=pipeline.name)
    build_page(namespace(ask.page_files(wildcards)), ask.page_params(wildcards), str(pipeline.files.report))


def namespace(files: dict[str, Path | list[Path]]) -> SimpleNamespace:
    """Give files as Snakemake gives them to a script: texts and lists of texts, by attribute."""
    texts = {name: str(path) if isinstance(path, Path) else list(map(str, path)) for name, path in files.items()}
    return SimpleNamespace(**texts)
