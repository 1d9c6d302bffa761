"""§5 Training: the same batches on any number of processes, resumable at any saved step.

Dropout depends on seed, step and piece (step.py), and batches depend on seed and epoch. On a CPU, a resumed run equals
an uninterrupted run bit for bit.
"""

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np

from transformer.config.experiment import POSITIONS, Experiment, load
from transformer.data.corpus import Subwords
from transformer.device import available_memory
from transformer.layout import Data, Run
from transformer.model import weights as checkpoints
from transformer.model.cost import Lengths
from transformer.process import Interrupted, StopSignals
from transformer.storage import provenance
from transformer.storage.checksums import read_manifest, require_sums
from transformer.storage.files import InputError, sha256
from transformer.storage.records import write_json
from transformer.training.batches import ParallelText, fits, open_text
from transformer.training.distributed import World, joined, locked
from transformer.training.log import Logger
from transformer.training.states import Progress, States, best, continue_shorter, dev_perplexities, publish
from transformer.training.step import Learner, Update
from transformer.training.validation import Evaluation

logger = logging.getLogger(__name__)


class TrainingError(Exception):
    """An error in a step. The message names the step and the batch. The saved states are intact."""


def train_and_publish(run: Run, data: Data, threads: int, memory: float | None, stop: StopSignals) -> None:
    """Train the rest of a run together with other processes; rank 0 publishes it. memory: GiB, measured if None."""
    experiment = load(run.experiment)
    manifest = read_manifest(data.manifest)
    data_sha256 = manifest["sha256"]
    initial_sha256 = _initial_sha256(experiment, data)
    digest = experiment.digest(data_sha256, initial_sha256)
    folder = Run(run.work(digest))
    with joined() as world, locked(run.state, world, stop):
        if world.rank == 0:
            continue_shorter(run, experiment, lambda each: each.digest(data_sha256, initial_sha256))
        fault = _data_fault(data, manifest["files"], world)
        needed = experiment.model.norm == "batch"  # the average needs the training text
        if world.broadcast_object(folder.record.exists()) and not (fault and needed):
            if world.rank == 0:
                logger.info("already trained: %s (to retrain, delete this folder and run.json)", folder.folder)
                if fault:  # no error, because Snakemake would delete the trained run
                    logger.warning("%s; this file is not used", fault)
                require_sums(data.manifest, manifest["files"], [data.vocabulary])  # `publish` copies the vocabulary
        elif fault:
            raise InputError(fault)
        else:
            if world.device.type == "cuda":  # a resumed training reuses its compiled step; user settings win
                os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(run.compiled.resolve()))
                os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(threads))
            text, dev = (open_text(data, split) for split in ("train", "dev"))
            vocabulary = Subwords(data.vocabulary).fitting(experiment.model.embedding_rows)
            evaluation = Evaluation(experiment, dev, vocabulary, world)
            available = available_memory(world.device, threads) if memory is None else int(min(memory, 10**6) * 2**30)
            training = TrainingRun(text, evaluation, digest, folder, available)
            training.train(stop)
            if world.rank == 0:
                training.record(data_sha256, initial_sha256)
        if world.rank == 0:
            publish(run, folder, experiment, data, world.device)


def _initial_sha256(experiment: Experiment, data: Data) -> str | None:
    """Return the checksum of a training's initial weights, if any. Raises InputError if their vocabulary differs."""
    if not (initial := experiment.training.initial_weights):
        return None
    checksum, vocabulary = sha256(Path(initial)), Run(Path(initial).parent).vocabulary
    if not vocabulary.exists():
        raise InputError(f"initial_weights: {initial}: expected {vocabulary.name} in the same folder, found none")
    if vocabulary.read_bytes() != data.vocabulary.read_bytes():
        raise InputError(f"initial_weights: {initial}: expected the vocabulary {data.vocabulary}, found {vocabulary}")
    return checksum


def _data_fault(data: Data, sums: dict[str, str], world: World) -> str | None:
    """Compare the data with data.json and return the first fault. Each process checks a share of the files."""
    paths = [data.vocabulary, *data.arrays("train"), *data.arrays("dev")]
    largest_first = sorted(filter(Path.exists, paths), key=lambda path: -path.stat().st_size)
    try:
        found = require_sums(data.manifest, sums, largest_first[world.rank :: world.size])
    except InputError as error:
        found = str(error)
    return next(filter(None, world.gather(found)), None)


