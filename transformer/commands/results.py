"""The command `explain` prints the runs behind a number; `record` copies a scale's small files into a record."""

import logging
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import yaml

from transformer.config.experiment import load
from transformer.config.settings import changes, read
from transformer.layout import Run
from transformer.parsing.brackets import parse_line
from transformer.parsing.trees import bracketed, without_words
from transformer.pipeline.registry import TABLES
from transformer.pipeline.scale import Pipeline
from transformer.report.page import read_run_records, run_cards
from transformer.report.tables.render import Cell, Grid, Table
from transformer.storage.checksums import read_trained, write_trained
from transformer.storage.files import InputError, read_lines, replacing, replacing_folder, write
from transformer.storage.records import read_json

logger = logging.getLogger(__name__)
_Name = Literal[tuple(TABLES)]
_SMALL = (".yaml", ".json", ".jsonl", ".hyp", ".trees")  # the inputs of the tables
OF_SCALE = ("data/*/data.json", "tables/*.csv", "tables/*.md", "tables/*.tex", "figures/*.svg", "attention.json")
OF_SCALE += ("layers.json", "recall.json", "report.html")


def record(
    scale: str,
    /,
    *,
    to: Path,
    weights: list[str] | None = None,
    config: list[str] | None = None,
    configfile: list[str] | None = None,
) -> None:
    """Copy the small files of a scale's finished runs. The tables can be rebuilt from these files.

    Parser trees are copied without words, because the words belong to the treebank. Other runs in the folder stay.

        python -m transformer record multi30k --to results/record/multi30k --weights en-de/base/1 en-fr/base/3
        snakemake --cores all --configfile results/record/multi30k/config.yaml

    Args:
        scale: name of the scale
        to: folder of the record, named like the scale
        weights: task/experiment/seed of runs; their averaged weights are copied as int8
        config: KEY=VALUE, like Snakemake's option
        configfile: YAML files, like Snakemake's option
    """
    if to.name != scale:
        raise InputError(f"--to: expected a folder named {scale}, found {to}")
    results = Pipeline(read(configfile or [], [*(config or []), f"scale={scale}"])).files
    if to.resolve() == results.folder.resolve():
        raise InputError(f"--to: expected a folder other than the results' folder, found {to}")
    chosen, runs = set(weights or ()), []
    for run in (Run(path.parent) for path in sorted(results.folder.glob("runs/*/*/*/run.json"))):
        trained = read_trained(run.record)
        if load(run.experiment).digest(trained["data_sha256"], trained.get("initial_sha256")) == trained["digest"]:
            runs.append(run)
        else:
            logger.warning("left out: %s, because its settings have changed since its training", run.folder)
    if unknown := chosen - {run.name for run in runs}:
        raise InputError(f"{results.folder}/runs: expected a trained run {min(unknown)}, found none")
    for run in runs:
        kept = Run(to / "runs" / run.name)
        _record_run(run, kept, with_weights=run.name in chosen or kept.average.exists())
    for path in (path for pattern in OF_SCALE for path in sorted(results.folder.glob(pattern))):
        write(to / path.relative_to(results.folder), path.read_bytes())
    if (to / "config.yaml").exists():
        logger.info("%s/config.yaml: kept unchanged, because it may list further seeds", to)
    else:
        given = changes(configfile or [], config or []) | {"scale": scale, "results": str(to.parent), "partial": True}
        given.pop("mirror", None)  # this folder exists only on this machine
        with replacing(to / "config.yaml") as file:
            yaml.safe_dump(given, file, sort_keys=False)
    print(f"{to}: {len(runs)} runs of {results.folder}")


