"""What a person and the tables see of a training: lines on the screen, metrics.jsonl, and TensorBoard's files."""

import json
import math
import time
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

import numpy as np
import torch

from transformer.common.files import replacing
from transformer.runtime.signals import say
from transformer.training.loss import perplexity
from transformer.training.tensorboard import Board


@dataclass(frozen=True)
class Update:
    """What one step was like. Its numbers may still be on their way from a GPU, and are there when `ready`."""

    where: str  # the step and its batch, for a person
    lengths: np.ndarray  # [2, pairs] tokens of the batch's pairs, source and target
    padding: int  # places without a token: in attention's grids, or with flash attention in what fills up a batch
    numbers: torch.Tensor  # [4]
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
        """Raises FloatingPointError where the loss or the gradients are not finite."""
        if not (math.isfinite(self.smoothed) and math.isfinite(self.gradient_norm)):
            loss = self.smoothed / self.lengths[1].sum()
            raise FloatingPointError(f"loss {loss:.4g}, gradient norm {self.gradient_norm:.4g}")


class Watch:
    """Logs a run every `log_every` steps, and its first step, which tells most about a beginner's mistake.

    Writes `folder`/metrics.jsonl, a line of JSON each time, and the same numbers to `folder`/tensorboard.
    """

    def __init__(self, run):
        """run: the training.Run that is watched; only its rank 0 writes."""
        self.run = run
        about = run.experiment
        self.name = f"{about.task} {about.experiment} seed {about.seed}"
        self.started, self.first = time.monotonic(), run.progress.step
        self.updates: list[Update] = []
        self.since = time.monotonic()
        self.writes = run.world.rank == 0
        if self.writes:
            self.cut_metrics()
            self.board = Board(run.folder / "tensorboard", self.first + 1)

    def cut_metrics(self) -> None:
        """Drop what an interrupted run logged after its last saved state: those steps are done again."""
        path = self.run.folder / "metrics.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        whole = (line for line in lines if line.endswith("\n"))  # a full disk leaves half a line
        with replacing(path) as file:
            file.writelines(line for line in whole if json.loads(line)["step"] <= self.first)

    def close(self) -> None:
        if self.writes:
            self.board.close()

    def due(self) -> bool:
        """Whether this step is logged."""
        step = self.run.progress.step
        return step % self.run.experiment.running.log_every == 0 or step in (1, self.run.training.steps)

    def step(self, updates: list[Update]) -> None:
        """Count the steps that are over, and log them where it is due."""
        self.updates += updates
        if self.due():
            if self.writes:
                self.log()
            self.updates, self.since = [], time.monotonic()

    def evaluated(self, seconds: float) -> None:
        """Write the dev scores of this step. The time that they took does not count in tokens per second."""
        progress = self.run.progress
        self.since += seconds
        scores = {"dev_perplexity": progress.dev_perplexity, "dev_bleu": progress.dev_bleu}
        if self.writes:
            self.write({name: score for name, score in scores.items() if score is not None})

    def log(self) -> None:
        """Means over the updates since the last line; losses are per target token."""
        run, progress = self.run, self.run.progress
        source, target = sum(update.lengths.sum(axis=1) for update in self.updates) / len(self.updates)
        padding = float(np.mean([update.padding for update in self.updates]))
        tokens = target * len(self.updates)
        smoothed = sum(update.smoothed for update in self.updates) / tokens
        plain = sum(update.plain for update in self.updates) / tokens
        speed = tokens / (time.monotonic() - self.since)
        self.write(
            {
                "epoch": progress.epoch,
                "smoothed_loss": smoothed,
                "perplexity": perplexity(plain),
                "rate": run.rate(progress.step),
                "gradient_norm": float(np.mean([update.gradient_norm for update in self.updates])),
                "batch_source_tokens": round(source, 1),
                "batch_target_tokens": round(target, 1),
                "batch_padding": round(padding, 1),
                "source_tokens": progress.source_tokens,
                "target_tokens": progress.target_tokens,
                "seconds": round(progress.seconds, 1),
                "target_tokens_per_second": round(speed),
            }
        )
        steps = run.training.steps
        left = (time.monotonic() - self.started) / (progress.step - self.first) * (steps - progress.step)
        dev = "" if progress.dev_perplexity is None else f"dev perplexity {progress.dev_perplexity:.2f}  "
        say(
            f"{self.name}  step {progress.step}/{steps}  loss {smoothed:.3f}  {dev}"
            f"batch {source:,.0f} + {target:,.0f} tokens, {padding:,.0f} padding  "
            f"{speed:,.0f} tokens/s  {timedelta(seconds=round(left))} left"
        )

    def write(self, entry: dict) -> None:
        """Append `entry`, with the step, to both logs."""
        step = self.run.progress.step
        with open(self.run.folder / "metrics.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step} | entry) + "\n")
        self.board.write(step, entry)
