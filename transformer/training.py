"""§5 Training: one process, resumable at any saved step.

Nothing random outlives a step: dropout draws from (seed, step), the batches from (seed, epoch). A run that was
interrupted and resumed therefore equals, bit for bit on a CPU, one that was not.
"""

import json
import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch

from transformer import checkpoints, provenance
from transformer.batches import Batch, ParallelText, fits, plan
from transformer.config import Experiment
from transformer.cost import Lengths, training_flops
from transformer.files import InputError, replacing
from transformer.loss import perplexity, smoothed_cross_entropy
from transformer.model import POSITIONS, Transformer, best_device
from transformer.optimizer import adam, learning_rate
from transformer.watch import Watch

STATES_KEPT = 2  # resume states: the newest, and one before it in case a disk damages the newest


@dataclass
class Progress:
    """How far a run has come; with the weights and Adam's moments, all that resuming needs."""

    digest: str
    step: int = 0
    epoch: int = 0
    position: int = 0  # batches of this epoch already trained on
    source_tokens: int = 0
    target_tokens: int = 0
    flops: float = 0.0
    seconds: float = 0.0
    dev_perplexity: float = math.nan
    starts: list[dict] = field(default_factory=list)  # when, where and with which code it was started, and resumed


class Run:
    """One training: `Run(...).train()` goes on from the newest state in `folder` to the last step.

    folder: holds state/{step}.safetensors, checkpoints/{step}.safetensors (the ones to be averaged) and metrics.jsonl.
    """

    def __init__(
        self, experiment: Experiment, text: ParallelText, dev: ParallelText, digest: str, folder: Path, commit: str
    ):
        self.experiment, self.training = experiment, experiment.training
        self.text, self.dev, self.folder = text, dev, folder
        self.device = best_device()
        self.dtype = product_dtype(self.device)
        torch.manual_seed(experiment.seed)
        self.model = Transformer(experiment.model).to(self.device)
        self.adam = adam(self.model, self.training)
        self.progress = Progress(digest)
        self.budgets = (self.training.source_tokens, self.training.target_tokens)
        self.metrics = folder / "metrics.jsonl"
        self.check_lengths()
        self.resume()
        if self.progress.step < self.training.steps:
            self.progress.starts.append(self.circumstances(commit))

    def train(self) -> Progress:
        """Train to the last step, saving on the way; returns at once where that was done before."""
        started, before = time.monotonic(), self.progress.seconds
        watch = Watch(self)
        for batch in self.batches():
            smoothed = self.update(batch)
            self.progress.seconds = before + time.monotonic() - started
            watch.step(batch, smoothed)
            self.keep()
        return self.progress

    def batches(self) -> Iterator[Batch]:
        """The batches that are still to be trained on, the plan's epochs one after the other."""
        progress = self.progress
        while progress.step < self.training.steps:
            batches = plan(self.experiment.seed, progress.epoch, self.text.lengths, self.budgets)
            for indices in batches[progress.position : progress.position + self.training.steps - progress.step]:
                yield self.text.batch(indices, self.device)
            if progress.position == len(batches):
                progress.epoch, progress.position = progress.epoch + 1, 0

    def check_lengths(self) -> None:
        """Say how many training pairs are too long to learn from; refuse a dev set that has such a pair."""
        limits = f"{POSITIONS} positions or a batch of {self.budgets} tokens"
        long = (~fits(self.text.lengths, self.budgets)).sum()
        if long:
            print(f"left out {long:,} of {len(self.text.source):,} training pairs: too long for {limits}", flush=True)
        if long == len(self.text.source):
            raise InputError(f"none of {long:,} training pairs fits {limits}")
        for index in np.flatnonzero(~fits(self.dev.lengths, self.budgets)):
            found = self.dev.lengths[:, index].tolist()
            raise InputError(f"dev pair {index + 1}: {found} tokens, too long for {limits}")

    def circumstances(self, commit: str) -> dict:
        """What this start's numbers depend on beside the experiment."""
        return {
            "step": self.progress.step,
            "started": provenance.now(),
            "commit": commit,
            "hardware": provenance.hardware(self.device),
            "products": str(self.dtype).removeprefix("torch."),
            "versions": provenance.versions(),
        }

    def update(self, batch: Batch) -> torch.Tensor:
        """One step of §5.3 on one batch. Returns (smoothed, plain) loss sums, [2]."""
        progress = self.progress
        progress.step += 1
        torch.manual_seed(step_seed(self.experiment.seed, progress.step))
        smoothed, plain = self.losses(batch)
        (smoothed / len(batch.labels)).backward()
        rate = learning_rate(progress.step, self.experiment.model.d_model, self.training.warmup_steps)
        for group in self.adam.param_groups:
            group["lr"] = rate
        self.adam.step()
        self.adam.zero_grad()
        progress.position += 1
        progress.source_tokens += len(batch.source.ids)
        progress.target_tokens += len(batch.labels)
        progress.flops += training_flops(self.experiment.model, lengths_of(batch))
        return torch.stack([smoothed.detach(), plain])

    def losses(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """(smoothed, plain): sums over the batch's target tokens (loss.py)."""
        with self.autocast():
            output = self.model(batch.source, batch.target)
        epsilon = self.training.epsilon_ls
        return smoothed_cross_entropy(output.float(), self.model.embedding.weight, batch.labels, epsilon, self.dtype)

    def autocast(self) -> AbstractContextManager:
        return torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32)

    @torch.no_grad()
    def perplexity(self) -> float:
        """Dev perplexity per subword: exp of the unsmoothed cross-entropy, base e (Table 3)."""
        self.model.eval()
        total = 0.0
        for indices in plan(0, 0, self.dev.lengths, self.budgets):
            total += self.losses(self.dev.batch(indices, self.device))[1].item()
        self.model.train()
        return perplexity(total / self.dev.lengths[1].sum())

    def keep(self) -> None:
        """Save whatever is due at this step: a checkpoint to be averaged, a resume state."""
        training, step = self.training, self.progress.step
        left = training.steps - step
        if left % training.checkpoint_every == 0 and left // training.checkpoint_every < training.averaged_checkpoints:
            about = {"digest": self.progress.digest, "step": step}
            checkpoints.save(self.folder / f"checkpoints/{step:08}.safetensors", self.model.state_dict(), about)
        if step % self.experiment.running.save_every == 0 or left == 0:
            self.save_state()

    def save_state(self) -> None:
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= checkpoints.adam_tensors(self.model, self.adam)
        if not all(tensor.isfinite().all() for tensor in tensors.values()):
            raise FloatingPointError(f"{self.folder}: weights not finite at step {self.progress.step}; not saved")
        checkpoints.save(self.folder / f"state/{self.progress.step:08}.safetensors", tensors, asdict(self.progress))
        for old in self.states()[STATES_KEPT:]:
            old.unlink()

    def states(self) -> list[Path]:
        """Resume states, newest first."""
        return sorted(self.folder.glob("state/*.safetensors"), reverse=True)

    def resume(self) -> None:
        """Take up the newest state that is whole, and cut the metrics back to it; say so."""
        for litter in self.folder.rglob(".*.part"):  # of a run that was killed while it wrote
            litter.unlink()
        for path in self.states():
            try:
                tensors, about = checkpoints.load(path)
            except InputError as error:
                print(f"skipped a resume state: {error}", flush=True)
                continue
            if about["digest"] != self.progress.digest:
                raise InputError(f"{path}: state of another experiment: {about['digest']}")
            if about.keys() != asdict(self.progress).keys():
                raise InputError(f"{path}: state of another version of this program; delete it to start anew")
            self.progress = Progress(**about)
            prefix = "model."
            weights = {n.removeprefix(prefix): tensor for n, tensor in tensors.items() if n.startswith(prefix)}
            self.model.load_state_dict(weights)
            checkpoints.restore_adam(self.model, self.adam, tensors)
            print(f"resumed from step {self.progress.step} ({path})", flush=True)
            break
        self.cut_metrics()

    def cut_metrics(self) -> None:
        """Drop what an interrupted run logged after its last saved state: those steps are done again."""
        lines = self.metrics.read_text().splitlines(keepends=True) if self.metrics.exists() else []
        whole = (line for line in lines if line.endswith("\n"))  # a full disk leaves half a line
        with replacing(self.metrics) as file:
            file.writelines(line for line in whole if json.loads(line)["step"] <= self.progress.step)


def product_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 for matrix products where the hardware multiplies it faster, else float32. Weights and Adam: float32."""
    if device.type == "cuda":
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    else:  # PyTorch has no public way to ask; without these instructions bfloat16 is slower than float32
        fast = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if fast else torch.float32


def step_seed(seed: int, step: int) -> int:
    """A seed of 32 bits, all that a processor's generator takes, for one step of one run."""
    return int(np.random.SeedSequence((seed, step)).generate_state(1)[0])


def lengths_of(batch: Batch) -> Lengths:
    """What the cost of a batch depends on."""
    source, target = (
        np.bincount(packed.slots.numpy(force=True) // packed.shape[1]) for packed in (batch.source, batch.target)
    )
    sums = (source, target, source**2, target**2, source * target)
    return Lengths(*(int(each.sum()) for each in sums))
