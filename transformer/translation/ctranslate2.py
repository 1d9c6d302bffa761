"""Translating with CTranslate2, on the processor.

Weights, limits and ranking are this project's; the search is CTranslate2's own, and differs from search.py in three
things. It stops once PATIENCE times as many hypotheses have ended as the beam is wide, where ours goes on until none
alive can win. One ends only as one of the beam best continuations, where ours looks at twice as many; so a beam of one
is greedy there, and ours nearly. And probabilities are shared out among the tokens that may be written, ours among all
rows of the embedding.
"""

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from transformer.common.files import InputError
from transformer.config.experiment import EOS, PAD, Decoding, load
from transformer.data.subwords import Subwords
from transformer.model.packed import POSITIONS
from transformer.translation.conversion import ctranslate2, tokens
from transformer.translation.search import length_penalty

# CTranslate2's default is 1, which is faster by some percent; then a few short hypotheses may end the search before the
# best one. Of 500 sentences of the demo, its big model translates 9 otherwise than here with 1, and 3 with 1.5, 2 or 4;
# of 1,014 of Multi30k, a base model after 1,000 steps 8 and 6.
PATIENCE = 1.5


@dataclass(frozen=True)
class CTranslate2:
    """An exported model: `search` is what translation.search is for ours.

    source, target: the names of the token ids on each side. vocabulary: how many of them are subwords.
    """

    translator: Any  # ctranslate2.Translator
    source: list[str]
    target: list[str]
    vocabulary: int
    patience: float = PATIENCE

    def search(self, sentences: list[list[int]], decoding: Decoding) -> list[tuple[list[int], float]]:
        """Token ids to token ids, without EOS, and their score: log-probability over length penalty (search.py)."""
        limits = [min(len(sentence) + decoding.extra_length, POSITIONS) for sentence in sentences]
        found = self.hypotheses(sentences, max(limits, default=1), decoding)
        # A call has one limit. Where a hypothesis outgrew its sentence's own, that sentence is searched again with it.
        outgrown = [i for i, each in enumerate(found) if max(len(ids) for ids, _ in each) > limits[i]]
        for limit, group in groupby(sorted(outgrown, key=limits.__getitem__), key=limits.__getitem__):
            again = list(group)
            for i, each in zip(again, self.hypotheses([sentences[i] for i in again], limit, decoding), strict=True):
                found[i] = each
        best = [max(each, key=lambda hypothesis: (hypothesis[0][-1] == EOS, hypothesis[1])) for each in found]
        return [([token for token in ids if token != EOS], score) for ids, score in best]

    def hypotheses(
        self, sentences: list[list[int]], limit: int, decoding: Decoding
    ) -> list[list[tuple[list[int], float]]]:
        """Of each sentence several hypotheses, with the EOS of those that ended within the limit, and their scores."""
        found = self.translator.translate_batch(
            [[self.source[token] for token in sentence] for sentence in sentences],
            beam_size=decoding.beam,
            patience=self.patience,
            num_hypotheses=round(self.patience * decoding.beam) if decoding.beam > 1 else 1,
            length_penalty=decoding.alpha,
            suppress_sequences=[[self.target[token]] for token in self.never()],
            return_end_token=True,
            return_scores=True,
            max_input_length=0,
            min_decoding_length=0,
            max_decoding_length=limit,
            max_batch_size=decoding.batch_tokens,
            batch_type="tokens",
        )
        ids = {name: token for token, name in enumerate(self.target)}
        return [
            [
                ([ids[name] for name in names], rescored(score, len(names), decoding.alpha))
                for names, score in zip(each.hypotheses, each.scores, strict=True)
            ]
            for each in found
        ]

    def never(self) -> list[int]:
        """The tokens that may not be written."""
        return [PAD, *range(self.vocabulary, len(self.target))]


def open_ctranslate2(folder: Path, compute_type: str, threads: int) -> CTranslate2:
    """The model that an export left in `folder`. compute_type: "float32", "int8" or another that the processor can.

    Raises InputError where it cannot, and where there is no such model.
    """
    config, vocabulary = load(folder / "experiment.yaml").model, Subwords(folder / "vocabulary.model")
    library = ctranslate2()
    if not (folder / "model.bin").is_file():
        raise InputError(f"{folder / 'model.bin'}: no such file; `export --format ctranslate2` writes it")
    able = library.get_supported_compute_types("cpu")
    if compute_type not in able:
        raise InputError(f"compute type: expected one of {', '.join(sorted(able))}, found {compute_type!r}")
    try:
        translator = library.Translator(str(folder), compute_type=compute_type, inter_threads=threads, intra_threads=1)
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"{folder / 'model.bin'}: CTranslate2 cannot read it: {' '.join(str(error).split())}"
        ) from None
    names = (tokens(vocabulary, rows) for rows in (config.embedding_rows, config.output_rows))
    return CTranslate2(translator, *names, len(vocabulary))


def rescored(score: float, length: int, alpha: float) -> float:
    """From CTranslate2's penalty, length^alpha, to ours."""
    return score * length**alpha / length_penalty(length, alpha)
