"""Train one run (§5), or go on where it was interrupted.

    python -m transformer train --run results/demo/runs/en-de/base/1 --data results/demo/data/en-de --threads 2

Reads RUN/experiment.yaml. Works in RUN/state/{digest}, which survives a failed or killed job, and at the end writes
RUN/checkpoints (those to be averaged), RUN/metrics.jsonl, RUN/vocabulary.model and RUN/run.json. Training that was
finished before is not repeated; to train anew, delete RUN/state and RUN/run.json.
"""

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

import torch

from transformer import provenance
from transformer.arguments import stage_parser
from transformer.batches import ParallelText
from transformer.config import Experiment, load
from transformer.corpus import SIDES, TokenArray
from transformer.files import InputError, read_json, replacing
from transformer.training import Progress, Run


def main(argv: list[str] | None = None) -> None:
    """Train, then publish what the later stages read."""
    parser = stage_parser("train", __doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder of the run")
    parser.add_argument("--data", type=Path, required=True, help="folder of the task's data")
    parser.add_argument("--threads", type=int, required=True, help="processor threads")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    experiment = load(args.run / "experiment.yaml")
    data_sha256 = read_json(args.data / "data.json")["sha256"]
    digest = experiment.digest(data_sha256)
    folder = args.run / "state" / digest[:16]
    if (folder / "run.json").exists():
        print(f"trained before: {folder} (to train anew, delete it and run.json)")
    else:
        train(experiment, args.data, data_sha256, digest, folder)
    publish(args.run, folder, args.data / "vocabulary.model")


def train(experiment: Experiment, data: Path, data_sha256: str, digest: str, folder: Path) -> None:
    """Train in `folder`; its run.json, written last, says that the training is finished."""
    text, dev = (open_text(data, split, experiment) for split in ("train", "dev"))
    run = Run(experiment, text, dev, digest, folder, provenance.commit())
    progress = run.train()
    with replacing(folder / "run.json") as file:
        json.dump(describe(run, progress, data_sha256), file, indent=1)


def open_text(data: Path, split: str, experiment: Experiment) -> ParallelText:
    """One split's token arrays, whose ids all have a row in the model's embedding."""
    sides = [TokenArray.open(*(data / f"{split}.{side}.{kind}" for kind in ("ids", "offsets"))) for side in SIDES]
    largest = max(int(side.ids.max()) for side in sides)
    if largest >= experiment.model.embedding_rows:
        raise InputError(f"{data}: token id {largest}, but embedding_rows is {experiment.model.embedding_rows}")
    return ParallelText(*sides)


def publish(run: Path, folder: Path, vocabulary: Path) -> None:
    """Put beside each other what averaging and translating need, each by a rename; run.json comes last."""
    aside = run / ".checkpoints.part"
    for old in (aside, run / "checkpoints"):
        shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(folder / "checkpoints", aside, copy_function=link)
    aside.rename(run / "checkpoints")
    for source in (folder / "metrics.jsonl", vocabulary, folder / "run.json"):
        with replacing(run / source.name, "wb") as file:
            file.write(source.read_bytes())


def link(source: str, target: str) -> None:
    """Give a file a second name, so that it lies on disk once; copy it where the file system has no such names."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def describe(run: Run, progress: Progress, data_sha256: str) -> dict:
    """run.json: what was trained, on what, by which code, where and for how long."""
    experiment = run.experiment
    names = ("scale", "task", "experiment", "seed", "source", "target")
    about = {name: getattr(experiment, name) for name in names} | asdict(progress)
    return about | {
        "steps": progress.step,
        "data_sha256": data_sha256,
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
        "commit": progress.starts[-1]["commit"],
        "hardware": progress.starts[-1]["hardware"],
        "finished": provenance.now(),
    }
