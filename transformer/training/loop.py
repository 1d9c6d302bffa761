"""§5 Training: the same batches on any number of processes, resumable at any saved step.

Nothing random outlives a step (step.py), and the batches come from (seed, epoch). A run that was interrupted and
resumed therefore equals, bit for bit on a CPU, one that was not; and one that cuts its batches into as many pieces
equals it up to rounding, however many processes share them.
"""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np

from transformer import provenance
from transformer.config.experiment import Experiment
from transformer.data.subwords import Subwords
from transformer.files import InputError
from transformer.model import weights as checkpoints
from transformer.model.cost import Lengths, training_flops
from transformer.model.packed import POSITIONS
from transformer.runtime.distributed import World
from transformer.runtime.signals import Interrupted, StopSignals, say
from transformer.runtime.workers import background
from transformer.runtime.writer import Writer
from transformer.training.batches import ParallelText, batch_budgets, fits
from transformer.training.evaluation import Evaluation
from transformer.training.log import Logger
from transformer.training.states import Progress, States
from transformer.training.step import Learner, Update


class TrainingError(Exception):
    """An error in a step, with the step and the batch; the saved states are intact."""


class Run:
    """One training: `Run(...).train(stop)` goes on from the newest state in `folder` to the last step.

    folder: holds state/{step}.safetensors, checkpoints/{step}.safetensors (the ones to be averaged) and metrics.jsonl.
    memory: bytes that this process may use. vocabulary: needed for positions "words" alone.
    """

    def __init__(
        self,
        experiment: Experiment,
        text: ParallelText,
        evaluation: Evaluation,
        vocabulary: Subwords | None,
        world: World,
        digest: str,
        folder: Path,
        memory: int,
    ):
        self.experiment, self.training = experiment, experiment.training
        self.text, self.evaluation, self.world, self.folder = text, evaluation, world, folder
        self.budgets = batch_budgets(self.training)
        # A GPU is given its next step before the last one's numbers are looked at, so that it never waits.
        self.ahead = int(world.device.type == "cuda")
        self.check_lengths()
        self.learner = Learner(experiment, text, vocabulary, world, memory)
        self.states, self.writer = States(folder / "state", self.learner.model, self.learner.adam), Writer()
        self.progress = self.resume(digest)

    def check_lengths(self) -> None:
        """Say how many training pairs are too long to learn from; refuse a dev set that has such a pair."""
        limits = f"{POSITIONS} positions or a batch of {self.budgets} tokens"
        long = (~fits(self.text.lengths, self.budgets)).sum()
        if long == len(self.text.source):
            raise InputError(f"none of {long:,} training pairs fits {limits}")
        if long and self.world.rank == 0:
            say(f"left out {long:,} of {len(self.text.source):,} training pairs: too long for {limits}")
        dev = self.evaluation.dev.lengths
        for index in np.flatnonzero(~fits(dev, self.budgets)):
            raise InputError(f"dev pair {index + 1}: {dev[:, index].tolist()} tokens, too long for {limits}")

    def resume(self, digest: str) -> Progress:
        """Give all processes what rank 0 finds on disk: weights, Adam's moments, and how far the run has come."""
        progress = None
        if self.world.rank == 0:
            for litter in self.folder.rglob(".*.part"):  # of a run that was killed while it wrote
                litter.unlink()
            progress = asdict(self.states.restore(digest))
        self.world.broadcast(self.states.tensors.values())
        return Progress(**self.world.agree(progress))

    def train(self, stop: StopSignals, commit: str) -> Progress:
        """Train to the last step, saving on the way; return at once where that was done before.

        Raises Interrupted, with everything saved, when any process was asked to stop; TrainingError, naming step and
        batch, on whatever else ends it.
        """
        if self.progress.step < self.training.steps:
            self.progress.starts.append(self.circumstances(commit))
        started, before = time.monotonic(), self.progress.seconds
        under_way: deque[Update] = deque()
        logger = Logger(self.experiment, self.progress, self.folder, writes=self.world.rank == 0)
        with closing(logger), self.writer:
            for indices in self.batches():
                under_way.append(self.update(indices, stop))
                known = self.known(under_way, everything=logger.due() or self.due())
                stopped = any(update.stopped for update in known)
                if stopped:
                    known += self.known(under_way, everything=True)
                with naming(known[-1].where if known else under_way[-1].where, self.states):
                    self.progress.seconds = before + time.monotonic() - started
                    self.writer.check()
                    self.evaluate(logger)
                    logger.step(known)
                    self.keep(stopped)
                if stopped and self.progress.step < self.training.steps:
                    # Nobody leaves before rank 0 has saved: torchrun would end it half-way.
                    signal = next(filter(None, self.world.gather(stop.received)))
                    raise Interrupted(f"{signal}: saved at step {self.progress.step}")
        return self.progress

    def batches(self) -> Iterator[np.ndarray]:
        """Yield the batches that are still to be trained on, epoch after epoch, as pairs' indices."""
        progress = self.progress
        following = background(self.learner.batches_of, progress.epoch)
        while (left := self.training.steps - progress.step) > 0:
            batches = following.result()
            if len(batches) - progress.position < left:  # meanwhile: to plan millions of pairs takes seconds
                following = background(self.learner.batches_of, progress.epoch + 1)
            yield from batches[progress.position : progress.position + left]
            if progress.position == len(batches):
                progress.epoch, progress.position = progress.epoch + 1, 0

    def update(self, indices: np.ndarray, stop: StopSignals) -> Update:
        """Make one step on the batch of these pairs, and count it."""
        progress, where = self.progress, self.where(indices)
        with naming(where, self.states):
            update = self.learner.update(where, indices, progress.step + 1, stopping=bool(stop.received))
        progress.step += 1
        progress.position += 1
        progress.source_tokens += int(update.lengths[0].sum())
        progress.target_tokens += int(update.lengths[1].sum())
        progress.flops += training_flops(self.experiment.model, sums_of(update.lengths))
        return update

    def where(self, indices: np.ndarray) -> str:
        """Name the next step and its batch, for a person who has to find out what is wrong with it."""
        progress, lengths = self.progress, self.text.lengths[:, indices]
        source, target = lengths.sum(axis=1)
        longest = indices[lengths.sum(axis=0).argmax()] + 1
        return (
            f"step {progress.step + 1} (epoch {progress.epoch}, batch {progress.position}: {source:,} source + "
            f"{target:,} target tokens in {len(indices):,} pairs, the longest of them pair {longest})"
        )

    def known(self, under_way: deque[Update], everything: bool) -> list[Update]:
        """Take the steps that are over out of `under_way`; with `everything`, wait for them all."""
        known = []
        while len(under_way) > (0 if everything else self.ahead):
            update = under_way.popleft()
            with naming(update.where, self.states):
                update.check()
            known.append(update)
        return known

    def due(self) -> bool:
        """Return whether something reads the weights after this step."""
        running = self.experiment.running
        return self.reached(running.evaluate_every) or self.reached(running.save_every) or self.checkpoint_due()

    def reached(self, every: int) -> bool:
        """Return whether this step is one of those `every` so many steps, or the last."""
        return self.progress.step % every == 0 or self.progress.step == self.training.steps

    def checkpoint_due(self) -> bool:
        """Return whether the weights of this step are among those to be averaged."""
        every, left = self.training.checkpoint_every, self.training.steps - self.progress.step
        return left % every == 0 and left // every < self.training.averaged_checkpoints

    def evaluate(self, logger: Logger) -> None:
        """Measure dev perplexity, and BLEU where it is wanted, when they are due."""
        if not self.reached(self.experiment.running.evaluate_every):
            return
        learner, started = self.learner, time.monotonic()
        self.progress.dev_perplexity = self.evaluation.perplexity(learner.model, learner.dtype)
        if self.evaluation.sentences:
            self.progress.dev_bleu = self.evaluation.bleu(learner.model)
        logger.evaluated(time.monotonic() - started)

    def keep(self, stopped: bool) -> None:
        """Save what is due at this step: a checkpoint to be averaged, a resume state."""
        if self.world.rank > 0:
            return
        progress, weights = self.progress, self.learner.model.state_dict()
        if self.checkpoint_due():
            header = {"digest": progress.digest, "step": progress.step}
            path = self.folder / f"checkpoints/{progress.step:08}.safetensors"
            self.writer.wait()  # else memory would hold this beside what is still being written
            self.writer.do(checkpoints.save, path, checkpoints.snapshot(weights), header)
        if self.reached(self.experiment.running.save_every) or stopped:
            self.states.save(progress, self.writer)
        if stopped or progress.step == self.training.steps:
            self.writer.wait()

    def circumstances(self, commit: str) -> dict:
        """Return what this start's numbers depend on beside the experiment."""
        learner = self.learner
        return {
            "step": self.progress.step,
            "started": provenance.now(),
            "commit": commit,
            "hardware": provenance.hardware(self.world.device),
            "processes": self.world.size,
            "accumulation": learner.accumulation,
            "products": str(learner.dtype).removeprefix("torch."),
            "attention": "padded" if learner.room is None else "blocks",
            "compiled": learner.compiled is not None,
            "versions": provenance.versions(),
        } | ({"compiler_error": learner.compiler_error} if learner.compiler_error else {})


@contextmanager
def naming(where: str, states: States) -> Iterator[None]:
    """Name the step, its batch and the last saved state in whatever goes wrong."""
    try:
        yield
    except Exception as error:
        last = next((str(path) for path in states.paths()), "none")
        raise TrainingError(f"{where}: {type(error).__name__}: {error}; last state: {last}") from error


def sums_of(lengths: np.ndarray) -> Lengths:
    """Return the sums that the cost of a batch depends on, for pairs of these lengths [2, pairs]."""
    source, target = lengths
    sums = (source, target, source**2, target**2, source * target)
    return Lengths(*(int(each.sum()) for each in sums))
