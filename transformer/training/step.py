"""One step of training (§5.3): losses and gradients of a global batch, summed over the processes, then Adam.

Every process learns from its pieces of the batch, one after the other. Nothing random outlives a step: dropout draws
from (seed, step, piece of the batch).
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from transformer.config.experiment import Experiment
from transformer.data.subwords import Subwords
from transformer.model.attention import fits_blocks
from transformer.model.packed import sizes
from transformer.model.transformer import Transformer
from transformer.runtime import memory
from transformer.runtime.distributed import World
from transformer.runtime.signals import say
from transformer.training.batches import ParallelText, batch_budgets, fits, plan
from transformer.training.compiling import Losses, compiled, tried
from transformer.training.loss import batch_losses
from transformer.training.optimizer import adam, rate

# On a processor with AMX a step in bfloat16 took 1.5 times that in float32 at d_model 64, 0.9 at 128, 0.63 at 256.
WORTH_CONVERTING = 128
GRAIN = 128  # tokens: a processor's code for bfloat16 products is made for one shape, and kept for a thousand of them
WORTH_COMPILING = 10**8  # target tokens of a training on a GPU: compiling takes minutes


@dataclass(frozen=True)
class Update:
    """The numbers of one step. They may still be on their way from a GPU, and are there when `ready`."""

    where: str  # the step and its batch, for a person
    lengths: np.ndarray  # [2, pairs] tokens of the batch's pairs, source and target
    padding: int  # places without a token: in attention's grids, or in blocks in what fills up a batch
    numbers: Tensor  # [4]
    ready: torch.cuda.Event | None

    @cached_property
    def read(self) -> list[float]:
        """Loss over all target tokens, smoothed and plain; how many processes are to stop; the gradients' norm."""
        if self.ready is not None:
            self.ready.synchronize()
        return self.numbers.tolist()

    smoothed = property(lambda self: self.read[0])
    plain = property(lambda self: self.read[1])
    stopped = property(lambda self: self.read[2] > 0)
    gradient_norm = property(lambda self: self.read[3])

    def check(self) -> None:
        """Raise FloatingPointError where the loss or the gradients are not finite."""
        if not (math.isfinite(self.smoothed) and math.isfinite(self.gradient_norm)):
            loss = self.smoothed / self.lengths[1].sum()
            raise FloatingPointError(f"loss {loss:.4g}, gradient norm {self.gradient_norm:.4g}")


