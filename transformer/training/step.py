"""One step of training (§5.3): losses and gradients of a global batch, summed over the processes; then Adam.

Each process handles its pieces of the batch one after the other. With the same number of pieces, a batch gives the same
result up to rounding on any number of processes, because dropout depends only on (seed, step, piece).
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
from transformer.training.batches import ParallelText, fits, plan_batches
from transformer.training.distributed import World
from transformer.training.loss import batch_losses, compiled

logger = logging.getLogger(__name__)
# Minimum d_model for bfloat16 on a processor. With AMX, a step in bfloat16 took 1.5 times as long as in float32 at
# d_model 64, 0.9 times at 128 and 0.63 times at 256.
_WORTH_CONVERTING = 128
# Tokens. A processor's bfloat16 code is compiled for one shape, and its cache has a thousand shapes.
_CAPACITY_MULTIPLE = 128
_WORTH_COMPILING = 10**8  # minimum target tokens of a compiled training on a GPU, because compilation takes minutes
# Relative tolerances between the compiled and the eager step: of losses over _LOSS_TOKENS target tokens and of gradient
# norms. Another dropout mask changes them less (by 0.003 and 0.19). A wrong attention mask or a lost gradient changes
# them more.
_LOSS, _LOSS_TOKENS, _GRADIENT = 0.01, 4000, 0.9


def adam(model: nn.Module, training: Training) -> torch.optim.Adam:
    """Return Adam over all parameters. Its moments exist before the first step, so that a saved state can be loaded."""
    betas = (training.beta1, training.beta2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=betas, eps=training.epsilon, fused=True)
    for parameter in model.parameters():
        moments = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
        optimizer.state[parameter] = {"step": torch.zeros((), device=parameter.device)} | moments
    return optimizer


@dataclass(frozen=True)
class Update:
    """The numbers of one step. The copy from a GPU is asynchronous, and `read` waits for it."""

    where: str  # a description of the step and its batch
    lengths: np.ndarray  # [2, pairs] source and target tokens of the batch's pairs
    padding: int  # number of padding tokens in attention's grids or in a padded batch
    numbers: Tensor  # [4]
    ready: torch.cuda.Event | None

    @cached_property
    def read(self) -> list[float]:
        """Smoothed and plain loss over all target tokens, number of processes with a stop signal, gradient norm."""
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
    """A model, its Adam and its training data. `update` makes one step."""

    def __init__(
        self, experiment: Experiment, text: ParallelText, vocabulary: Subwords | None, world: World, memory: int
    ):
        """Build the untrained model. vocabulary: for positions "words". memory: this process's budget in bytes."""
        self.experiment, self.text, self.world = experiment, text, world
        self.budgets, self.longest = experiment.training.budgets, experiment.training.longest
        self.dtype = compute_dtype(world.device, experiment.model.d_model)
        self.multiple = _CAPACITY_MULTIPLE if self.dtype == torch.bfloat16 and world.device.type == "cpu" else 1
        torch.manual_seed(experiment.seed)
        self.model = build(experiment.model).to(world.device)
        if self.model.new_word is not None:
            self.model.new_word.copy_(torch.tensor(vocabulary.new_word(experiment.model.embedding_rows)))
        if initial := experiment.training.initial_weights:
            self.model.load_state_dict(load_model(initial, experiment.model).state_dict())
        self.adam = adam(self.model, experiment.training)
        # All gradients are one tensor, for a single all_reduce. Three numbers at its end are the smoothed loss, the
        # plain loss and the number of processes to stop. Each parameter's `grad` is a view of this tensor.
        self.parameters = list(self.model.parameters())
        sizes = [parameter.numel() for parameter in self.parameters]
        self.gradients = torch.zeros(sum(sizes) + 3, device=world.device)
        *parts, self.sums = self.gradients.split([*sizes, 3])
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)
        self.accumulation = max(world.gather(self.accumulations(memory)))  # equal in all processes
        for norm in batch_norms(self.model):
            norm.all_reduce = world.all_reduce
        self.capacity: tuple[int, int] | None = None  # source and target tokens of a padded piece
        self.compiled: Callable | None = None
        self.compiler_error: str | None = None
        large = experiment.training.steps * experiment.training.target_tokens >= _WORTH_COMPILING
        if large and self.model.fits_blocks(world.device, self.dtype):
            self.compile()

    def compile(self) -> None:
        """Compile the step with attention in blocks. If it fails or is wrong in any process, all stay eager."""
        epoch, fault = self.batches_of(0), None
        piece = epoch[0][:: self.world.size * self.accumulation]
        expected = self.measured(piece)
        self.compiled, self.capacity = compiled(), self.largest_piece(epoch)
        try:
            found = self.measured(piece)
        except Exception as error:  # Dynamo, Inductor, Triton and the C compiler have many types of errors
            if isinstance(error, torch.AcceleratorError) or out_of_memory(error):
                raise
            fault = origin(error)
        else:
            loss = _LOSS * max(1.0, math.sqrt(_LOSS_TOKENS / self.text.lengths[1, piece].sum()))
            names = ["smoothed loss", "plain loss", *(f"gradient of {n}" for n, _ in self.model.named_parameters())]
            tolerances = np.array([loss, loss, *[_GRADIENT] * len(self.parameters)])
            far = np.flatnonzero(~np.isclose(found, expected, rtol=tolerances, atol=0))
            # Without residual connections most gradients are rounding errors, so only the losses count.
            if far.size and (far[0] < 2 or self.experiment.model.residual):
                name, about, other = names[far[0]], expected[far[0]], found[far[0]]
                fault = f"{name}: expected about {about:.4g} (the uncompiled result), found {other:.4g}"
        found = [f"process {rank}: {error}" for rank, error in enumerate(self.world.gather(fault)) if error]
        if found:
            self.compiled, self.capacity, self.compiler_error = None, None, found[0]
            if self.world.rank == 0:
                logger.warning("the training step is not compiled, so the training takes longer: %s", found[0])

    def measured(self, indices: np.ndarray) -> list[float]:
        """Return the sums of both losses over these pairs, and the norm of each parameter's gradient."""
        losses = self.losses(indices)
        norms = torch._foreach_norm(torch.autograd.grad(losses[0], self.parameters))
        return torch.stack([*losses, *norms]).tolist()

    def batches_of(self, epoch: int) -> list[np.ndarray]:
        return plan_batches(self.experiment.seed, epoch, self.text.lengths, self.budgets, self.longest)

    def update(self, where: str, indices: np.ndarray, step: int, stopping: bool) -> Update:
        """Make one step on the batch of these pairs. step: counts from 1. stopping: this process got a stop signal.

        Every process gets the sum of all pieces' gradients, divided by the target tokens of the whole batch.
        """
        lengths = self.text.lengths[:, indices]
        parts = self.world.size * self.accumulation
        pieces = range(self.world.rank, min(parts, len(indices)), self.world.size)
        (self.sums if pieces else self.gradients).zero_()  # the first piece overwrites old gradients
        self.sums[2] = stopping
        for piece in pieces:
            seed = np.random.SeedSequence((self.experiment.seed, step, piece)).generate_state(1)
            torch.manual_seed(int(seed[0]))  # a processor's generator uses only 32 bits
            losses = self.losses(indices[piece::parts])
            gradients = torch.autograd.grad(losses[0] / int(lengths[1].sum()), self.parameters)
            write = torch._foreach_copy_ if piece == self.world.rank else torch._foreach_add_
            write([parameter.grad for parameter in self.parameters], gradients)
            self.sums[:2] += torch.stack(losses).detach()
        if len(pieces) * self.world.size < min(parts, len(indices)):
            take_part(self.model)  # some processes have one more piece than this process
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
        """Return the number of pieces into which a process must split its part of a batch to fit `available` bytes."""
        longest = self.text.lengths.sum(axis=0) * fits(self.text.lengths, self.budgets, self.longest)
        pair = int(longest.argmax())
        # The cost of the pair's tokens is the difference between a batch with two copies and a batch with one copy.
        batches = [self.text.batch(np.full(n, pair), self.world.device) for n in (1, 2)]
        epsilon = self.experiment.training.epsilon_ls
        buffers = [(buffer, buffer.clone()) for buffer in self.model.buffers()]
        once, twice = (saved_bytes(partial(batch_losses, self.model, batch, epsilon, self.dtype)) for batch in batches)
        for buffer, before in buffers:  # these passes must not change the statistics of batch normalisation
            buffer.copy_(before)
        model = sum(parameter.numel() for parameter in self.parameters) * PER_PARAMETER[self.world.device.type]
        return pieces(available, model, (twice - once) / longest[pair], sum(self.budgets) / self.world.size)

    def largest_piece(self, batches: list[np.ndarray]) -> tuple[int, int]:
        """Return the source and target tokens of the largest piece of these batches."""
        parts, lengths = self.world.size * self.accumulation, self.text.lengths
        tokens = [lengths[:, batch[piece::parts]].sum(axis=1) for batch in batches for piece in range(parts)]
        return tuple(np.max(tokens, axis=0).tolist())


