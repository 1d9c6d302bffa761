"""Dev scores of a model in training, and the log: lines on the screen, metrics.jsonl, and TensorBoard's files."""

import json
import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch

from transformer.config.experiment import POSITIONS, Decoding, Experiment, rate
from transformer.data.corpus import Subwords
from transformer.device import World
from transformer.layout import Run
from transformer.model.transformer import Transformer
from transformer.storage.files import InputError, naming, write
from transformer.storage.records import MetricsLine, lines_of, parse_json
from transformer.training.batches import ParallelText, plan_batches
from transformer.training.loss import batch_losses, perplexity
from transformer.training.states import Progress
from transformer.training.step import Update
from transformer.translation.translator import search

logger = logging.getLogger(__name__)
# The quickest search: it shows whether a model translates, and is in no table.
_BEAM_OF_ONE = Decoding(beam=1, alpha=0.0, extra_length=50, batch_tokens=4096)


@dataclass(frozen=True)
class Evaluation:
    """Metrics on `dev`. The processes divide the work, and each gets every answer."""

    dev: ParallelText
    vocabulary: Subwords | None  # for BLEU, and for positions "words"
    budgets: tuple[int, int]  # tokens in a batch, source and target
    sentences: int  # translated for BLEU, the first ones; 0 for no BLEU
    world: World
    language: str = "en"  # of the target, for BLEU

    @torch.no_grad()
    def perplexity(self, model: Transformer, dtype: torch.dtype) -> float:
        """Return the perplexity per subword: exp of the unsmoothed cross-entropy, base e."""
        total = torch.zeros((), dtype=torch.float64)
        model.eval()
        for indices in plan_batches(0, 0, self.dev.lengths, self.budgets)[self.world.rank :: self.world.size]:
            total += batch_losses(model, self.dev.batch(indices, self.world.device), 0.0, dtype)[1].item()
        model.train()
        return perplexity(self.world.sum(total.to(self.world.device)).item() / self.dev.lengths[1].sum())

    def bleu(self, model: Transformer) -> float:
        """Return BLEU with a beam of one on the vocabulary's tokens: to watch, not to compare with papers."""
        from transformer.evaluation.bleu import cut, multi_bleu  # loads sacrebleu and sacremoses: half a second

        chosen = np.flatnonzero(self.dev.lengths[0] <= POSITIONS - _BEAM_OF_ONE.extra_length)[: self.sentences]
        mine = chosen[self.world.rank :: self.world.size]
        model.eval()
        sources = [self.dev.source[index].tolist() for index in mine]
        translations = [ids for ((ids, _),) in search(model, len(self.vocabulary), sources, _BEAM_OF_ONE)]
        model.train()
        pairs = list(zip(translations, (self.dev.target[index].tolist() for index in mine), strict=True))
        all_pairs = [pair for part in self.world.gather(pairs) for pair in part]
        sides = (self.vocabulary.decode([pair[side] for pair in all_pairs]) for side in (0, 1))
        return multi_bleu(*(cut(side, self.language) for side in sides), "dev")["score"]


class Logger:
    """The log of a run: an entry every `log_every` steps, and at step 1, which shows most beginner's mistakes."""

    def __init__(self, experiment: Experiment, progress: Progress, folder: Run, writes: bool):
        """Open the log. progress: the run's own, which goes on. writes: only one of the processes should."""
        self.experiment, self.progress, self.writes = experiment, progress, writes
        self.path = folder.metrics
        self.first = progress.step
        self.updates: list[Update] = []
        self.started = self.since = time.monotonic()
        if writes:
            from tensorboardX.event_file_writer import EventsWriter
            from tensorboardX.proto.event_pb2 import Event, SessionLog

            # Entries after the last saved state go, also from TensorBoard: those steps are done again.
            _keep_until(self.path, self.first)
            folder.tensorboard.mkdir(parents=True, exist_ok=True)
            # Not by SummaryWriter, which waits for ever for its thread once a full disk has ended it.
            self.board = EventsWriter(str(folder.tensorboard / "events"), f".{time.time_ns()}")
            start = SessionLog(status=SessionLog.START)
            self.board.write_event(Event(wall_time=time.time(), step=self.first + 1, session_log=start))

    def close(self) -> None:
        if self.writes:
            with suppress(OSError):  # a full disk was reported by the write that met it
                self.board.close()

    def due(self) -> bool:
        step = self.progress.step
        return step % self.experiment.running.log_every == 0 or step in (1, self.experiment.training.steps)

    def step(self, updates: list[Update]) -> None:
        """Write, when due, the means over the updates since the last entry; losses are per target token."""
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
        """Append `entry`, with the step, to both logs."""
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
    """Drop the entries after a step, and damaged lines, with a warning for each."""
    kept = []
    for number, line in enumerate(lines_of(path) if path.exists() else (), start=1):
        try:
            if parse_json(line, MetricsLine, f"{path}, line {number}")["step"] <= step:
                kept.append(line.removesuffix(b"\n") + b"\n")
        except InputError as error:
            logger.warning("dropped a damaged line of the log: %s", error)
    write(path, b"".join(kept))