class Learner:
    """A model, its Adam, and the text that it learns from: `update` makes one step.

    memory: bytes that this process may use, from which follows how often it accumulates gradients.
    """

    def __init__(
        self, experiment: Experiment, text: ParallelText, vocabulary: Subwords | None, world: World, memory: int
    ):
        """Build the untrained model. vocabulary: needed for positions "words" alone."""
        self.experiment, self.text, self.world = experiment, text, world
        self.budgets = batch_budgets(experiment.training)
        self.dtype = product_dtype(world.device, experiment.model.d_model)
        self.grain = GRAIN if self.dtype == torch.bfloat16 and world.device.type == "cpu" else 1
        torch.manual_seed(experiment.seed)
        self.model = Transformer(experiment.model).to(world.device)
        if self.model.embedding.new_word is not None:
            new_word = vocabulary.new_word(experiment.model.embedding_rows)
            self.model.embedding.new_word.copy_(torch.tensor(new_word))
        self.adam = adam(self.model, experiment.training)
        self.gradients, self.sums = gradient_buffer(self.model)
        self.accumulation = max(world.gather(self.accumulations(memory)))  # the same in all processes
        self.room: tuple[int, int] | None = None  # source and target tokens to which pieces of batches are filled up
        self.compiled: Losses | None = None
        self.compiler_error: str | None = None
        large = experiment.training.steps * experiment.training.target_tokens >= WORTH_COMPILING
        if large and fits_blocks(experiment.model, world.device, self.dtype):
            self.compile()

    def compile(self) -> None:
        """Compile the step, with attention in blocks.

        Where that fails, or computes something else, in whichever process, all go on without, with padded attention,
        and remember why.
        """
        compute, room = compiled(), self.largest_piece()
        piece = self.batches_of(0)[0][:: self.world.size * self.accumulation]
        batches = [self.text.batch(piece, self.world.device, size, self.grain) for size in (room, None)]
        problem = tried(compute, self.model, *batches, self.experiment.training.epsilon_ls, self.dtype)
        found = [f"process {rank}: {error}" for rank, error in enumerate(self.world.gather(problem)) if error]
        self.compiler_error = found[0] if found else None
        self.compiled, self.room = (None, None) if found else (compute, room)
        if found and self.world.rank == 0:
            say(f"the step runs uncompiled, which takes longer: {found[0]}", error=True)

    def batches_of(self, epoch: int) -> list[np.ndarray]:
        """Return the batches of an epoch, as `plan` does; those of the first are kept, as several ask for them."""
        return self.first_epoch if epoch == 0 else self.planned(epoch)

    def planned(self, epoch: int) -> list[np.ndarray]:
        return plan(self.experiment.seed, epoch, self.text.lengths, self.budgets)

    @cached_property
    def first_epoch(self) -> list[np.ndarray]:
        return self.planned(0)

    def update(self, where: str, indices: np.ndarray, step: int, stopping: bool) -> Update:
        """Learn from the batch of these pairs. `step` counts from 1; `stopping`: this process was asked to stop.

        Each piece has the same number of pairs of the batch's lengths; the sum of the pieces' gradients, per target
        token of the whole batch, is every process's gradient.
        """
        lengths = self.text.lengths[:, indices]
        parts = self.world.size * self.accumulation
        pieces = range(self.world.rank, min(parts, len(indices)), self.world.size)
        (self.sums if pieces else self.gradients).zero_()  # a piece's gradients are written over the last step's
        self.sums[2] = stopping
        for piece in pieces:
            seed = np.random.SeedSequence((self.experiment.seed, step, piece)).generate_state(1)
            torch.manual_seed(int(seed[0]))  # 32 bits, all that a processor's generator takes
            losses = self.losses(indices[piece::parts])
            self.differentiate(losses[0] / int(lengths[1].sum()), first=piece == self.world.rank)
            self.sums[:2] += torch.stack(losses).detach()
        self.world.sum(self.gradients)
        numbers = torch.cat([self.sums, self.gradients[: -len(self.sums)].norm()[None]])
        update = Update(where, lengths, padding(lengths, parts, self.room, self.grain), *on_its_way(numbers))
        for group in self.adam.param_groups:
            group["lr"] = rate(self.experiment, step)
        self.adam.step()
        return update

    def differentiate(self, loss: Tensor, first: bool) -> None:
        """Write the loss's gradients into the buffer, over the last step's, or add them to the first piece's."""
        parameters = list(self.model.parameters())
        gradients = torch.autograd.grad(loss, parameters)
        (torch._foreach_copy_ if first else torch._foreach_add_)([p.grad for p in parameters], gradients)

    def losses(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """Return (smoothed, plain): sums over the target tokens of these pairs (loss.py)."""
        batch = self.text.batch(indices, self.world.device, self.room, self.grain)
        return (self.compiled or batch_losses)(self.model, batch, self.experiment.training.epsilon_ls, self.dtype)

    def accumulations(self, available: int) -> int:
        """Return into how many pieces each process must cut its part of a batch, to fit into `available` bytes.

        Memory is measured on batches of the longest pair, of which one is twice the other: the difference is what
        its tokens cost, without what any batch costs.
        """
        longest = self.text.lengths.sum(axis=0) * fits(self.text.lengths, self.budgets)
        pair = int(longest.argmax())
        batches = [self.text.batch(np.full(n, pair), self.world.device) for n in (1, 2)]
        epsilon = self.experiment.training.epsilon_ls
        once, twice = (
            memory.saved_bytes(lambda batch=batch: batch_losses(self.model, batch, epsilon, self.dtype))
            for batch in batches
        )
        small, large = (len(batch.source.ids) + len(batch.target.ids) for batch in batches)
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        room_for = sum(self.budgets) / self.world.size
        each = memory.per_parameter(self.world.device)
        return memory.pieces(available, parameters * each, (twice - once) / (large - small), room_for)

    def largest_piece(self) -> tuple[int, int]:
        """Return the source and target tokens of the largest piece in the first epoch."""
        parts, lengths = self.world.size * self.accumulation, self.text.lengths
        tokens = [lengths[:, batch[piece::parts]].sum(axis=1) for batch in self.batches_of(0) for piece in range(parts)]
        return tuple(np.max(tokens, axis=0).tolist())


def product_dtype(device: torch.device, d_model: int) -> torch.dtype:
    """Return bfloat16 for matrix products where it is faster, else float32. Weights and Adam stay in float32."""
    if device.type == "cuda":
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    else:  # PyTorch has no public way to ask; without these instructions bfloat16 is slower than float32
        fast = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        fast = fast and d_model >= WORTH_CONVERTING
    return torch.bfloat16 if fast else torch.float32


def gradient_buffer(model: Transformer) -> tuple[Tensor, Tensor]:
    """Return all gradients as one tensor, so that one sum serves all processes, and the three numbers at its end.

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


def on_its_way(numbers: Tensor) -> tuple[Tensor, torch.cuda.Event | None]:
    """Return `numbers` in the processor's memory, and for a GPU's the event after which they are there."""
    if not numbers.is_cuda:
        return numbers, None
    copy = torch.empty_like(numbers, device="cpu", pin_memory=True).copy_(numbers, non_blocking=True)
    ready = torch.cuda.Event()
    ready.record()
    return copy, ready


def padding(lengths: np.ndarray, parts: int, room: tuple[int, int] | None, grain: int) -> int:
    """Count the places without a token in all pieces: what fills them up, and the gaps in attention's grids."""
    pieces = [lengths[:, piece::parts] for piece in range(min(parts, lengths.shape[1]))]
    if room is not None:
        return int(sum(sizes(piece, room).sum() for piece in pieces) - lengths.sum())
    grids = sum((piece.max(axis=1) * piece.shape[1] + -piece.sum(axis=1) % grain).sum() for piece in pieces)
    return int(grids - lengths.sum())
