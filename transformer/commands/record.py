"""The command `record`: keeps what is small of a scale's finished runs, so that its tables can be made again."""

import logging
import shutil
from pathlib import Path

import yaml

from transformer.config.experiment import load
from transformer.files import InputError, replacing
from transformer.layout import Run, Scale
from transformer.parsing.brackets import parse_line
from transformer.parsing.trees import bracketed, without_words
from transformer.records import RunRecord, read_json
from transformer.text import read_lines

logger = logging.getLogger(__name__)
SMALL = (".yaml", ".json", ".jsonl", ".hyp", ".trees")  # what the tables are made from
OF_SCALE = ("data/*/data.json", "tables/*.csv", "tables/*.md", "tables/*.tex", "figures/*.svg", "attention.json")
OF_SCALE += ("layers.json", "report.html")


def record(scale: str, /, *, to: Path, weights: list[str] | None = None) -> None:
    """Keep what is small of a scale's finished runs, so that its tables can be made again.

        python -m transformer record multi30k --to results/record/multi30k --weights en-de/base/1 en-fr/base/3
        snakemake --cores all --configfile results/record/multi30k/config.yaml

    Copies settings, log, translations, scores and analyses of every run in results/SCALE, and tables, figures and page.
    A parser's trees come without their words, which are the treebank's. What the folder holds of other runs stays. The
    second command makes tables, figures and page again in the folder, without training.

    Args:
        scale: the scale whose results are kept
        to: the folder that keeps them; its name is the scale's
        weights: task/experiment/seed of runs whose averaged weights come along, rounded to 8 bits
    """
    if to.name != scale:
        raise InputError(f"--to: expected a folder named {scale}, found {to}")
    results, chosen = Scale(f"results/{scale}"), set(weights or ())
    runs = _finished_runs(results)
    if unknown := chosen - {run.name for run in runs}:
        raise InputError(f"{results.folder}/runs: expected a trained run {min(unknown)}, found none")
    for run in runs:
        kept = Run(to / "runs" / run.name)
        _record_run(run, kept, with_weights=run.name in chosen or kept.average.exists())
    for path in (path for pattern in OF_SCALE for path in sorted(results.folder.glob(pattern))):
        copy(path, to / path.relative_to(results.folder))
    with replacing(to / "config.yaml") as file:
        yaml.safe_dump({"scale": scale, "results": str(to.parent), "partial": True}, file, sort_keys=False)
    print(f"{to}: {len(runs)} runs of {results.folder}")


def _finished_runs(results: Scale) -> list[Run]:
    """Return the finished runs. Leaves out, and says so, those whose settings have changed since they were trained."""
    found = []
    for run in (Run(path.parent) for path in sorted(results.folder.glob("runs/*/*/*/run.json"))):
        trained = read_json(run.record, RunRecord)
        if load(run.experiment).digest(trained["data_sha256"]) == trained["digest"]:
            found.append(run)
        else:
            logger.warning("left out: %s, whose settings have changed since it was trained", run.folder)
    return found


def _record_run(run: Run, target: Run, with_weights: bool) -> None:
    """Copy a run's small files, and when all are there, put them in the place of older ones.

    The vocabulary comes with base, whose translations the table `why` splits again.
    """
    aside = Run(target.folder.with_name(f".{target.folder.name}.part"))
    if aside.folder.exists():  # of an attempt that failed
        shutil.rmtree(aside.folder)
    kept = [path for path in sorted(run.folder.iterdir()) if path.suffix in SMALL and path.is_file()]
    if with_weights or run.folder.parent.name == "base":
        kept.append(run.vocabulary)
    for path in kept:
        (_copy_without_words if path.suffix == ".trees" else copy)(path, aside.folder / path.name)
    if with_weights:
        _shrink(run.average, aside.average)
    if target.folder.exists():
        shutil.rmtree(target.folder)
    aside.folder.rename(target.folder)


def _shrink(path: Path, target: Path) -> None:
    """Copy weights in 8 bits, with their header."""
    from transformer.model import weights  # here, as it takes seconds

    tensors, header = weights.load(path)
    weights.save(target, weights.int8(tensors), header | {"rounded": True})


def _copy_without_words(path: Path, target: Path) -> None:
    with replacing(target) as file:
        for number, line in enumerate(read_lines(path), start=1):
            file.write(f"{bracketed(without_words(parse_line(line, path, number)))}\n")


def copy(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)
