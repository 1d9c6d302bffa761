"""All that is made of a scale's runs, without Snakemake: `python building.py CONFIGFILE`, in a project's folder."""

import sys
from pathlib import Path
from types import SimpleNamespace

from transformer.config.settings import read
from transformer.pipeline.inputs import Inputs
from transformer.pipeline.registry import FIGURES, TABLES, made
from transformer.pipeline.scale import Pipeline
from transformer.report.build import build_figure, build_page, build_table


def build_all(configfile: str | Path) -> None:
    """Make all tables, all figures and the page from files that are there."""
    pipeline = Pipeline(read([str(configfile)], []))
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


if __name__ == "__main__":
    build_all(sys.argv[1])