def compute_dtype(device: torch.device, d_model: int) -> torch.dtype:
    """Return the dtype of matrix products: bfloat16 if it is faster, else float32. Weights and Adam stay in float32."""
    if device.type == "cuda":
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    else:  # PyTorch has no public function for this; without these instructions bfloat16 is slower than float32
        fast = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        fast = fast and d_model >= _WORTH_CONVERTING
    return torch.bfloat16 if fast else torch.float32


def copied(numbers: Tensor) -> tuple[Tensor, torch.cuda.Event | None]:
    """Copy to the processor, asynchronously from a GPU. Also return the event that marks the end of the copy."""
    if not numbers.is_cuda:
        return numbers, None
    copy = torch.empty_like(numbers, device="cpu", pin_memory=True).copy_(numbers, non_blocking=True)
    return copy, torch.cuda.current_stream().record_event()


def _padding(lengths: np.ndarray, parts: int, capacity: tuple[int, int] | None, multiple: int) -> int:
    """Count the padding of all pieces. A compiled step pads each piece; an eager step pads within attention."""
    pieces = [lengths[:, piece::parts] for piece in range(min(parts, lengths.shape[1]))]
    if capacity is not None:
        return int(sum(padded_sizes(piece, capacity).sum() for piece in pieces) - lengths.sum())
    grids = sum((piece.max(axis=1) * piece.shape[1] + -piece.sum(axis=1) % multiple).sum() for piece in pieces)
    return int(grids - lengths.sum())
