"""One step of training (§5.3): losses and gradients of a global batch, summed over the processes; then Adam.

Every process learns from its pieces of the batch, one after the other. Cut into as many pieces, a batch gives the same
up to rounding on any number of processes: nothing random outlives a step, dropout draws from (seed, step, piece).
"""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor, nn

from transformer.config.experiment import Experiment, Training, rate
from transformer.data.corpus import Subwords
from transformer.device import PER_PARAMETER, pieces, saved_bytes
from transformer.model.architectures import build
from transformer.model.batch_norm import batch_norms, take_part
from transformer.model.packed import padded_sizes
from transformer.model.weights import load_model
from transformer.storage.files import origin, out_of_memory
from transformer.training.batches import ParallelText, batch_budgets, fits, longest_sentence, plan_batches
from transformer.training.distributed import World
from transformer.training.loss import batch_losses, compiled

logger = logging.getLogger(__name__)
# On a processor with AMX a step in bfloat16 took 1.5 times that in float32 at d_model 64, 0.9 at 128, 0.63 at 256.
_WORTH_CONVERTING = 128
# Tokens. A processor's bfloat16 code is compiled for one shape, and a thousand shapes are cached.
_CAPACITY_MULTIPLE = 128
_WORTH_COMPILING = 10**8  # target tokens of a training on a GPU: compiling takes minutes
# Relative tolerances between the compiled and the eager step, of losses over so many target tokens and of the norms of
# gradients: larger than between two dropout masks (0.003 and 0.19), smaller than by a wrong mask or a lost gradient.
_LOSS, _LOSS_TOKENS, _GRADIENT = 0.01, 4000, 0.9


def adam(model: nn.Module, training: Training) -> torch.optim.Adam:
    """Return Adam over all parameters. Its moments are there before the first step: a state on disk fits them."""
    betas = (training.beta1, training.beta2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=betas, eps=training.epsilon, fused=True)
    for parameter in model.parameters():
        moments = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
        optimizer.state[parameter] = {"step": torch.zeros((), device=parameter.device)} | moments
    return optimizer


@dataclass(frozen=True)
class Update:
    """The numbers of one step, an asynchronous copy from a GPU, which `read` waits for."""

    where: str  # the step and its batch, for a person
    lengths: np.ndarray  # [2, pairs] tokens of the batch's pairs, source and target
    padding: int  # in attention's grids or in a padded batch
    numbers: Tensor  # [4]
    ready: torch.cuda.Event | None

    @cached_property
    def read(self) -> list[float]:
        """Loss over all target tokens, smoothed and plain; number of processes to stop; the gradients' norm."""
        if self.ready is not None:
            self.ready.synchronize()
        return self.numbers.tolist()

    smoothed = property(lambda self: self.read[0])
    plain = property(lambda self: self.read[1])
    stopped = property(lambda self: self.read[2] > 0)
    gradient_norm = property(lambda self: self.read[3])

    def check(self) -> None:
        """Raise FloatingPointError if the loss or the gradients are not finite."""
        if not (math.isfinite(self.smoothed) and math.isfinite(self.gradient_norm)):
            loss = self.smoothed / self.lengths[1].sum()
            raise FloatingPointError(f"loss {loss:.4g}, gradient norm {self.gradient_norm:.4g}")


