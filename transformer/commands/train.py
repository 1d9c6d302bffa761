"""Train one run (§5), or go on where it was interrupted.

    python -m transformer train results/demo/runs/en-de/base/1 --data results/demo/data/en-de --threads 2
    torchrun --standalone --nproc-per-node 8 -m transformer train RUN --data DATA --threads 4

Reads RUN/experiment.yaml. Works in RUN/state/{digest}, which survives a failed or killed job, and at the end writes
RUN/checkpoints (those to be averaged), last.safetensors, metrics.jsonl, vocabulary.model and run.json. Training that
was finished before is not repeated; to train again, delete RUN/state and RUN/run.json.

The batches are the same on any number of processes; each accumulates gradients as its memory demands. TERM, INT, HUP,
USR1 or USR2 to any process: the state is saved after the step, and the exit code is 75, so that the same command goes
on from there. torchrun itself exits with 1, and must be told to pass USR1 and USR2 on and to wait for the save, as
workflow/scripts/train-node does; RUN/state/interrupted names the signal. While another process trains in RUN, this one
waits.
"""

import argparse
import json
import os
import shutil
import sys
import traceback
from dataclasses import asdict
from pathlib import Path

import torch

from transformer import provenance
from transformer.commandline import positive, stage_parser
from transformer.config.experiment import Experiment, load
from transformer.data.corpus import TokenArray, read_manifest
from transformer.data.subwords import Subwords
from transformer.files import InputError, replacing
from transformer.layout import SIDES
from transformer.runtime import memory
from transformer.runtime.distributed import World, end, joined
from transformer.runtime.lock import alone
from transformer.runtime.signals import EXIT_INTERRUPTED, Interrupted, StopSignals, say
from transformer.text import out_of_memory, reason
from transformer.training import compiling
from transformer.training.batches import ParallelText, batch_budgets
from transformer.training.evaluation import Evaluation
from transformer.training.loop import Run, TrainingError

# Errors that one line explains.
EXPECTED = (InputError, FloatingPointError, OSError)


def main(argv: list[str] | None = None) -> None:
    """Train, then publish what the later stages read."""
    args = parse(argv)
    torch.set_num_threads(args.threads)
    experiment = load(args.run / "experiment.yaml")
    data_sha256 = read_manifest(args.data / "data.json")["sha256"]
    with StopSignals() as stop:  # up to the last word: torchrun sends TERM to all as soon as one of them has ended
        try:
            run_to_the_end(args, experiment, data_sha256, stop)
        except Interrupted as interruption:
            if os.environ.get("RANK", "0") == "0":
                # For workflow/scripts/train: what ended this try. Each job of a batch system has its own.
                name = ".".join(filter(None, ("interrupted", os.environ.get("SLURM_JOB_ID"))))
                with replacing(args.run / "state" / name) as file:
                    file.write(f"{interruption}\n")
            leave(f"interrupted by {interruption}; the same command goes on from there", EXIT_INTERRUPTED)
        except (TrainingError, MemoryError, RuntimeError, *EXPECTED) as error:
            cause = error.__cause__ if isinstance(error, TrainingError) else error
            if not (isinstance(cause, EXPECTED) or out_of_memory(cause)):
                if cause is error and "RANK" not in os.environ:
                    raise
                traceback.print_exception(cause)
            leave(f"error: {reason(error)}", 1)
        end()


def run_to_the_end(args: argparse.Namespace, experiment: Experiment, data_sha256: str, stop: StopSignals) -> None:
    """Train what is left of the run, together with this training's other processes; rank 0 publishes it."""
    digest = experiment.digest(data_sha256)
    folder = args.run / "state" / digest[:16]
    with joined() as world, alone(args.run / "state", world, stop):
        if world.agree((folder / "run.json").exists()):
            if world.rank == 0:
                say(f"trained before: {folder} (to train again, delete it and run.json)")
        else:
            run = open_run(args, experiment, digest, folder, world)
            run.train(stop, provenance.commit())
            if world.rank == 0:
                finish(run, data_sha256)
        if world.rank == 0:
            publish(args.run, folder, args.data / "vocabulary.model")


def leave(message: str, code: int) -> None:
    message = f"transformer train: {message}"
    if code == 1 and "RANK" not in os.environ:
        sys.exit(message)  # as every stage does
    say(message, error=True)
    end(code)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = stage_parser("train", __doc__)
    # Not --run, as the other stages have it: torchrun takes that for an option of its own.
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of the run")
    parser.add_argument("--data", type=Path, required=True, help="folder of the task's data")
    parser.add_argument("--threads", type=positive, required=True, help="processor threads of each process")
    parser.add_argument("--memory", type=float, metavar="GIB", help="memory of each process; measured if not given")
    return parser.parse_args(argv)


def open_run(args: argparse.Namespace, experiment: Experiment, digest: str, folder: Path, world: World) -> Run:
    """Return the run, at the newest state in `folder`."""
    if world.device.type == "cuda":
        compiling.prepare(args.run / "state/compiled", args.threads)
    text, dev = (open_text(args.data, split, experiment) for split in ("train", "dev"))
    vocabulary = Subwords(args.data / "vocabulary.model").fitting(experiment.model.embedding_rows)
    sentences = experiment.running.bleu_sentences
    evaluation = Evaluation(dev, vocabulary, batch_budgets(experiment.training), sentences, world)
    available = memory.available(world.device, args.threads) if args.memory is None else int(args.memory * 2**30)
    return Run(experiment, text, evaluation, vocabulary, world, digest, folder, available)


def open_text(data: Path, split: str, experiment: Experiment) -> ParallelText:
    """Return one split's token arrays. Raises InputError where an id has no row in the model's embedding."""
    sides = [TokenArray.open(*(data / f"{split}.{side}.{kind}" for kind in ("ids", "offsets"))) for side in SIDES]
    largest = max(int(side.ids.max()) for side in sides)
    if largest >= experiment.model.embedding_rows:
        raise InputError(f"{data}: token id {largest}, but embedding_rows is {experiment.model.embedding_rows}")
    return ParallelText(*sides)


def finish(run: Run, data_sha256: str) -> None:
    """Write run.json: what was trained, on what, by which code, where, for how long. With it a run is finished."""
    names = ("scale", "task", "experiment", "seed", "fidelity", "source", "target")
    entries = {name: getattr(run.experiment, name) for name in names} | asdict(run.progress)
    entries |= {
        "steps": run.progress.step,
        "data_sha256": data_sha256,
        "parameters": sum(parameter.numel() for parameter in run.learner.model.parameters()),
        "commit": run.progress.starts[-1]["commit"],
        "hardware": run.progress.starts[-1]["hardware"],
        "finished": provenance.now(),
    }
    with replacing(run.folder / "run.json") as file:
        json.dump(entries, file, indent=1)


def publish(run: Path, folder: Path, vocabulary: Path) -> None:
    """Put what averaging and translating need into RUN, each file by a rename; run.json comes last."""
    aside = run / ".checkpoints.part"
    for old in (aside, run / "checkpoints"):
        shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(folder / "checkpoints", aside, copy_function=link)
    aside.rename(run / "checkpoints")
    last = run / ".last.part"
    last.unlink(missing_ok=True)
    link(max((folder / "checkpoints").glob("*.safetensors")), last)
    last.rename(run / "last.safetensors")
    for source in (folder / "metrics.jsonl", vocabulary, folder / "run.json"):
        with replacing(run / source.name, "wb") as file:
            file.write(source.read_bytes())


def link(source: str | Path, target: str | Path) -> None:
    """Give a file a second name, so that it lies on disk once; copy it where the file system has no such names."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
