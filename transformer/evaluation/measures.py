"""The measures that probes have in common: BLEU of translations, and predictions under teacher forcing."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from transformer.config.experiment import Experiment, load
from transformer.data.corpus import TOKEN, TokenArray
from transformer.evaluation.bleu import measure, paper_reference, paper_tokens, token_bleu
from transformer.evaluation.significance import bleu_draws, draws, limits
from transformer.files import InputError
from transformer.model.packed import POSITIONS
from transformer.model.transformer import Transformer
from transformer.model.weights import load_model
from transformer.runtime.device import best_device
from transformer.text import draw, read_pairs
from transformer.training.batches import ParallelText, plan
from transformer.training.loss import CHUNK, CHUNK_CUDA
from transformer.training.loss import perplexity as perplexity_of
from transformer.translation.translator import Translator, open_translator

BATCH = 4 * POSITIONS  # tokens on a side that are decoded together under teacher forcing; changes speed only


@dataclass(frozen=True)
class Subject:
    """A trained run with its average, and the sentence pairs of the dev set that it is measured on."""

    run: Path
    experiment: Experiment
    translator: Translator
    sources: list[str]  # raw text
    references: list[str]

    @property
    def language(self) -> str:
        """Return the language of the references, for BLEU."""
        return self.experiment.target

    @cached_property
    def text(self) -> ParallelText:
        """Return the pairs as token ids, both sides ending in EOS, as the dev set of a training is encoded."""
        target = [self.translator.target.tokenize(line) for line in self.references]
        return ParallelText(
            token_array(self.translator.encode(self.sources)), token_array(self.translator.vocabulary.encode(target))
        )

    @cached_property
    def predictions(self) -> "Predictions":
        """Return what the average predicts of `text` (see `predict`)."""
        return predict(self.translator.model, self.text)

    def score(self, translator: Translator) -> dict:
        """Translate the sources, and return their scores as the function `score` does."""
        return score(translator.translate(self.sources), self.references, self.language)


def open_subject(run: Path, source: Path, target: Path, sentences: int) -> Subject:
    """Return the run, and at most `sentences` pairs of the raw dev set, drawn from it at equal distances.

    Raises InputError where the two files differ in length, and on a pair that the model has too few positions for.
    """
    pairs = list(enumerate(read_pairs(source, target), start=1))
    numbers, drawn = zip(*draw(pairs, len(pairs), sentences), strict=True)
    experiment = load(run / "experiment.yaml")
    model = load_model(run / "average.safetensors", experiment.model).to(best_device())
    subject = Subject(run, experiment, open_translator(run, model, {}), *map(list, zip(*drawn, strict=True)))
    most = np.array([subject.translator.longest, POSITIONS])
    for number, lengths in zip(numbers, subject.text.lengths.T, strict=True):
        for path, length, limit in zip((source, target), lengths, most, strict=True):
            if length > limit:
                raise InputError(f"{path}, line {number}: expected {limit} subwords at most, found {length}")
    return subject


def token_array(sentences: list[list[int]]) -> TokenArray:
    """Return sentences of token ids as a corpus side in memory."""
    return TokenArray(np.concatenate(sentences).astype(TOKEN), np.cumsum([0, *map(len, sentences)]))


def score(hypotheses: list[str], references: list[str], language: str) -> dict:
    """Return the paper's BLEU of plain text, and the lengths of the two sides (scoring/bleu.py, significance.py).

    "draws" are BLEU on resampled test sets, of which 95 % lie between "low" and "high". "length_ratio" is the number of
    words in the hypotheses over that in the references. Raises InputError where no reference has a word.
    """
    words = paper_tokens(hypotheses, language), paper_reference(references, language)
    written, expected = (sum(len(line.split()) for line in side) for side in words)
    if not expected:
        raise InputError(f"BLEU: expected words in the references, found {len(references)} blank lines")
    resampled = bleu_draws(*words)
    low, high = limits(resampled)
    bleu = measure(token_bleu(), *words)["score"]
    return {"bleu": bleu, "low": low, "high": high, "draws": resampled, "length_ratio": written / expected}


class Predictions(NamedTuple):
    """A model's predictions of all target tokens, each made from the true tokens before it: arrays [tokens]."""

    losses: np.ndarray  # -log p of the true token, in nats, unsmoothed
    confidence: np.ndarray  # p of the most probable token
    correct: np.ndarray  # 1 where that is the true token, 0 elsewhere

    @property
    def perplexity(self) -> float:
        """Return the perplexity per subword, as Table 3 has it."""
        return perplexity_of(float(self.losses.mean()))

    def perplexity_draws(self, offsets: np.ndarray) -> list[float]:
        """Return the perplexity on resampled test sets, of sentences that begin at `offsets` (significance.py)."""
        losses = np.add.reduceat(self.losses, offsets[:-1])
        return draws(np.stack([losses, np.diff(offsets)], axis=1), lambda sums: perplexity_of(sums[0] / sums[1]))


@torch.inference_mode()
def predict(model: Transformer, text: ParallelText) -> Predictions:
    """Return what a model in evaluation mode predicts of the tokens of `text.target`, in their order (§3.1).

    Sentence i has the entries from `text.target.offsets[i]` to `[i + 1]`.
    """
    device, offsets = model.embedding.weight.device, text.target.offsets
    columns = torch.empty(len(Predictions._fields), len(text.target.ids), dtype=torch.float64)
    for indices in plan(0, 0, text.lengths, (BATCH, BATCH)):
        batch = text.batch(indices, device)
        places = np.concatenate([np.arange(offsets[index], offsets[index + 1]) for index in indices])
        output = model(batch.source, batch.target)
        columns[:, places] = judged(output, model.output_weight(), batch.labels).double().cpu()
    return Predictions(*columns.numpy())


def judged(output: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    """Return the columns of `Predictions` for the decoder's output: [3, n]. Few of the [n, V] logits exist at once.

    output: [n, d_model]. weight: [V, d_model], of the softmax. labels: [n] the true tokens.
    """
    parts = []
    size = CHUNK_CUDA if output.is_cuda else CHUNK
    for x, label in zip(output.split(size), labels.split(size), strict=True):
        logits = x @ weight.T
        log_total = logits.logsumexp(dim=1)
        best = logits.max(dim=1)
        loss = log_total - logits.gather(1, label[:, None])[:, 0]
        parts.append(torch.stack([loss, (best.values - log_total).exp(), best.indices == label]))
    return torch.cat(parts, dim=1)
