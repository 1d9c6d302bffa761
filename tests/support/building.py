"""Build all outputs of a scale without Snakemake: `python building.py CONFIGFILE` in a project's folder."""

import sys
from pathlib import Path
from types import SimpleNamespace

from transformer.config.settings import read
from transformer.pipeline.inputs import Inputs
from transformer.pipeline.registry import FIGURES, TABLES, made
from transformer.pipeline.scale import Pipeline
from transformer.report.build import build_figure, build_table
from transformer.report.page import build_page


def build_all(configfile: str | Path) -> None:
    """Build all tables, all figures and the page from existing files."""
    pipeline = Pipeline(read([str(configfile)], []))
    kinds = ((TABLES, build_table, pipeline.files.table), (FIGURES, build_figure, pipeline.files.figure))
    for entries, build, path in kinds:
        for name in made(pipeline, entries):
            entry, output = entries[name], str(path(name, "")).rstrip(".")
            build(name, entry.title, output, as_texts(entry.files(pipeline)) | entry.params(pipeline))
    ask, wildcards = Inputs(pipeline.config, pipeline.project), SimpleNamespace(scale=pipeline.name)
    build_page(as_texts(ask.page_files(wildcards)), ask.page_params(wildcards), str(pipeline.files.report))


def as_texts(files: dict[str, Path | list[Path]]) -> dict[str, str | list[str]]:
    """Return the files in the form of Snakemake's scripts: paths as strings."""
    return {name: str(path) if isinstance(path, Path) else list(map(str, path)) for name, path in files.items()}


if __name__ == "__main__":
    build_all(sys.argv[1])