class Learner:
    """A model, its Adam, and its training text: `update` makes one step."""

    def __init__(
        self, experiment: Experiment, text: ParallelText, vocabulary: Subwords | None, world: World, memory: int
    ):
        """Build the untrained model. vocabulary: for positions "words". memory: bytes that this process may use."""
        self.experiment, self.text, self.world = experiment, text, world
        self.budgets, self.longest = batch_budgets(experiment.training), longest_sentence(experiment.training)
        self.dtype = compute_dtype(world.device, experiment.model.d_model)
        self.multiple = _CAPACITY_MULTIPLE if self.dtype == torch.bfloat16 and world.device.type == "cpu" else 1
        torch.manual_seed(experiment.seed)
        self.model = build(experiment.model).to(world.device)
        if self.model.new_word is not None:
            self.model.new_word.copy_(torch.tensor(vocabulary.new_word(experiment.model.embedding_rows)))
        if initial := experiment.training.initial_weights:
            self.model.load_state_dict(load_model(initial, experiment.model).state_dict())
        self.adam = adam(self.model, experiment.training)
        # All gradients are one tensor, for one sum over all processes, with three numbers at its end: smoothed loss,
        # plain loss, processes to stop. Each parameter's `grad` is a view of it.
        self.parameters = list(self.model.parameters())
        sizes = [parameter.numel() for parameter in self.parameters]
        self.gradients = torch.zeros(sum(sizes) + 3, device=world.device)
        *parts, self.sums = self.gradients.split([*sizes, 3])
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)
        self.accumulation = max(world.gather(self.accumulations(memory)))  # the same in all processes
        for norm in batch_norms(self.model):
            norm.all_reduce = world.all_reduce
        self.capacity: tuple[int, int] | None = None  # source and target tokens to which pieces are padded
        self.compiled: Callable | None = None
        self.compiler_error: str | None = None
        large = experiment.training.steps * experiment.training.target_tokens >= _WORTH_COMPILING
        if large and self.model.fits_blocks(world.device, self.dtype):
            self.compile()

    def compile(self) -> None:
        """Compile the step, with attention in blocks; if it fails or is wrong in any process, all train without it."""
        epoch, fault = self.batches_of(0), None
        piece = epoch[0][:: self.world.size * self.accumulation]
        expected = self.measured(piece)
        self.compiled, self.capacity = compiled(), self.largest_piece(epoch)
        try:
            found = self.measured(piece)
        except Exception as error:  # of Dynamo, Inductor, Triton or the C compiler, each with its own kinds
            if isinstance(error, torch.AcceleratorError) or out_of_memory(error):
                raise
            fault = origin(error)
        else:
            loss = _LOSS * max(1.0, math.sqrt(_LOSS_TOKENS / self.text.lengths[1, piece].sum()))
            names = ["smoothed loss", "plain loss", *(f"gradient of {n}" for n, _ in self.model.named_parameters())]
            parts = np.array([loss, loss, *[_GRADIENT] * len(self.parameters)])
            far = np.flatnonzero(~np.isclose(found, expected, rtol=parts, atol=0))
            # Without residuals most gradients are rounding.
            if far.size and (far[0] < 2 or self.experiment.model.residual):
                name, about, other = names[far[0]], expected[far[0]], found[far[0]]
                fault = f"{name}: expected about {about:.4g}, as uncompiled, found {other:.4g}"
        found = [f"process {rank}: {error}" for rank, error in enumerate(self.world.gather(fault)) if error]
        if found:
            self.compiled, self.capacity, self.compiler_error = None, None, found[0]
            if self.world.rank == 0:
                logger.warning("the step runs uncompiled, which takes longer: %s", found[0])

    def measured(self, indices: np.ndarray) -> list[float]:
        """Return both losses of these pairs, summed, and the norm of each parameter's gradient."""
        losses = self.losses(indices)
        norms = torch._foreach_norm(torch.autograd.grad(losses[0], self.parameters))
        return torch.stack([*losses, *norms]).tolist()

    def batches_of(self, epoch: int) -> list[np.ndarray]:
        return plan_batches(self.experiment.seed, epoch, self.text.lengths, self.budgets, self.longest)

    def update(self, where: str, indices: np.ndarray, step: int, stopping: bool) -> Update:
        """Learn from the batch of these pairs. `step` counts from 1; `stopping`: this process was asked to stop.

        Every process's gradient is the sum of those of all pieces, per target token of the whole batch.
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
            gradients = torch.autograd.grad(losses[0] / int(lengths[1].sum()), self.parameters)
            write = torch._foreach_copy_ if piece == self.world.rank else torch._foreach_add_
            write([parameter.grad for parameter in self.parameters], gradients)
            self.sums[:2] += torch.stack(losses).detach()
        if len(pieces) * self.world.size < min(parts, len(indices)):
            take_part(self.model)  # other processes have one more piece than this one
        self.world.all_reduce(self.gradients)
        numbers = torch.cat([self.sums, self.gradients[: -len(self.sums)].norm()[None]])
        update = Update(where, lengths, _padding(lengths, parts, self.capacity, self.multiple), *copied(numbers))
        for group in self.adam.param_groups:
            group["lr"] = rate(self.experiment, step)
        self.adam.step()
        return update

    def losses(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        batch = self.text.batch(indices, self.world.device, self.capacity, self.multiple)
        return (self.compiled or batch_losses)(self.model, batch, self.experiment.training.epsilon_ls, self.dtype)

    def accumulations(self, available: int) -> int:
        """Return the number of pieces of each process's part of a batch that fit into `available` bytes."""
        longest = self.text.lengths.sum(axis=0) * fits(self.text.lengths, self.budgets, self.longest)
        pair = int(longest.argmax())
        # The difference between a batch that has this pair twice and one that has it once is the cost of its tokens.
        batches = [self.text.batch(np.full(n, pair), self.world.device) for n in (1, 2)]
        epsilon = self.experiment.training.epsilon_ls
        buffers = [(buffer, buffer.clone()) for buffer in self.model.buffers()]
        once, twice = (saved_bytes(partial(batch_losses, self.model, batch, epsilon, self.dtype)) for batch in batches)
        for buffer, before in buffers:  # statistics of batch normalisation, which these passes must not change
            buffer.copy_(before)
        kept = sum(parameter.numel() for parameter in self.parameters) * PER_PARAMETER[self.world.device.type]
        return pieces(available, kept, (twice - once) / longest[pair], sum(self.budgets) / self.world.size)

    def largest_piece(self, batches: list[np.ndarray]) -> tuple[int, int]:
        """Return the source and target tokens of the largest piece of these batches."""
        parts, lengths = self.world.size * self.accumulation, self.text.lengths
        tokens = [lengths[:, batch[piece::parts]].sum(axis=1) for batch in batches for piece in range(parts)]
        return tuple(np.max(tokens, axis=0).tolist())


