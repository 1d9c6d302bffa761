"""§5.2 The files of a training: resume states and the outputs for later steps.

A state contains the weights, Adam's moments and the progress.
"""

import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from msgspec import structs

from transformer.config.experiment import Experiment, load, save
from transformer.layout import Data, Run
from transformer.model import weights as checkpoints
from transformer.model.seq2seq import Seq2Seq
from transformer.storage.checksums import read_trained, write_trained
from transformer.storage.files import InputError, write
from transformer.storage.records import Amount, Count, Unusable, read_weights
from transformer.training.statistics import with_statistics

logger = logging.getLogger(__name__)


@dataclass
class Progress:
    """A run's progress."""

    digest: str
    step: Count = 0
    epoch: Count = 0
    position: Count = 0  # number of finished batches in this epoch
    source_tokens: Count = 0
    target_tokens: Count = 0
    flops: Amount = 0.0
    seconds: Amount = 0.0
    dev_perplexity: float | None = None
    dev_bleu: float | None = None
    starts: list[dict] = field(default_factory=list)  # time, machine and code of the first start and of each resumption


class States:
    """The resume states of one run."""

    def __init__(self, folder: Run, model: Seq2Seq, adam: torch.optim.Adam):
        self.folder = folder
        # All tensors that a training changes. They are the tensors of the model and of Adam, not copies.
        self.tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
        for name, parameter in model.named_parameters():
            self.tensors |= {f"adam.{key}.{name}": tensor for key, tensor in adam.state[parameter].items()}

    def paths(self) -> list[Path]:
        """Return the state files, newest first."""
        return sorted(self.folder.state.glob("*.safetensors"), reverse=True)

    def save(self, progress: Progress) -> None:
        """Save a state, then delete old states. Raises FloatingPointError if a weight or a moment is not finite."""
        if not torch.stack([tensor.isfinite().all() for tensor in self.tensors.values()]).all():
            raise FloatingPointError("expected finite weights and moments, found infinity or NaN; no state was saved")
        checkpoints.save_tensors(self.folder.resume_state(progress.step), self.tensors, asdict(progress))
        for old in self.paths()[2:]:  # the second newest stays, in case a disk damages the newest
            old.unlink()

    def restore(self, digest: str) -> Progress:
        """Restore the newest valid state of the run `digest`, if any. Rename newer, invalid states."""
        for path in self.paths():
            try:
                tensors, header = checkpoints.load_tensors(path)
                if header.keys() != asdict(Progress(digest)).keys():
                    raise Unusable(f"{path}: not a resume state of this version of the program")
                if header["digest"] != digest:
                    raise Unusable(f"{path}: expected a state of the experiment {digest}, found {header['digest']}")
                checkpoints.require(path, self.tensors, tensors)
            except Unusable as error:
                logger.warning("refused a resume state: %s", error)
                path.rename(path.with_suffix(".refused"))
                continue
            for name, tensor in self.tensors.items():
                tensor.copy_(tensors[name])
            logger.info("resumed from step %s (%s)", header["step"], path)
            return Progress(**header)
        return Progress(digest)


