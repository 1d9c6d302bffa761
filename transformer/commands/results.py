"""The commands `explain` and `record`: show the runs behind a number; copy a scale's small files to a record."""

import logging
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import yaml

from transformer.commands import require_separate
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
from transformer.storage.reading import read_yaml
from transformer.storage.records import read_json

logger = logging.getLogger(__name__)
_Name = Literal[tuple(TABLES)]
_CARDS = 3  # `explain` describes up to this many runs fully, and more runs in a line each
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
    """Copy the small files of a scale's finished runs. The scale's tables can be rebuilt from them.

    The words of a parser's trees are left out, because they belong to the treebank. Other runs in the folder stay.

        python -m transformer record multi30k --to results/record/multi30k --weights en-de/base/1 en-fr/base/3
        snakemake --cores all --configfile results/record/multi30k/config.yaml

    Args:
        scale: name of the scale to copy
        to: folder of the record; its name must be the name of the scale
        weights: runs (task/experiment/seed) to copy together with their averaged weights in int8
        config: settings as KEY=VALUE, like Snakemake's --config
        configfile: YAML files, like Snakemake's --configfile
    """
    if to.name != scale:
        raise InputError(f"--to: expected a folder named {scale}, found {to}")
    results = Pipeline(read(configfile or [], [*(config or []), f"scale={scale}"])).files
    if to.resolve() == results.folder.resolve():
        raise InputError(f"--to: expected a folder other than the results folder, found {to}")
    chosen, runs = set(weights or ()), []
    for run in (Run(path.parent) for path in sorted(results.folder.glob("runs/*/*/*/run.json"))):
        trained = read_trained(run.record)
        if load(run.experiment).digest(trained["data_sha256"], trained.get("initial_sha256")) == trained["digest"]:
            runs.append(run)
        else:
            logger.warning("%s: left out, because its settings have changed since its training", run.folder)
    if unknown := chosen - {run.name for run in runs}:
        raise InputError(f"--weights: expected a trained run {min(unknown)} in {results.folder}/runs, found none")
    copied = [path for pattern in OF_SCALE for path in sorted(results.folder.glob(pattern))]
    if not _is_record(to, scale):
        kept = [to / path.relative_to(results.folder) for path in copied]
        require_separate({}, {}, foreign=[to / "config.yaml", *kept, *(to / "runs" / run.name for run in runs)])
    if (to / "config.yaml").exists():
        logger.info("%s/config.yaml: not overwritten, because it may list further seeds", to)
    else:
        given = changes(configfile or [], config or []) | {"scale": scale, "results": str(to.parent), "partial": True}
        given.pop("mirror", None)  # this folder exists only on this machine
        with replacing(to / "config.yaml") as file:
            yaml.safe_dump(given, file, sort_keys=False)
    for run in runs:
        kept = Run(to / "runs" / run.name)
        _record_run(run, kept, with_weights=run.name in chosen or kept.average.exists())
    for path in copied:
        write(to / path.relative_to(results.folder), path.read_bytes())
    print(f"{to}: {len(runs)} runs of {results.folder}")


def _is_record(folder: Path, scale: str) -> bool:
    """Return whether `record` has written a folder's config.yaml, which its users may edit."""
    path = folder / "config.yaml"
    content = read_yaml(path) if path.is_file() else None
    return isinstance(content, dict) and {"scale": scale, "partial": True}.items() <= content.items()


def _record_run(run: Run, target: Run, with_weights: bool) -> None:
    """Copy a run's small files. Replace older copies only after all files are copied."""
    of_copy = target.scores("test", ".int8")  # a score of the int8 weights, which export compares by checksum
    ours = {path.name for path in (*run.folder.iterdir(), run.vocabulary, run.average, of_copy)}
    for old in target.folder.iterdir() if target.folder.exists() else ():
        if old.name not in ours:
            raise InputError(f"{old}: refusing to delete a file that `record` did not write; move it elsewhere")
    kept = [path for path in sorted(run.folder.iterdir()) if path.suffix in _SMALL and path.is_file()]
    kept += [of_copy] if of_copy.exists() and with_weights else []
    if with_weights or run.folder.parent.name == "base":  # the table `bleu_variants` splits base's translations again
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
            from transformer.model import weights  # a late import, because torch takes seconds to load

            tensors, header = weights.load_tensors(run.average)
            weights.save_tensors(Run(folder).average, weights.to_int8(tensors), header | {"rounded": True})
        if "files" in (record := read_trained(run.record)):  # write checksums of the copies
            write_trained(Run(folder).record, record, filter(Path.exists, map(folder.joinpath, record["files"])))


