"""§5 Training: the same batches on any number of processes, resumable at any saved step.

Dropout is drawn from seed and step (step.py), the batches from seed and epoch: bit for bit on a CPU, a resumed run
equals an uninterrupted one.
"""

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from functools import partial
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
from transformer.training.batches import ParallelText, batch_budgets, fits, longest_sentence, open_text
from transformer.training.distributed import World, joined, locked
from transformer.training.log import Logger
from transformer.training.states import Progress, States, best, continue_shorter, dev_perplexities, publish
from transformer.training.statistics import with_statistics
from transformer.training.step import Learner, Update
from transformer.training.validation import Evaluation

logger = logging.getLogger(__name__)


class TrainingError(Exception):
    """An error in a step, with the step and the batch; the saved states are intact."""


def train_and_publish(run: Run, data: Data, threads: int, memory: float | None, stop: StopSignals) -> None:
    """Train the rest of a run, together with other processes; rank 0 publishes it. memory: GiB; None: measured."""
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
        needed = experiment.model.norm == "batch"  # the text, for the average
        if world.broadcast_object(folder.record.exists()) and not (fault and needed):
            if world.rank == 0:
                logger.info("trained before: %s (to train again, delete it and run.json)", folder.folder)
                if fault:  # an error would have Snakemake delete what has been trained
                    logger.warning("%s; nothing will be learned from it", fault)
                require_sums(data.manifest, manifest["files"], [data.vocabulary])  # which is published again
        elif fault:
            raise InputError(fault)
        else:
            if world.device.type == "cuda":  # a resumed training finds its compiled step; the user's environment wins
                os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(run.compiled.resolve()))
                os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(threads))
            text, dev = (open_text(data, split) for split in ("train", "dev"))
            vocabulary = Subwords(data.vocabulary).fitting(experiment.model.embedding_rows)
            sentences = experiment.logging.bleu_sentences
            budgets = batch_budgets(experiment.training)
            evaluation = Evaluation(dev, vocabulary, budgets, sentences, world, experiment.target)
            available = available_memory(world.device, threads) if memory is None else int(min(memory, 10**6) * 2**30)
            training = TrainingRun(experiment, text, evaluation, digest, folder, available)
            training.train(stop, provenance.commit())
            if world.rank == 0:
                training.record(data_sha256, initial_sha256)
        if world.rank == 0:
            complete = partial(with_statistics, experiment=experiment, data=data, device=world.device)
            publish(run, folder, data.vocabulary, experiment.training.averaged_checkpoints, complete)


def _initial_sha256(experiment: Experiment, data: Data) -> str | None:
    """Return the checksum of the weights that a training begins with, if any. Refuses those of another vocabulary."""
    if not (initial := experiment.training.initial_weights):
        return None
    checksum, vocabulary = sha256(Path(initial)), Run(Path(initial).parent).vocabulary
    if not vocabulary.exists():
        raise InputError(f"initial_weights: {initial}: expected its {vocabulary.name} beside it, found none")
    if vocabulary.read_bytes() != data.vocabulary.read_bytes():
        raise InputError(f"initial_weights: {initial}: expected the vocabulary {data.vocabulary}, found {vocabulary}")
    return checksum


def _data_fault(data: Data, sums: dict[str, str], world: World) -> str | None:
    """Compare the data with data.json, each process a share of the files; return what is wrong, in all of them."""
    paths = [data.vocabulary, *data.arrays("train"), *data.arrays("dev")]
    largest_first = sorted(filter(Path.exists, paths), key=lambda path: -path.stat().st_size)
    try:
        found = require_sums(data.manifest, sums, largest_first[world.rank :: world.size])
    except InputError as error:
        found = str(error)
    return next(filter(None, world.gather(found)), None)