def continue_shorter(run: Run, experiment: Experiment, digest: Callable[[Experiment], str]) -> None:
    """Find the shorter trainings that this experiment continues (see `_extends`). Copy the states of the longest.

    Copies nothing if this training has states, or if a checkpoint to be averaged is missing. digest: the digest of an
    experiment with this training data.
    """
    own, training = Run(run.work(digest(experiment))), experiment.training
    if own.experiment.exists():
        return
    others = {Run(path.parent): load(path) for path in run.state.glob("*/experiment.yaml") if path != own.experiment}
    for folder, other in sorted(others.items(), key=lambda entry: -entry[1].training.steps):
        states = sorted(folder.state.glob("*.safetensors"))
        same_data = folder.folder == run.work(digest(other))
        if not states or list(own.state.glob("*")) or not same_data or not _extends(experiment, other):
            continue
        averaged = range(training.steps, 0, -training.checkpoint_every)[: training.averaged_checkpoints]
        needed = [folder.checkpoint(step) for step in averaged if step <= int(states[-1].stem)]
        if training.patience:
            needed = list(folder.checkpoints.glob("*.safetensors"))
        if all(path.exists() for path in needed):
            try:
                write(own.metrics, folder.metrics.read_bytes())
                for path in [*needed, *states]:  # states last: a training that has one needs its checkpoints
                    tensors, header = checkpoints.load_tensors(path)
                    target = own.folder / path.relative_to(folder.folder)
                    checkpoints.save_tensors(target, tensors, header | {"digest": digest(experiment)})
            except Unusable as error:
                logger.warning("cannot continue the training in %s: %s", folder.folder, error)
                continue
            logger.info("continues the training of %s steps in %s", f"{other.training.steps:,}", folder.folder)
    save(experiment, own.experiment)  # last, so that a copy that was interrupted is made again


def _extends(longer: Experiment, shorter: Experiment) -> bool:
    """Return whether `longer` has no fewer steps, no less patience, and otherwise only other label and logging."""
    new, old = longer.training, shorter.training
    common = {"label": longer.label, "logging": longer.logging, "training": new}
    if structs.replace(shorter, **common) != longer:
        return False
    if structs.replace(old, steps=new.steps, patience=new.patience) != new or new.steps < old.steps:
        return False
    if not new.patience or not old.patience:
        return new.patience == old.patience
    return new.patience >= old.patience and (new.steps - old.steps) % new.checkpoint_every == 0


def dev_perplexities(run: Run) -> dict[int, float]:
    """Return the dev perplexities of checkpoints by step. Only trainings with `patience` have them."""
    headers = (read_weights(path)[1] for path in run.checkpoints.glob("*.safetensors"))
    return {header["step"]: header["dev_perplexity"] for header in headers if "dev_perplexity" in header}


def best(perplexities: dict[int, float]) -> int:
    """Return the first step with the lowest perplexity."""
    return min(sorted(perplexities), key=perplexities.get, default=0)


def publish(run: Run, trained: Run, experiment: Experiment, data: Data, device: torch.device) -> None:
    """Write a finished training's outputs and the average (§6.1) into the run's folder by renames; run.json last."""
    averaged = experiment.training.averaged_checkpoints
    aside, last = run.folder / ".checkpoints.part", run.folder / ".last.part"
    saved, perplexities = sorted(trained.checkpoints.glob("*.safetensors")), dev_perplexities(trained)
    if perplexities:
        saved = [trained.checkpoint(step) for step in sorted(perplexities) if step <= best(perplexities)][-averaged:]
        if len(saved) < averaged:
            logger.info("averaging %s checkpoints, not %s: the best checkpoint came early", len(saved), averaged)
    elif len(saved) != averaged:
        raise InputError(f"{trained.checkpoints}: expected {averaged} checkpoints, found {len(saved)}")
    tensors, header = checkpoints.average(saved)
    tensors = with_statistics(tensors, experiment, data, device)
    for old in (aside, run.checkpoints):
        shutil.rmtree(old, ignore_errors=True)
    aside.mkdir()
    for path in saved:
        _link(path, aside / path.name)
    aside.rename(run.checkpoints)
    last.unlink(missing_ok=True)
    _link(saved[-1], last)
    last.rename(run.last)
    last.unlink(missing_ok=True)  # a rename of one name of a file to another does nothing
    checkpoints.save_tensors(run.average, tensors, header)
    for source, target in ((trained.metrics, run.metrics), (data.vocabulary, run.vocabulary)):
        write(target, source.read_bytes())
    write_trained(run.record, read_trained(trained.record), (run.vocabulary, run.average, run.last, run.metrics))


def _link(source: str | Path, target: str | Path) -> None:
    """Create a hard link. Copy the file on a file system without hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
