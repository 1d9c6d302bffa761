"""Keep what a scale's finished runs say of themselves, and nothing large, so that its tables can be made again.

    python -m transformer record multi30k --to results/record/multi30k --weights en-de/base/1 en-fr/base/3
    snakemake --cores all --configfile results/record/multi30k/config.yaml

Copies settings, log, translations, scores and measurements of every run that was trained in results/SCALE, what was
measured beside them, and tables, figures and page. A parser's trees come without their words, which are the treebank's:
they are put back when the trees are scored. Of --weights, it copies the averaged weights, too, rounded to 8 bits. What
the folder holds of other runs stays. TO/config.yaml then takes all runs from there (`from` in
config/README.md): the second command makes everything again without training. Recorded once more, without --weights,
tables, figures and page are those that this command makes from then on, byte for byte.
"""

import argparse
import shutil
from collections.abc import Iterable
from pathlib import Path

import yaml

from transformer.commandline import stage_parser
from transformer.config.elsewhere import SUMS
from transformer.config.experiment import load
from transformer.files import InputError, replacing, sha256
from transformer.parsing.brackets import parse_line
from transformer.parsing.trees import bracketed, without_words
from transformer.records import Trained, read_json
from transformer.text import read_lines

OF_RUN = (
    ".yaml",
    ".json",
    ".jsonl",
    ".hyp",
    ".trees",
)  # of a run's files: what is small, and what the tables are made from
WEIGHTS = "average.safetensors"
MEASURED = ("attention.json", "layers.json")
MADE = ("tables/*.csv", "tables/*.md", "tables/*.tex", "figures/*.svg", "report.html")


def main(argv: list[str] | None = None) -> None:
    """Copy the runs, then what was made of them, and list both."""
    args = parse(argv)
    results = Path("results", args.scale)
    runs = trained_runs(results)
    if unknown := set(args.weights) - set(runs):
        raise InputError(f"{results}/runs: expected a trained run {min(unknown)}, found {', '.join(runs) or 'none'}")
    for name, run in runs.items():
        target = args.to / "runs" / name
        # Weights that were recorded before come along again.
        record_run(run, target, weights=name in args.weights or (target / WEIGHTS).exists())
    for pattern in ("data/*/data.json", *MEASURED, *MADE):
        for path in sorted(results.glob(pattern)):
            copy(path, args.to / path.relative_to(results))
    write_list(args.to, [args.to / name for name in MEASURED])
    write_config(args.to, args.scale)
    print(f"{args.to}: {len(runs)} runs of {results}; {len(recorded_runs(args.to))} in all")


def trained_runs(results: Path) -> dict[str, Path]:
    """Return the folders of the finished runs by task/experiment/seed, without those taken from elsewhere.

    Say which are left out because their settings have changed since.
    """
    trained = {}
    for folder in (path.parent for path in sorted(results.glob("runs/*/*/*/run.json"))):
        run = read_json(folder / "run.json", Trained)
        if "taken" in run:
            continue
        if load(folder / "experiment.yaml").digest(run["data_sha256"]) == run["digest"]:
            trained["/".join(folder.parts[-3:])] = folder
        else:
            print(f"left out: {folder}, whose experiment.yaml has changed since it was trained")
    return trained


def record_run(run: Path, target: Path, weights: bool) -> None:
    """Copy a run's small files and list them, and when all are there, put them in place of older ones.

    The vocabulary comes with base, whose translations the table `why` splits again.
    """
    aside = target.with_name(f".{target.name}.part")
    if aside.exists():  # of an attempt that failed
        shutil.rmtree(aside)
    kept = [path for path in sorted(run.iterdir()) if path.suffix in OF_RUN and path.is_file()]
    if weights or run.parts[-2] == "base":
        kept.append(run / "vocabulary.model")
    for path in kept:
        (withhold if path.suffix == ".trees" else copy)(path, aside / path.name)
    if weights:
        shrink(run / WEIGHTS, aside / WEIGHTS)
    write_list(aside, aside.iterdir())
    if target.exists():
        shutil.rmtree(target)
    aside.rename(target)


def shrink(path: Path, target: Path) -> None:
    """Copy weights in 8 bits, with the header that they have."""
    from transformer.model import weights  # here, as it takes seconds
    from transformer.model.weights import to_int8

    tensors, header = weights.load(path)
    weights.save(target, to_int8(tensors), header | {"rounded": True})


def withhold(path: Path, target: Path) -> None:
    """Copy a parser's trees without their words, which `parsing.brackets` puts back from the treebank."""
    with replacing(target) as file:
        for number, line in enumerate(read_lines(path), start=1):
            file.write(f"{bracketed(without_words(parse_line(line, path, number)))}\n")


def copy(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)


def write_list(folder: Path, paths: Iterable[Path]) -> None:
    """Write SHA256SUMS of those of the paths that are there, as sha256sum does."""
    there = sorted(path for path in paths if path.is_file() and path.name != SUMS)
    with replacing(folder / SUMS) as file:
        file.writelines(f"{sha256(path)}  {path.name}\n" for path in there)


def recorded_runs(folder: Path) -> dict[str, Path]:
    return {"/".join(path.parts[-4:-1]): path.parent for path in sorted(folder.glob(f"runs/*/*/[0-9]*/{SUMS}"))}


def write_config(folder: Path, scale: str) -> None:
    """Write the configuration that takes everything in the folder."""
    taken = {name: entry(run) for name, run in recorded_runs(folder).items()}
    content = {"scale": scale, "partial": True, "scales": {scale: {"from": taken, "measured": entry(folder)}}}
    with replacing(folder / "config.yaml") as file:
        file.write(f"# Made by `python -m transformer record {scale} --to {folder}`: all that is here is taken.\n")
        yaml.safe_dump(content, file, sort_keys=False, width=1000)


def entry(folder: Path) -> dict[str, str]:
    return {"path": folder.as_posix(), "sha256": sha256(folder / SUMS)}


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = stage_parser("record", __doc__)
    parser.add_argument("scale", help="the scale whose results are kept")
    parser.add_argument("--to", required=True, type=Path, metavar="DIR", help="the folder that keeps them")
    parser.add_argument(
        "--weights", default=[], nargs="+", metavar="RUN", help="task/experiment/seed of runs whose weights come along"
    )
    return parser.parse_args(argv)
