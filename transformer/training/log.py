"""The log of a training: lines on the screen, metrics.jsonl and TensorBoard's files."""

import json
import logging
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import numpy as np

from transformer.config.experiment import Experiment, rate
from transformer.layout import Run
from transformer.storage.files import InputError, naming, write
from transformer.storage.records import MetricsLine, lines_of, parse_json
from transformer.training.loss import perplexity
from transformer.training.states import Progress
from transformer.training.step import Update

logger = logging.getLogger(__name__)


class Logger:
    """The log of a run: an entry every `log_every` steps, and at step 1, which reveals most beginner's mistakes."""

    def __init__(self, experiment: Experiment, progress: Progress, folder: Run, writes: bool):
        """Open the log. progress: the run's progress, which the training updates. writes: true in one process only."""
        self.experiment, self.progress, self.writes = experiment, progress, writes
        self.path = folder.metrics
        self.first = progress.step
        self.updates: list[Update] = []
        self.started = self.since = time.monotonic()
        if writes:
            from tensorboardX.event_file_writer import EventsWriter
            from tensorboardX.proto.event_pb2 import Event, SessionLog

            # Entries after the last saved state are deleted, also in TensorBoard, because their steps are repeated.
            _keep_until(self.path, self.first)
            folder.tensorboard.mkdir(parents=True, exist_ok=True)
            # EventsWriter, because SummaryWriter waits forever for its thread after a full disk has ended the thread.
            self.board = EventsWriter(str(folder.tensorboard / "events"), f".{time.time_ns()}")
            start = SessionLog(status=SessionLog.START)
            self.board.write_event(Event(wall_time=time.time(), step=self.first + 1, session_log=start))

    def close(self) -> None:
        if self.writes:
            with suppress(OSError):  # the failed write has already reported a full disk
                self.board.close()

    def due(self) -> bool:
        step = self.progress.step
        return step % self.experiment.logging.log_every == 0 or step in (1, self.experiment.training.steps)

    def step(self, updates: list[Update]) -> None:
        """Write the means over the updates since the last entry, if due. Losses are per target token."""
        self.updates += updates
        if not self.due():
            return
        updates, progress, steps = self.updates, self.progress, self.experiment.training.steps
        source, target = sum(update.lengths.sum(axis=1) for update in updates) / len(updates)
        padding = float(np.mean([update.padding for update in updates]))
        tokens = target * len(updates)
        smoothed = sum(update.smoothed for update in updates) / tokens
        speed = tokens / (time.monotonic() - self.since)
        self.write(
            {
                "epoch": progress.epoch,
                "smoothed_loss": smoothed,
                "perplexity": perplexity(sum(update.plain for update in updates) / tokens),
                "rate": rate(self.experiment, progress.step),
                "gradient_norm": float(np.mean([update.gradient_norm for update in updates])),
                "batch_source_tokens": round(source, 1),
                "batch_target_tokens": round(target, 1),
                "batch_padding": round(padding, 1),
                "source_tokens": progress.source_tokens,
                "target_tokens": progress.target_tokens,
                "seconds": round(progress.seconds, 1),
                "target_tokens_per_second": round(speed),
            }
        )
        if self.writes:
            run = f"{self.experiment.task} {self.experiment.experiment} seed {self.experiment.seed}"
            left = (time.monotonic() - self.started) / (progress.step - self.first) * (steps - progress.step)
            dev = "" if progress.dev_perplexity is None else f"dev perplexity {progress.dev_perplexity:.2f}  "
            logger.info(
                f"{run}  step {progress.step}/{steps}  loss {smoothed:.3f}  {dev}"
                f"batch {source:,.0f} + {target:,.0f} tokens, {padding:,.0f} padding  "
                f"{speed:,.0f} tokens/s  {timedelta(seconds=round(left))} left"
            )
        self.updates, self.since = [], time.monotonic()

    def write(self, entry: dict[str, float]) -> None:
        """Append `entry` and the step to both logs."""
        if not self.writes:
            return
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.summary import scalar

        step = self.progress.step
        with naming(self.path), open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step} | entry) + "\n")
        for name, value in entry.items():
            self.board.write_event(Event(wall_time=time.time(), step=step, summary=scalar(name, value)))
        self.board.flush()


def _keep_until(path: Path, step: int) -> None:
    """Delete the entries after a step. Also delete damaged lines, with a warning for each."""
    lines = []
    for number, line in enumerate(lines_of(path) if path.exists() else (), start=1):
        try:
            if parse_json(line, MetricsLine, f"{path}, line {number}")["step"] <= step:
                lines.append(line.removesuffix(b"\n") + b"\n")
        except InputError as error:
            logger.warning("deleted a damaged line of the log: %s", error)
    write(path, b"".join(lines))
