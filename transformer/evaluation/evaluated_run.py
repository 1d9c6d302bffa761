"""A trained run that translates and predicts the dev set for an analysis."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from transformer.config.experiment import POSITIONS
from transformer.data.corpus import TOKEN, TokenArray
from transformer.evaluation.bleu import measure, paper_reference, paper_tokens, token_bleu
from transformer.evaluation.scores import describe
from transformer.evaluation.significance import bleu_draws, limits
from transformer.layout import Data, Run
from transformer.model.seq2seq import Seq2Seq
from transformer.storage.files import InputError, draw, read_pairs, require_file, sha256
from transformer.training.batches import ParallelText, plan_batches
from transformer.training.loss import perplexity
from transformer.translation.translator import Translator, open_translator


class _Predictions(NamedTuple):
    """Predictions of all target tokens from the preceding reference tokens: arrays [tokens]."""

    losses: np.ndarray  # -log p of the true token, in nats, unsmoothed
    confidence: np.ndarray  # p of the most probable token
    correct: np.ndarray  # 1 if the most probable token is the true token, else 0

    @property
    def perplexity(self) -> float:  # per subword, as in Table 3
        return perplexity(float(self.losses.mean()))


@dataclass(frozen=True)
class EvaluatedRun:
    """A trained run with its averaged weights, and sentence pairs of raw text."""

    folder: Run
    data: Data | None  # the encoded training text, if the analysis reads it
    header: dict[str, Any]  # `OfRun`, and the language
    translator: Translator
    sources: list[str]
    references: list[str]

    @cached_property
    def text(self) -> ParallelText:
        """Encode the pairs like a dev set: both sides end with EOS."""
        target = [self.translator.target.tokenize(line) for line in self.references]
        sides = self.translator.encode(self.sources), self.translator.vocabulary.encode(target)
        arrays = (TokenArray(np.concatenate(ids).astype(TOKEN), np.cumsum([0, *map(len, ids)])) for ids in sides)
        return ParallelText(*arrays)

    @torch.inference_mode()
    def predict(self, model: Seq2Seq | None = None) -> _Predictions:
        """Predict the target tokens of `text` in order (§3.1). model: replaces the run's model, in evaluation mode."""
        model, text = model or self.translator.model, self.text
        offsets, columns = text.target.offsets, np.empty((len(_Predictions._fields), len(text.target.ids)))
        for indices in plan_batches(0, 0, text.lengths, (POSITIONS, POSITIONS)):  # one long pair, or several
            batch = text.batch(indices, model.device)
            places = np.concatenate([np.arange(offsets[index], offsets[index + 1]) for index in indices])
            log_p = (model(batch.source, batch.target) @ model.output_weight().T).log_softmax(dim=1)
            best, loss = log_p.max(dim=1), F.nll_loss(log_p, batch.labels, reduction="none")
            found = torch.stack([loss, best.values.exp(), best.indices == batch.labels])
            columns[:, places] = found.cpu()
        return _Predictions(*columns)

    def score(self, translator: Translator | None = None, **search: float) -> dict[str, Any]:
        """Translate the sources, and return their `bleu`. translator, search: replace the run's own."""
        hypotheses = [best.text for best in (translator or self.translator).translate(self.sources, **search)]
        return self.bleu(hypotheses, self.references)

    def bleu(self, hypotheses: list[str], references: list[str]) -> dict[str, Any]:
        """Return the paper's BLEU of plain text in the target language, as in `Bleu`.

        Raises InputError if no reference has a word.
        """
        language = self.header["language"]
        words = hypotheses, references
        if self.translator.experiment.preprocessing.tokenizer != "given":
            words = paper_tokens(hypotheses, language), paper_reference(references, language)
        written, expected = (sum(len(line.split()) for line in side) for side in words)
        if not expected:
            raise InputError(f"BLEU: expected words in the references, found {len(references)} blank lines")
        resampled = bleu_draws(*words)
        low, high = limits(resampled)
        bleu = measure(token_bleu(), *words)["score"]
        return {"bleu": bleu, "low": low, "high": high, "draws": resampled, "length_ratio": written / expected}


def open_run(folder: Path, source: Path, target: Path, sentences: int, data: Path | None = None) -> EvaluatedRun:
    """Open the run and up to `sentences` pairs of the raw dev set `source` and `target`, chosen at equal distances.

    data: folder of the encoded training text. Pairs with a blank side are skipped. Raises InputError if the files
    differ in length, if the weights belong to another training, or if a pair exceeds the model's maximum length.
    """
    require_file(target)
    origin = describe(folder, None)
    numbered = enumerate(read_pairs(source, target), start=1)
    pairs = [(number, pair) for number, pair in numbered if all(map(str.strip, pair))]
    if not pairs:
        raise InputError(f"{source} and {target}: expected pairs of sentences, found blank lines")
    numbers, drawn = zip(*draw(pairs, len(pairs), sentences), strict=True)
    translator = open_translator(folder)
    header = {"run": origin, "language": translator.experiment.target, "sentences": len(drawn)}
    header |= {"target_sha256": sha256(target)}
    sides = map(list, zip(*drawn, strict=True))
    run = EvaluatedRun(Run(folder), None if data is None else Data(data), header, translator, *sides)
    for path, lengths, most in zip((source, target), run.text.lengths, (translator.longest, POSITIONS), strict=True):
        if (longest := lengths.max()) > most:
            line = numbers[lengths.argmax()]
            raise InputError(f"{path}, line {line}: expected up to {most} subwords, found {longest}")
    return run
