"""The subject of an analysis: a trained run, and the sentences of the dev set that it is measured on."""

from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace

import numpy as np

from transformer.config.experiment import Experiment, load
from transformer.data.corpus import TOKEN, TokenArray
from transformer.device import best_device
from transformer.evaluation.analyses import Analysis
from transformer.evaluation.bleu import measure, paper_reference, paper_tokens, token_bleu
from transformer.evaluation.scores import describe
from transformer.evaluation.significance import bleu_draws, limits
from transformer.files import InputError, sha256
from transformer.layout import Run
from transformer.model.packed import POSITIONS
from transformer.model.weights import load_model
from transformer.text import draw, read_pairs
from transformer.training.batches import ParallelText
from transformer.translation.translator import Translator, open_translator


@dataclass(frozen=True)
class Subject:
    """A trained run with its average, and sentence pairs."""

    run: Run
    header: Analysis  # with the language, too
    experiment: Experiment
    translator: Translator
    sources: list[str]  # raw text
    references: list[str]

    @cached_property
    def text(self) -> ParallelText:
        """Return the pairs as token ids, both sides ending in EOS, as the dev set of a training is encoded."""
        target = [self.translator.target.tokenize(line) for line in self.references]
        return ParallelText(
            token_array(self.translator.encode(self.sources)), token_array(self.translator.vocabulary.encode(target))
        )

    def score(self, translator: Translator) -> dict:
        """Translate the sources and score them with `bleu_of`."""
        return bleu_of(translator.translate(self.sources), self.references, self.experiment.target)


def open_subject(input: SimpleNamespace, params: SimpleNamespace) -> Subject:
    """Open the run and at most `sentences` pairs of the raw dev set, drawn from it at equal distances.

    input: `source` and `target`, the dev set. params: `run`, a folder; `sentences`. Raises InputError if the two files
    differ in length, if the weights are another training's, and on a pair that the model has too few positions for.
    """
    run = Run(params.run)
    origin = describe(run.folder, None)
    pairs = list(enumerate(read_pairs(input.source, input.target), start=1))
    numbers, drawn = zip(*draw(pairs, len(pairs), params.sentences), strict=True)
    experiment = load(run.experiment)
    model = load_model(run.average, experiment.model).to(best_device())
    header = {"run": origin, "language": experiment.target, "sentences": len(drawn)}
    header |= {"target_sha256": sha256(input.target)}
    translator = open_translator(run.folder, model, {})
    subject = Subject(run, header, experiment, translator, *map(list, zip(*drawn, strict=True)))
    for number, lengths in zip(numbers, subject.text.lengths.T, strict=True):
        for path, length, most in zip(
            (input.source, input.target), lengths, (translator.longest, POSITIONS), strict=True
        ):
            if length > most:
                raise InputError(f"{path}, line {number}: expected {most} subwords at most, found {length}")
    return subject


def token_array(sentences: list[list[int]]) -> TokenArray:
    """Return sentences of token ids as a corpus side in memory."""
    return TokenArray(np.concatenate(sentences).astype(TOKEN), np.cumsum([0, *map(len, sentences)]))


def bleu_of(hypotheses: list[str], references: list[str], language: str) -> dict:
    """Return the paper's BLEU of plain text, as in `analyses.Bleu`, and "length_ratio".

    Raises InputError if no reference has a word.
    """
    words = paper_tokens(hypotheses, language), paper_reference(references, language)
    written, expected = (sum(len(line.split()) for line in side) for side in words)
    if not expected:
        raise InputError(f"BLEU: expected words in the references, found {len(references)} blank lines")
    resampled = bleu_draws(*words)
    low, high = limits(resampled)
    bleu = measure(token_bleu(), *words)["score"]
    return {"bleu": bleu, "low": low, "high": high, "draws": resampled, "length_ratio": written / expected}
