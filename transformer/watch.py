"""What a person and the tables see of a training: lines on the screen, and metrics.jsonl."""

import json
import math
import time
from datetime import timedelta

import torch

from transformer.batches import Batch
from transformer.loss import perplexity
from transformer.optimizer import learning_rate


class Watch:
    """Logs a run: a line of metrics.jsonl and a line for the person who watches, every `log_every` steps."""

    def __init__(self, run):
        """run: the training.Run that is watched."""
        self.run = run
        self.name = f"{run.experiment.task} {run.experiment.experiment} seed {run.experiment.seed}"
        self.started, self.first = time.monotonic(), run.progress.step
        self.reset()

    def reset(self) -> None:
        self.losses, self.tokens, self.since = torch.zeros(2, device=self.run.device), 0, time.monotonic()

    def step(self, batch: Batch, losses: torch.Tensor) -> None:
        """Count one step; evaluate and log where it is due."""
        progress, running = self.run.progress, self.run.experiment.running
        self.losses += losses
        self.tokens += len(batch.labels)
        last = progress.step == self.run.training.steps
        if progress.step % running.evaluate_every == 0 or last:
            before = time.monotonic()
            progress.dev_perplexity = self.run.perplexity()
            self.since += time.monotonic() - before  # tokens per second are those of training
            self.write({"step": progress.step, "dev_perplexity": progress.dev_perplexity})
        if progress.step % running.log_every == 0 or last:
            self.log()
            self.reset()

    def log(self) -> None:
        progress, steps = self.run.progress, self.run.training.steps
        smoothed, plain = (self.losses / self.tokens).tolist()
        if not math.isfinite(smoothed):
            raise FloatingPointError(f"{self.name}: loss {smoothed} at step {progress.step}; the last state is intact")
        speed = self.tokens / (time.monotonic() - self.since)
        left = (time.monotonic() - self.started) / (progress.step - self.first) * (steps - progress.step)
        rate = learning_rate(progress.step, self.run.experiment.model.d_model, self.run.training.warmup_steps)
        self.write(
            {
                "step": progress.step,
                "epoch": progress.epoch,
                "smoothed_loss": smoothed,
                "perplexity": perplexity(plain),
                "rate": rate,
                "source_tokens": progress.source_tokens,
                "target_tokens": progress.target_tokens,
                "seconds": round(progress.seconds, 1),
                "target_tokens_per_second": round(speed),
            }
        )
        dev = "" if math.isnan(progress.dev_perplexity) else f"dev perplexity {progress.dev_perplexity:.2f}  "
        print(
            f"{self.name}  step {progress.step}/{steps}  loss {smoothed:.3f}  {dev}"
            f"{speed:,.0f} tokens/s  {timedelta(seconds=round(left))} left",
            flush=True,
        )

    def write(self, entry: dict) -> None:
        with open(self.run.metrics, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