def compute_dtype(device: torch.device, d_model: int) -> torch.dtype:
    """Return bfloat16 for matrix products if it is faster, else float32. Weights and Adam stay in float32."""
    if device.type == "cuda":
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    else:  # PyTorch has no public way to ask; without these instructions bfloat16 is slower than float32
        fast = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        fast = fast and d_model >= _WORTH_CONVERTING
    return torch.bfloat16 if fast else torch.float32


def copied(numbers: Tensor) -> tuple[Tensor, torch.cuda.Event | None]:
    """Copy to the processor, asynchronously from a GPU; return also the event after which the copy is there."""
    if not numbers.is_cuda:
        return numbers, None
    copy = torch.empty_like(numbers, device="cpu", pin_memory=True).copy_(numbers, non_blocking=True)
    return copy, torch.cuda.current_stream().record_event()


def _padding(lengths: np.ndarray, parts: int, capacity: tuple[int, int] | None, multiple: int) -> int:
    """Count the padding of all pieces, in attention's grids or of compiled batches."""
    pieces = [lengths[:, piece::parts] for piece in range(min(parts, lengths.shape[1]))]
    if capacity is not None:
        return int(sum(padded_sizes(piece, capacity).sum() for piece in pieces) - lengths.sum())
    grids = sum((piece.max(axis=1) * piece.shape[1] + -piece.sum(axis=1) % multiple).sum() for piece in pieces)
    return int(grids - lengths.sum())