def _record_run(run: Run, target: Run, with_weights: bool) -> None:
    """Copy a run's small files. Older files are replaced only when all copies are complete."""
    ours = {path.name for path in (*run.folder.iterdir(), run.vocabulary, run.average)}
    for old in target.folder.iterdir() if target.folder.exists() else ():
        if old.name not in ours:
            raise InputError(f"{old}: refusing to delete a file that `record` did not write; move it elsewhere")
    kept = [path for path in sorted(run.folder.iterdir()) if path.suffix in _SMALL and path.is_file()]
    if with_weights or run.folder.parent.name == "base":  # the table `bleu_variants` scores base's subwords
        kept.append(run.vocabulary)
    with replacing_folder(target.folder) as folder:
        for path in kept:
            if path.suffix != ".trees":
                shutil.copyfile(path, folder / path.name)
                continue
            with replacing(folder / path.name) as file:
                for number, line in enumerate(read_lines(path), start=1):
                    file.write(f"{bracketed(without_words(parse_line(line, path, number)))}\n")
        if with_weights:
            from transformer.model import weights  # here, because importing torch takes seconds

            tensors, header = weights.load_tensors(run.average)
            weights.save_tensors(Run(folder).average, weights.to_int8(tensors), header | {"rounded": True})
        if "files" in (record := read_trained(run.record)):  # the copied files have new checksums
            write_trained(Run(folder).record, record, filter(Path.exists, map(folder.joinpath, record["files"])))


def explain(
    table: _Name, row: str, column: str, /, *, config: list[str] | None = None, configfile: list[str] | None = None
) -> None:
    """Print the runs behind a number in a table, like the dialog on the page.

    python -m transformer explain table2 base en-de

    Args:
        table: name of the table, such as table2
        row: part of the row's text, or an experiment
        column: part of the column's heading, or a task
        config: KEY=VALUE, like Snakemake's option
        configfile: YAML files, like Snakemake's option
    """
    results = Pipeline(read(configfile or [], config or [])).files
    path = results.table(table, "json")
    if not path.exists():
        options = [*(["--configfile", *configfile] if configfile else ()), *(["--config", *config] if config else ())]
        command = shlex.join(["snakemake", "--cores", "all", *options, "--", str(path)])
        raise InputError(f"{path}: this table does not exist yet; make it with `{command}`")
    ours = list(_numbers_of_ours(read_json(path, Table)))
    if not (cells := _find_cells(ours, row.casefold(), column.casefold())):
        columns = "; ".join(dict.fromkeys(heading for _, heading, _ in ours)) or "none"
        expected = f"expected a number measured by us in row {row}, column {column}, found none"
        raise InputError(f"{path}: {expected}; columns with such numbers: {columns}")
    for where, cell in cells:
        print(f"{where}: {cell}")
    runs = [results.run(*name.split("/")) for name in dict.fromkeys(name for _, cell in cells for name in cell.runs)]
    scores = [path for run in runs for path in (run.scores("test"), run.scores("dev", ".last")) if path.exists()]
    cards = run_cards(read_run_records(run.record for run in runs if run.record.exists()), scores)
    for card in cards:
        print(f"\n{card.text()}")
    for run in runs:
        if run.name not in {card.run for card in cards}:
            print(f"\n{run.name}: the file {run.record} is missing")


def _numbers_of_ours(table: Table) -> Iterator[tuple[list[str], str, Cell]]:
    """Yield each of our numbers with the texts of its row and the heading of its column."""
    for grid in [table.grid, *(note for note in table.notes if isinstance(note, Grid))]:
        for cells in grid.rows:
            headings = [heading for heading in cells if heading in (grid.words or list(cells)[:1])]
            texts = [text for heading in headings if (text := str(cells[heading]).replace("`", ""))]
            yield from ((texts, name, cell) for name, cell in cells.items() if isinstance(cell, Cell) and cell.runs)


def _find_cells(ours: list[tuple[list[str], str, Cell]], row: str, column: str) -> list[tuple[str, Cell]]:
    """Find the numbers in rows with exactly this text or experiment, or else in rows that contain it."""
    whole, partly = [], []
    for texts, heading, cell in ours:
        tasks, experiments, _ = zip(*(run.casefold().split("/") for run in cell.runs), strict=True)
        names = [*map(str.casefold, texts), *experiments]
        if (column in heading.casefold() or column in tasks) and row in "\n".join(names):
            (whole if row in names else partly).append((f"{' '.join(texts[:2])}, {heading}", cell))
    return whole or partly