def explain(
    table: _Name, row: str, column: str, /, *, config: list[str] | None = None, configfile: list[str] | None = None
) -> None:
    """Print the runs behind a number of a table, like the dialog on the page.

    python -m transformer explain table2 base en-de

    Args:
        table: name of the table, such as table2
        row: part of the row's text, or name of an experiment
        column: part of the column's heading, or name of a task
        config: settings as KEY=VALUE, like Snakemake's --config
        configfile: YAML files, like Snakemake's --configfile
    """
    results = Pipeline(read(configfile or [], config or [])).files
    path = results.table(table, "json")
    if not path.exists():
        command = _command(path, config, configfile)
        raise InputError(f"{path}: this file does not exist yet; build it with `{command}`")
    ours = list(_numbers_of_ours(read_json(path, Table)))
    if not (cells := _find_cells(ours, row.casefold(), column.casefold())):
        columns = "; ".join(dict.fromkeys(heading for _, heading, _ in ours)) or "none"
        expected = f"expected one of our numbers in a row {row} and a column {column}, found none"
        raise InputError(f"{path}: {expected}; columns with our numbers: {columns}")
    for where, cell in cells:
        print(f"{where}: {cell}")
    print(f"\nbuilt by: {_command(path, config, configfile)}")
    runs = [results.run(*name.split("/")) for name in dict.fromkeys(name for _, cell in cells for name in cell.runs)]
    scores = [path for run in runs for path in (run.scores("test"), run.scores("dev", ".last")) if path.exists()]
    cards = run_cards(read_run_records(run.record for run in runs if run.record.exists()), scores)
    print(f"from {len(runs)} runs" if len(runs) > 1 else "from 1 run")
    for card in cards:
        print(f"\n{card.text()}" if len(runs) <= _CARDS else card.line())
    for run in runs:
        if run.name not in {card.run for card in cards}:
            print(f"\n{run.name}: no file {run.record}")


def _command(path: Path, config: list[str] | None, configfile: list[str] | None) -> str:
    options = [*(["--configfile", *configfile] if configfile else ()), *(["--config", *config] if config else ())]
    return shlex.join(["snakemake", "--cores", "all", *options, "--", str(path)])


def _numbers_of_ours(table: Table) -> Iterator[tuple[list[str], str, Cell]]:
    """Yield each of our numbers, with the texts of its row and the heading of its column."""
    for grid in [table.grid, *(note for note in table.notes if isinstance(note, Grid))]:
        for cells in grid.rows:
            headings = [heading for heading in cells if heading in (grid.words or list(cells)[:1])]
            texts = [text for heading in headings if (text := str(cells[heading]).replace("`", ""))]
            yield from ((texts, name, cell) for name, cell in cells.items() if isinstance(cell, Cell) and cell.runs)


def _find_cells(ours: list[tuple[list[str], str, Cell]], row: str, column: str) -> list[tuple[str, Cell]]:
    """Find the numbers with this row and column: whole names of the row first, then whole words of the heading."""
    found: dict[tuple[bool, bool], list[tuple[str, Cell]]] = {}
    word = re.compile(rf"(?<!\w){re.escape(column)}(?!\w)")
    for texts, heading, cell in ours:
        tasks, experiments, _ = zip(*(run.casefold().split("/") for run in cell.runs), strict=True)
        names = [*map(str.casefold, texts), *experiments]
        if (column in heading.casefold() or column in tasks) and row in "\n".join(names):
            kind = row in names, bool(word.search(heading.casefold())) or column in tasks
            found.setdefault(kind, []).append((f"{' '.join(texts[:2])}, {heading}", cell))
    return found[max(found)] if found else []