class TrainingRun:
    """One training: `TrainingRun(...).train(stop)` resumes from the newest state in `folder`."""

    def __init__(self, text: ParallelText, evaluation: Evaluation, digest: str, folder: Run, memory: int):
        self.experiment, self.training = evaluation.experiment, evaluation.experiment.training
        self.text, self.evaluation, self.world, self.folder = text, evaluation, evaluation.world, folder
        self.ahead = int(self.world.device.type == "cuda")
        budgets, dev = self.training.budgets, evaluation.dev.lengths
        longest = self.training.longest
        limits = f"positions or a batch of {budgets} tokens"
        long = (~fits(text.lengths, budgets, longest)).sum()
        if long == len(text.source):
            raise InputError(f"all {long:,} training pairs are too long for {longest} {limits}")
        if long and self.world.rank == 0:
            logger.info(f"skipping {long:,} of {len(text.source):,} training pairs: too long for {longest} {limits}")
        if self.training.warmup and self.training.warmup_steps > self.training.steps and self.world.rank == 0:
            peak = f"warmup_steps {self.training.warmup_steps:,}, steps {self.training.steps:,}"
            logger.warning(f"the learning rate never reaches its peak: {peak}")
        for index in np.flatnonzero(~fits(dev, budgets)):
            pair = f"dev pair {index + 1}: {dev[:, index].tolist()} tokens"
            raise InputError(f"{pair}, too long for {POSITIONS} {limits}")
        self.learner = Learner(self.experiment, text, evaluation.vocabulary, self.world, memory)
        self.states = States(folder, self.learner.model, self.learner.adam)
        progress = None
        if self.world.rank == 0:  # all processes get the newest state of rank 0
            for partial_file in folder.folder.rglob(".*.part"):  # a run was killed while it wrote this file
                partial_file.unlink()
            progress = asdict(self.states.restore(digest))
        self.world.broadcast(self.states.tensors.values())
        self.progress = Progress(**self.world.broadcast_object(progress))
        self.perplexities: dict[int, float] = {}  # dev perplexities by the steps of checkpoints, for `patience`
        if self.training.patience:
            if self.world.rank == 0:
                self.delete_checkpoints(lambda step: step > self.progress.step)  # these steps are repeated
            self.perplexities = self.world.broadcast_object(dev_perplexities(folder) if self.world.rank == 0 else {})

    def train(self, stop: StopSignals) -> Progress:
        """Train to the last step and save at intervals.

        Raises Interrupted, after a save, if any process received a stop signal. Raises TrainingError on other errors.
        """
        if not self.finished():
            self.progress.starts.append(self.circumstances())
        started, before = time.monotonic(), self.progress.seconds
        log = Logger(self.experiment, self.progress, self.folder, writes=self.world.rank == 0)
        # A GPU gets its next step before the numbers of the last step are read, so that it never waits.
        pending: deque[Update] = deque()
        with closing(log):
            for indices in self.batches():
                pending.append(self.update(indices, stop))
                done, stopped, due = [], False, log.due() or self.due()
                while len(pending) > (0 if due or stopped else self.ahead):
                    done.append(pending.popleft())
                    with _naming_step(done[-1].where, self.states):
                        done[-1].check()
                    stopped = stopped or done[-1].stopped
                with _naming_step((done or pending)[-1].where, self.states):
                    self.progress.seconds = before + time.monotonic() - started
                    self.evaluate(log)
                    log.step(done)
                    self.save(stopped)
                if stopped and not self.finished():
                    # All processes wait until rank 0 has saved. Otherwise torchrun would end rank 0 during its save.
                    signal = next(filter(None, self.world.gather(stop.received)))
                    raise Interrupted(f"{signal}: saved at step {self.progress.step}")
        return self.progress

    def batches(self) -> Iterator[np.ndarray]:
        """Yield the remaining batches of all epochs as indices of pairs."""
        progress = self.progress
        while (left := self.training.steps - progress.step) > 0:
            batches = self.learner.batches_of(progress.epoch)
            for indices in batches[progress.position : progress.position + left]:
                if self.finished():
                    return
                yield indices
            if progress.position == len(batches):
                progress.epoch, progress.position = progress.epoch + 1, 0

    def update(self, indices: np.ndarray, stop: StopSignals) -> Update:
        """Make one step on the batch of these pairs and update the progress."""
        progress, lengths = self.progress, self.text.lengths[:, indices]
        source, target = lengths.sum(axis=1).tolist()
        longest = indices[lengths.sum(axis=0).argmax()] + 1
        where = (
            f"step {progress.step + 1} (epoch {progress.epoch}, batch {progress.position}: {source:,} source + "
            f"{target:,} target tokens in {len(indices):,} pairs; the longest is pair {longest})"
        )
        with _naming_step(where, self.states):
            update = self.learner.update(where, indices, progress.step + 1, stopping=bool(stop.received))
        progress.step += 1
        progress.position += 1
        progress.source_tokens += source
        progress.target_tokens += target
        progress.flops += self.learner.model.flops(total_lengths(lengths))
        return update

    def due(self) -> bool:
        """Return whether this step needs an evaluation or a save, which read the weights."""
        intervals = self.experiment.logging
        return self.reached(intervals.evaluate_every) or self.reached(intervals.save_every) or self.checkpoint_due()

    def reached(self, every: int) -> bool:
        return self.progress.step % every == 0 or self.finished()

    def finished(self) -> bool:
        """Return whether this is the last step, or the dev perplexity has not improved for `patience` checkpoints."""
        later = sum(step > best(self.perplexities) for step in self.perplexities)
        return self.progress.step == self.training.steps or 0 < (self.training.patience or 0) <= later

    def checkpoint_due(self) -> bool:
        """Return whether this step needs a checkpoint for the average. `patience` may need any checkpoint."""
        every, left = self.training.checkpoint_every, self.training.steps - self.progress.step
        among = self.training.patience or left // every < self.training.averaged_checkpoints
        return left % every == 0 and bool(among)

    def evaluate(self, log: Logger) -> None:
        """Compute dev perplexity, and BLEU if configured, when they are due."""
        deciding = bool(self.training.patience) and self.checkpoint_due()
        if not (deciding or self.reached(self.experiment.logging.evaluate_every)):
            return
        learner, started = self.learner, time.monotonic()
        scores = {"dev_perplexity": self.evaluation.perplexity(learner.model, learner.dtype)}
        if deciding:
            self.perplexities[self.progress.step] = scores["dev_perplexity"]
        if self.experiment.logging.bleu_sentences and self.reached(self.experiment.logging.evaluate_every):
            scores["dev_bleu"] = self.evaluation.bleu(learner.model)
        self.progress.dev_perplexity, self.progress.dev_bleu = scores["dev_perplexity"], scores.get("dev_bleu")
        log.write(scores)
        log.since += time.monotonic() - started  # excludes the evaluation from tokens per second

    def save(self, stopped: bool) -> None:
        """Save a checkpoint for the average and a resume state, if they are due at this step."""
        if self.world.rank > 0:
            return
        progress = self.progress
        if self.checkpoint_due():
            header = {"digest": progress.digest, "step": progress.step}
            if self.training.patience:
                header["dev_perplexity"] = self.perplexities[progress.step]
            checkpoints.save_tensors(self.folder.checkpoint(progress.step), self.learner.model.state_dict(), header)
        if self.reached(self.experiment.logging.save_every) or stopped:
            self.states.save(progress)
            if saved := sorted(step for step in self.perplexities if step <= best(self.perplexities)):
                # After the save, because a run that resumes from an older state may find another best step.
                self.delete_checkpoints(lambda step: step < saved[-self.training.averaged_checkpoints :][0])

    def delete_checkpoints(self, chosen: Callable[[int], bool]) -> None:
        """Delete the checkpoints of the chosen steps."""
        for path in self.folder.checkpoints.glob("*.safetensors"):
            if chosen(int(path.stem)):
                path.unlink()

    def circumstances(self) -> dict:
        """Describe this start: code, hardware and settings that affect its numbers."""
        learner = self.learner
        return {
            "step": self.progress.step,
            "started": provenance.now(),
            "commit": provenance.commit(),
            "model_code": provenance.model_code(),
            "hardware": provenance.hardware(self.world.device),
            "processes": self.world.size,
            "accumulation": learner.accumulation,
            "products": str(learner.dtype).removeprefix("torch."),
            "attention": "padded" if learner.capacity is None else "blocks",
            "compiled": learner.compiled is not None,
            "versions": provenance.versions(),
        } | ({"compiler_error": learner.compiler_error} if learner.compiler_error else {})

    def record(self, data_sha256: str, initial_sha256: str | None = None) -> None:
        """Write run.json, which marks a run as finished."""
        names = ("scale", "task", "experiment", "seed", "fidelity", "source", "target")
        last = self.progress.starts[-1]
        entries = {name: getattr(self.experiment, name) for name in names} | asdict(self.progress)
        entries |= {"steps": self.progress.step, "data_sha256": data_sha256}
        entries |= {"initial_sha256": initial_sha256} if initial_sha256 else {}
        entries |= {"planned_steps": self.training.steps} if self.progress.step < self.training.steps else {}
        if self.perplexities and (step := best(self.perplexities)) != self.progress.step:  # no later checkpoint is used
            entries |= {"dev_perplexity": self.perplexities[step], "dev_bleu": None}
        entries |= {"parameters": sum(parameter.numel() for parameter in self.learner.parameters)}
        entries |= {"commit": last["commit"], "hardware": last["hardware"], "finished": provenance.now()}
        write_json(self.folder.record, entries, indent=1)


@contextmanager
def _naming_step(where: str, states: States) -> Iterator[None]:
    """Add the step, its batch and the last saved state to all errors."""
    try:
        yield
    except Exception as error:
        last = next((str(path) for path in states.paths()), "none")
        raise TrainingError(f"{where}: {type(error).__name__}: {error}; last state: {last}") from error


def total_lengths(lengths: np.ndarray) -> Lengths:
    """Return the sums that determine the cost of a batch, for pairs of these lengths [2, pairs]."""
    source, target = lengths
    return Lengths(*(int(each.sum()) for each in (source, target, source**2, target**2, source * target)))
