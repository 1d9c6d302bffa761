"""§5 Training: the same batches on any number of processes, resumable at any saved step.

Nothing random outlives a step: dropout draws from (seed, step, piece of the batch), the batches from (seed, epoch). A
run that was interrupted and resumed therefore equals, bit for bit on a CPU, one that was not; and one that cuts its
batches into as many pieces equals it up to rounding, however many processes share them.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from transformer.common import provenance
from transformer.common.files import InputError
from transformer.config.experiment import Experiment
from transformer.model import weights as checkpoints
from transformer.model.cost import Lengths, training_flops
from transformer.model.kernels import flashes
from transformer.model.packed import POSITIONS, sizes
from transformer.model.transformer import Transformer
from transformer.runtime import memory
from transformer.runtime.signals import Interrupted, StopSignals, say
from transformer.runtime.writer import Writer
from transformer.training.batches import Batch, ParallelText, fits, plan
from transformer.training.evaluation import Evaluation
from transformer.training.log import Update, Watch
from transformer.training.loss import batch_losses
from transformer.training.optimizer import adam, learning_rate
from transformer.training.states import Progress, States, adam_shapes

# On a processor with AMX a step in bfloat16 took 1.5 times that in float32 at d_model 64, 0.9 at 128, 0.63 at 256.
WORTH_CONVERTING = 128
GRAPHS = 64  # compiled at most: one for each L of either side, and some for batches of another size
GRAIN = 128  # tokens: a processor's code for bfloat16 products is made for one shape, and kept for a thousand of them
WORTH_COMPILING = 10**8  # target tokens of a training on a GPU: compiling takes minutes


class TrainingError(Exception):
    """What went wrong in a step, with the step and the batch; the saved states are intact."""


class Run:
    """One training: `Run(...).train(stop)` goes on from the newest state in `folder` to the last step.

    folder: holds state/{step}.safetensors, checkpoints/{step}.safetensors (the ones to be averaged) and metrics.jsonl.
    memory: bytes that this process may use, from which follows how often it accumulates gradients.
    """

    def __init__(
        self, experiment: Experiment, text: ParallelText, evaluation: Evaluation, digest: str, folder: Path, memory: int
    ):
        self.experiment, self.training = experiment, experiment.training
        self.text, self.evaluation, self.folder = text, evaluation, folder
        self.world, self.budgets = evaluation.world, evaluation.budgets
        self.dtype = product_dtype(self.world.device, experiment.model.d_model)
        self.grain = GRAIN if self.dtype == torch.bfloat16 and self.world.device.type == "cpu" else 1
        # A GPU is given its next step before the last one's numbers are looked at, so that it never waits.
        self.ahead = int(self.world.device.type == "cuda")
        self.flash = flashes(experiment.model, self.world.device, self.dtype)
        large = self.training.steps * self.training.target_tokens >= WORTH_COMPILING
        self.compiled = compiled() if self.flash and large else None
        self.check_lengths()
        torch.manual_seed(experiment.seed)
        self.model = Transformer(experiment.model).to(self.world.device)
        if self.model.embedding.new_word is not None:
            new_word = evaluation.vocabulary.new_word(experiment.model.embedding_rows)
            self.model.embedding.new_word.copy_(torch.tensor(new_word))
        self.adam = adam(self.model, self.training)
        self.gradients, self.sums = gradient_buffer(self.model)
        self.states, self.writer = States(folder / "state"), Writer()
        self.progress = self.resume(digest)
        self.accumulation = self.accumulations(memory)
        self.room = self.largest_piece()

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
        """What rank 0 finds on disk, given to all: weights, Adam's moments, and how far the run has come."""
        progress = None
        if self.world.rank == 0:
            for litter in self.folder.rglob(".*.part"):  # of a run that was killed while it wrote
                litter.unlink()
            progress = asdict(self.states.restore(self.model, self.adam, digest))
        progress = Progress(**self.world.agree(progress))
        if self.world.rank > 0 and progress.step > 0:
            blank = {name: torch.zeros(shape) for name, shape in adam_shapes(self.model).items()}
            checkpoints.restore_adam(self.model, self.adam, blank)
        with torch.no_grad():
            self.world.broadcast([*self.model.parameters(), *checkpoints.adam_tensors(self.model, self.adam).values()])
        return progress

    def accumulations(self, available: int) -> int:
        """Into how many pieces each process cuts its part of a batch. Memory is measured on the longest pair alone.

        Once and twice that pair: the difference is what its tokens cost, without what any batch costs.
        """
        longest = self.text.lengths.sum(axis=0) * fits(self.text.lengths, self.budgets)
        pair = int(longest.argmax())

        def losses(n: int) -> tuple[Tensor, Tensor]:
            batch = self.text.batch(np.full(n, pair), self.world.device)
            return batch_losses(self.model, batch, self.training.epsilon_ls, self.dtype)

        once, twice = (memory.saved_bytes(lambda n=n: losses(n)) for n in (1, 2))
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        tokens = sum(self.budgets) / self.world.size
        return memory.pieces(available, parameters, (twice - once) / longest[pair], tokens)

    def train(self, stop: StopSignals, commit: str) -> Progress:
        """Train to the last step, saving on the way; returns at once where that was done before.

        Raises Interrupted, with everything saved, when any process was asked to stop; TrainingError, naming step and
        batch, on whatever else ends it.
        """
        if self.progress.step < self.training.steps:
            self.progress.starts.append(self.circumstances(commit))
        started, before = time.monotonic(), self.progress.seconds
        under_way: deque[Update] = deque()
        with closing(Watch(self)) as watch, self.writer:
            for indices in self.batches():
                under_way.append(self.update(indices, stop))
                known = self.known(under_way, self.due(watch))
                stopped = any(update.stopped for update in known)
                if stopped:
                    known += self.known(under_way, True)
                with naming(known[-1].where if known else under_way[-1].where, self.states):
                    self.progress.seconds = before + time.monotonic() - started
                    self.writer.check()
                    self.evaluate(watch)
                    watch.step(known)
                    self.keep(stopped)
                if stopped and self.progress.step < self.training.steps:
                    # Nobody leaves before rank 0 has saved: torchrun would end it half-way.
                    heard = next(filter(None, self.world.gather(stop.received)))
                    raise Interrupted(f"{heard}: saved at step {self.progress.step}")
        return self.progress

    def known(self, under_way: deque[Update], everything: bool) -> list[Update]:
        """The steps that are over, or `everything`, waiting for it."""
        known = []
        while len(under_way) > (0 if everything else self.ahead):
            update = under_way.popleft()
            with naming(update.where, self.states):
                update.check()
            known.append(update)
        return known

    def due(self, watch: Watch) -> bool:
        """Whether something reads weights or numbers after this step."""
        return watch.due() or self.evaluation_due() or self.state_due() or self.checkpoint_due()

    def batches(self) -> Iterator[np.ndarray]:
        """The batches that are still to be trained on, the plan's epochs one after the other, as pairs' indices."""
        progress = self.progress
        while progress.step < self.training.steps:
            batches = plan(self.experiment.seed, progress.epoch, self.text.lengths, self.budgets)
            yield from batches[progress.position : progress.position + self.training.steps - progress.step]
            if progress.position == len(batches):
                progress.epoch, progress.position = progress.epoch + 1, 0

    def update(self, indices: np.ndarray, stop: StopSignals) -> Update:
        """One step of §5.3 on the batch of these pairs.

        Every process learns from its pieces, each the same number of pairs of the batch's lengths; the sum of their
        gradients, per target token of the whole batch, is everyone's.
        """
        progress, world = self.progress, self.world
        lengths = self.text.lengths[:, indices]
        parts = world.size * self.accumulation
        where = self.where(indices)
        with naming(where, self.states):
            self.gradients.zero_()
            self.sums[2] = bool(stop.received)
            for piece in range(world.rank, min(parts, len(indices)), world.size):
                torch.manual_seed(step_seed(self.experiment.seed, progress.step + 1, piece))
                losses = self.losses(indices[piece::parts])
                (losses[0] / int(lengths[1].sum())).backward()
                self.sums[:2] += torch.stack(losses).detach()
            world.sum(self.gradients)
            numbers = torch.cat([self.sums, self.gradients[: -len(self.sums)].norm()[None]])
            update = Update(where, lengths, padding(lengths, parts, self.room, self.grain), *on_its_way(numbers))
            self.descend()
            self.count(lengths)
        return update

    def largest_piece(self) -> tuple[int, int] | None:
        """Source and target tokens of the largest piece in the first epoch: flash attention's are filled up to it."""
        if not self.flash:
            return None
        parts = self.world.size * self.accumulation
        lengths = self.text.lengths
        batches = plan(self.experiment.seed, 0, lengths, self.budgets)
        tokens = [lengths[:, batch[piece::parts]].sum(axis=1) for batch in batches for piece in range(parts)]
        return tuple(np.max(tokens, axis=0).tolist())

    def losses(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """(smoothed, plain): sums over the target tokens of these pairs (loss.py)."""
        batch = self.text.batch(indices, self.world.device, self.room, self.grain)
        return (self.compiled or batch_losses)(self.model, batch, self.training.epsilon_ls, self.dtype)

    def descend(self) -> None:
        """Adam, at this step's rate."""
        for group in self.adam.param_groups:
            group["lr"] = self.rate(self.progress.step + 1)
        self.adam.step()

    def rate(self, step: int) -> float:
        """Adam's rate at `step`, which counts from 1."""
        return self.training.rate * learning_rate(step, self.experiment.model.d_model, self.training.warmup_steps)

    def count(self, lengths: np.ndarray) -> None:
        """One batch more is done, of these pairs' lengths [2, pairs]."""
        progress = self.progress
        progress.step += 1
        progress.position += 1
        progress.source_tokens += int(lengths[0].sum())
        progress.target_tokens += int(lengths[1].sum())
        progress.flops += training_flops(self.experiment.model, sums_of(lengths))

    def evaluation_due(self) -> bool:
        progress = self.progress
        return progress.step % self.experiment.running.evaluate_every == 0 or progress.step == self.training.steps

    def checkpoint_due(self) -> bool:
        """Whether the weights of this step are among those to be averaged."""
        training, left = self.training, self.training.steps - self.progress.step
        return (
            left % training.checkpoint_every == 0 and left // training.checkpoint_every < training.averaged_checkpoints
        )

    def state_due(self) -> bool:
        progress = self.progress
        return progress.step % self.experiment.running.save_every == 0 or progress.step == self.training.steps

    def evaluate(self, watch: Watch) -> None:
        """Dev perplexity, and BLEU where it is wanted, when they are due."""
        if not self.evaluation_due():
            return
        progress, evaluation, started = self.progress, self.evaluation, time.monotonic()
        progress.dev_perplexity = evaluation.perplexity(self.model, self.dtype)
        if evaluation.sentences:
            progress.dev_bleu = evaluation.bleu(self.model)
        watch.evaluated(time.monotonic() - started)

    def keep(self, stopped: bool) -> None:
        """Have saved what is due at this step: a checkpoint to be averaged, a resume state."""
        if self.world.rank > 0:
            return
        if self.checkpoint_due():
            about = {"digest": self.progress.digest, "step": self.progress.step}
            path = self.folder / f"checkpoints/{self.progress.step:08}.safetensors"
            self.writer.wait()  # else memory would hold what it writes, and this beside
            self.writer.do(checkpoints.save, path, checkpoints.snapshot(self.model.state_dict()), about)
        if self.state_due() or stopped:
            self.states.save(self.model, self.adam, self.progress, self.writer)
        if stopped or self.progress.step == self.training.steps:
            self.writer.wait()

    def where(self, indices: np.ndarray) -> str:
        """The next step and its batch, for a person who has to find out what is wrong with it."""
        progress, (source, target) = self.progress, self.text.lengths[:, indices].sum(axis=1)
        return (
            f"step {progress.step + 1} (epoch {progress.epoch}, batch {progress.position}: {source:,} source + "
            f"{target:,} target tokens in {len(indices):,} pairs, the longest of them pair {self.longest(indices) + 1})"
        )

    def longest(self, indices: np.ndarray) -> int:
        """The pair with most tokens, which a person will want to see first."""
        return int(indices[self.text.lengths[:, indices].sum(axis=0).argmax()])

    def circumstances(self, commit: str) -> dict:
        """What this start's numbers depend on beside the experiment."""
        return {
            "step": self.progress.step,
            "started": provenance.now(),
            "commit": commit,
            "hardware": provenance.hardware(self.world.device),
            "processes": self.world.size,
            "accumulation": self.accumulation,
            "products": str(self.dtype).removeprefix("torch."),
            "attention": "flash" if self.flash else "padded",
            "compiled": self.compiled is not None,
            "versions": provenance.versions(),
        }


@contextmanager
def naming(where: str, states: States) -> Iterator[None]:
    """Whatever goes wrong in a step is said with the step, its batch, and what is left to go on from."""
    try:
        yield
    except Exception as error:
        last = next((str(path) for path in states.paths()), "none")
        raise TrainingError(f"{where}: {type(error).__name__}: {error}; last state: {last}") from error


def compiled() -> Callable:
    """loss.batch_losses as one compiled graph; of a batch's shapes only the number of sentences may vary in it."""
    compute = torch.compile(batch_losses, fullgraph=True)

    def losses(model: Transformer, batch: Batch, epsilon: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        for side in (batch.source, batch.target):
            torch._dynamo.mark_dynamic(side.offsets, 0)
        with torch._dynamo.config.patch(automatic_dynamic_shapes=False, recompile_limit=GRAPHS):
            return compute(model, batch, epsilon, dtype)

    return losses


def on_its_way(numbers: Tensor) -> tuple[Tensor, torch.cuda.Event | None]:
    """These numbers in the processor's memory, and from when on they are there."""
    if not numbers.is_cuda:
        return numbers, None
    copy = torch.empty_like(numbers, device="cpu", pin_memory=True).copy_(numbers, non_blocking=True)
    ready = torch.cuda.Event()
    ready.record()
    return copy, ready


def gradient_buffer(model: Transformer) -> tuple[Tensor, Tensor]:
    """All gradients as one tensor, so that one sum serves all processes, and the three numbers at its end.

    Each parameter's `grad` becomes a view of it. The numbers travel with the gradients: the smoothed loss, the plain
    loss, and how many processes were asked to stop.
    """
    parameters = list(model.parameters())
    sizes = [parameter.numel() for parameter in parameters]
    buffer = torch.zeros(sum(sizes) + 3, device=parameters[0].device)
    *parts, numbers = buffer.split([*sizes, 3])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.grad = part.view_as(parameter)
    return buffer, numbers


def product_dtype(device: torch.device, d_model: int) -> torch.dtype:
    """bfloat16 for matrix products where it is faster, else float32. Weights and Adam: float32."""
    if device.type == "cuda":
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    else:  # PyTorch has no public way to ask; without these instructions bfloat16 is slower than float32
        fast = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        fast = fast and d_model >= WORTH_CONVERTING
    return torch.bfloat16 if fast else torch.float32


def step_seed(seed: int, step: int, piece: int) -> int:
    """A seed of 32 bits, all that a processor's generator takes, for one piece of one step's batch."""
    return int(np.random.SeedSequence((seed, step, piece)).generate_state(1)[0])


def sums_of(lengths: np.ndarray) -> Lengths:
    """What the cost of a batch depends on, of its pairs' lengths [2, pairs]."""
    source, target = lengths
    sums = (source, target, source**2, target**2, source * target)
    return Lengths(*(int(each.sum()) for each in sums))


def padding(lengths: np.ndarray, parts: int, room: tuple[int, int] | None, grain: int) -> int:
    """Places without a token, over all pieces: what fills them up, and the grids that attention alone works on."""
    pieces = [lengths[:, piece::parts] for piece in range(min(parts, lengths.shape[1]))]
    if room is not None:
        return int(sum(sizes(piece, room).sum() for piece in pieces) - lengths.sum())
    grids = sum((piece.max(axis=1) * piece.shape[1] + -piece.sum(axis=1) % grain).sum() for piece in pieces)
    return int(grids - lengths.sum())