class TrainingRun:
    """One training: `TrainingRun(...).train(stop)` goes on from the newest state in `folder` to the last step."""

    def __init__(
        self, experiment: Experiment, text: ParallelText, evaluation: Evaluation, digest: str, folder: Run, memory: int
    ):
        self.experiment, self.training = experiment, experiment.training
        self.text, self.evaluation, self.world, self.folder = text, evaluation, evaluation.world, folder
        self.ahead = int(self.world.device.type == "cuda")
        budgets, dev = evaluation.budgets, evaluation.dev.lengths
        longest = longest_sentence(self.training)
        limits = f"positions or a batch of {budgets} tokens"
        long = (~fits(text.lengths, budgets, longest)).sum()
        if long == len(text.source):
            raise InputError(f"none of {long:,} training pairs fits {longest} {limits}")
        if long and self.world.rank == 0:
            logger.info(f"left out {long:,} of {len(text.source):,} training pairs: too long for {longest} {limits}")
        if self.training.warmup and self.training.warmup_steps > self.training.steps and self.world.rank == 0:
            peak = f"warmup_steps {self.training.warmup_steps:,}, steps {self.training.steps:,}"
            logger.warning(f"the learning rate never reaches its peak: {peak}")
        for index in np.flatnonzero(~fits(dev, budgets)):
            pair = f"dev pair {index + 1}: {dev[:, index].tolist()} tokens"
            raise InputError(f"{pair}, too long for {POSITIONS} {limits}")
        self.learner = Learner(experiment, text, evaluation.vocabulary, self.world, memory)
        self.states = States(folder, self.learner.model, self.learner.adam)
        progress = None
        if self.world.rank == 0:  # whose newest state all processes get
            for litter in folder.folder.rglob(".*.part"):  # of a run that was killed while it wrote
                litter.unlink()
            progress = asdict(self.states.restore(digest))
        self.world.broadcast(self.states.tensors.values())
        self.progress = Progress(**self.world.broadcast_object(progress))
        self.perplexities: dict[int, float] = {}  # by the steps of checkpoints, where they may end the training
        if self.training.patience:
            if self.world.rank == 0:
                self.forget(lambda step: step > self.progress.step)  # those steps are done again
            self.perplexities = self.world.broadcast_object(dev_perplexities(folder) if self.world.rank == 0 else {})

    def train(self, stop: StopSignals, commit: str) -> Progress:
        """Train to the last step, saving on the way.

        Raises Interrupted, with everything saved, when any process was asked to stop; TrainingError on other errors.
        """
        if not self.finished():
            self.progress.starts.append(self.circumstances(commit))
        started, before = time.monotonic(), self.progress.seconds
        log = Logger(self.experiment, self.progress, self.folder, writes=self.world.rank == 0)
        # A GPU is given its next step before the last one's numbers are looked at, so that it never waits.
        under_way: deque[Update] = deque()
        with closing(log):
            for indices in self.batches():
                under_way.append(self.update(indices, stop))
                known, stopped, due = [], False, log.due() or self.due()
                while len(under_way) > (0 if due or stopped else self.ahead):
                    known.append(under_way.popleft())
                    with _naming_step(known[-1].where, self.states):
                        known[-1].check()
                    stopped = stopped or known[-1].stopped
                with _naming_step((known or under_way)[-1].where, self.states):
                    self.progress.seconds = before + time.monotonic() - started
                    self.evaluate(log)
                    log.step(known)
                    self.save(stopped)
                if stopped and not self.finished():
                    # Nobody leaves before rank 0 has saved: torchrun would end it half-way.
                    signal = next(filter(None, self.world.gather(stop.received)))
                    raise Interrupted(f"{signal}: saved at step {self.progress.step}")
        return self.progress

    def batches(self) -> Iterator[np.ndarray]:
        """Yield the remaining batches, epoch after epoch, as pairs' indices."""
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
        """Make one step on the batch of these pairs, and count it."""
        progress, lengths = self.progress, self.text.lengths[:, indices]
        source, target = lengths.sum(axis=1).tolist()
        longest = indices[lengths.sum(axis=0).argmax()] + 1
        where = (
            f"step {progress.step + 1} (epoch {progress.epoch}, batch {progress.position}: {source:,} source + "
            f"{target:,} target tokens in {len(indices):,} pairs, the longest of them pair {longest})"
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
        """Tell whether anything reads the weights after this step."""
        running = self.experiment.logging
        return self.reached(running.evaluate_every) or self.reached(running.save_every) or self.checkpoint_due()

    def reached(self, every: int) -> bool:
        return self.progress.step % every == 0 or self.finished()

    def finished(self) -> bool:
        """Tell whether this is the last step, or the dev perplexity has not improved for long."""
        later = sum(step > best(self.perplexities) for step in self.perplexities)
        return self.progress.step == self.training.steps or 0 < (self.training.patience or 0) <= later

    def checkpoint_due(self) -> bool:
        """Tell whether the weights of this step are among those to be averaged, or with `patience` may be."""
        every, left = self.training.checkpoint_every, self.training.steps - self.progress.step
        among = self.training.patience or left // every < self.training.averaged_checkpoints
        return left % every == 0 and bool(among)

    def evaluate(self, log: Logger) -> None:
        """Compute dev perplexity, and BLEU if it is wanted, when they are due."""
        deciding = bool(self.training.patience) and self.checkpoint_due()
        if not (deciding or self.reached(self.experiment.logging.evaluate_every)):
            return
        learner, started = self.learner, time.monotonic()
        scores = {"dev_perplexity": self.evaluation.perplexity(learner.model, learner.dtype)}
        if deciding:
            self.perplexities[self.progress.step] = scores["dev_perplexity"]
        if self.evaluation.sentences and self.reached(self.experiment.logging.evaluate_every):
            scores["dev_bleu"] = self.evaluation.bleu(learner.model)
        self.progress.dev_perplexity, self.progress.dev_bleu = scores["dev_perplexity"], scores.get("dev_bleu")
        log.write(scores)
        log.since += time.monotonic() - started  # in tokens per second this time does not count

    def save(self, stopped: bool) -> None:
        """Save, if due at this step, a checkpoint to be averaged and a resume state."""
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
            if kept := sorted(step for step in self.perplexities if step <= best(self.perplexities)):
                # Not before: where a run goes on from an older state, another step may be the best.
                self.forget(lambda step: step < kept[-self.training.averaged_checkpoints :][0])

    def forget(self, gone: Callable[[int], bool]) -> None:
        """Delete the checkpoints of these steps."""
        for path in self.folder.checkpoints.glob("*.safetensors"):
            if gone(int(path.stem)):
                path.unlink()

    def circumstances(self, commit: str) -> dict:
        """Describe this start: the code, hardware and settings that its numbers depend on."""
        learner = self.learner
        return {
            "step": self.progress.step,
            "started": provenance.now(),
            "commit": commit,
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
        """Write run.json, with which a run is finished."""
        names = ("scale", "task", "experiment", "seed", "fidelity", "source", "target")
        last = self.progress.starts[-1]
        entries = {name: getattr(self.experiment, name) for name in names} | asdict(self.progress)
        entries |= {"steps": self.progress.step, "data_sha256": data_sha256}
        entries |= {"initial_sha256": initial_sha256} if initial_sha256 else {}
        entries |= {"planned_steps": self.training.steps} if self.progress.step < self.training.steps else {}
        if self.perplexities and (kept := best(self.perplexities)) != self.progress.step:  # those after it go
            entries |= {"dev_perplexity": self.perplexities[kept], "dev_bleu": None}
        entries |= {"parameters": sum(parameter.numel() for parameter in self.learner.parameters)}
        entries |= {"commit": last["commit"], "hardware": last["hardware"], "finished": provenance.now()}
        write_json(self.folder.record, entries, indent=1)


@contextmanager
def _naming_step(where: str, states: States) -> Iterator[None]:
    """Name the step, its batch and the last saved state in all errors."""
    try:
        yield
    except Exception as error:
        last = next((str(path) for path in states.paths()), "none")
        raise TrainingError(f"{where}: {type(error).__name__}: {error}; last state: {last}") from error


def total_lengths(lengths: np.ndarray) -> Lengths:
    """Return the sums that the cost of a batch depends on, for pairs of these lengths [2, pairs]."""
    source, target = lengths
    return Lengths(*(int(each.sum()) for each in (source, target, source**2, target**2, source * target)))
