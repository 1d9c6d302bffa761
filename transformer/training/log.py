"""The log of a training: lines on the screen, metrics.jsonl, and TensorBoard's files."""

import json
import time
from datetime import timedelta
from pathlib import Path

import numpy as np

from transformer.config.experiment import Experiment
from transformer.files import naming
from transformer.runtime.signals import say
from transformer.training.loss import perplexity
from transformer.training.metrics import Entry, Line, keep_until
from transformer.training.optimizer import rate
from transformer.training.states import Progress
from transformer.training.step import Update


class Logger:
    """The log of a run: an entry every `log_every` steps, and at step 1, which tells most about a beginner's mistake.

    Writes `folder`/metrics.jsonl, a line of JSON each time, and the same numbers to `folder`/tensorboard.
    """

    def __init__(self, experiment: Experiment, progress: Progress, folder: Path, writes: bool):
        """Open the log. progress: the run's own, which goes on. writes: only one of the processes should."""
        self.experiment, self.progress, self.folder, self.writes = experiment, progress, folder, writes
        self.name = f"{experiment.task} {experiment.experiment} seed {experiment.seed}"
        self.first = progress.step
        self.updates: list[Update] = []
        self.started = self.since = time.monotonic()
        if writes:
            from transformer.training.tensorboard import Board  # tensorboardX, which the other processes do without

            # What an interrupted run logged after its last saved state goes: those steps are done again.
            keep_until(folder / "metrics.jsonl", self.first)
            self.board = Board(folder / "tensorboard", self.first + 1)

    def close(self) -> None:
        if self.writes:
            self.board.close()

    def due(self) -> bool:
        step = self.progress.step
        return step % self.experiment.running.log_every == 0 or step in (1, self.experiment.training.steps)

    def step(self, updates: list[Update]) -> None:
        """Count the steps that are over, and log them where that is due."""
        self.updates += updates
        if self.due():
            if self.writes:
                self.log()
            self.updates, self.since = [], time.monotonic()

    def evaluated(self, seconds: float) -> None:
        """Write the dev scores of this step. The time that they took does not count in tokens per second."""
        self.since += seconds
        scores = {"dev_perplexity": self.progress.dev_perplexity, "dev_bleu": self.progress.dev_bleu}
        if self.writes:
            self.write({name: score for name, score in scores.items() if score is not None})

    def log(self) -> None:
        """Write the means over the updates since the last entry; losses are per target token."""
        progress = self.progress
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
                "rate": rate(self.experiment, progress.step),
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
        steps = self.experiment.training.steps
        left = (time.monotonic() - self.started) / (progress.step - self.first) * (steps - progress.step)
        dev = "" if progress.dev_perplexity is None else f"dev perplexity {progress.dev_perplexity:.2f}  "
        say(
            f"{self.name}  step {progress.step}/{steps}  loss {smoothed:.3f}  {dev}"
            f"batch {source:,.0f} + {target:,.0f} tokens, {padding:,.0f} padding  "
            f"{speed:,.0f} tokens/s  {timedelta(seconds=round(left))} left"
        )

    def write(self, entry: Entry) -> None:
        """Append `entry`, with the step, to both logs."""
        step = self.progress.step
        path = self.folder / "metrics.jsonl"
        with naming(path), open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(Line(step=step, **entry)) + "\n")
        self.board.write(step, entry)
