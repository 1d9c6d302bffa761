"""Translation of raw text in one language to raw text in the other."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from msgspec.structs import asdict

from transformer.config.experiment import EOS, Decoding, load
from transformer.data.corpus import Subwords
from transformer.files import InputError
from transformer.layout import Run
from transformer.model.packed import POSITIONS, pack
from transformer.model.transformer import Transformer
from transformer.translation.decoder import CACHE_BLOCK, CachedDecoder, Weights
from transformer.translation.search import Decoder, Scored, beam_search

if TYPE_CHECKING:
    from transformer.data.tokenization import Moses  # loads sacremoses, half a second that a training would wait for

GPU = 8  # a GPU decodes this many times `batch_tokens` together: its step is bound by launching, not by rows
# With fewer weights in its softmax, a model's step is short. Threads then mostly wait for Python's lock,
# or for the last part of a product, above all on a machine that does other work.
LARGE = 2**22
_MEMORY_SHARE = 500  # source tokens that are worth a thread of their own all the same


class TooLong(InputError):
    """An error: the line `index` of a text has more subwords than the model has positions for."""

    def __init__(self, index: int, message: str):
        super().__init__(message)
        self.index = index


@dataclass(frozen=True)
class Translator:
    """A trained model, and the steps between it and plain text."""

    model: Transformer
    vocabulary: Subwords
    source: "Moses"
    target: "Moses"
    decoding: Decoding

    def translate(self, lines: list[str], before: int = 0) -> list[str]:
        """Return one translation per line, in order; a blank line stays blank. Raises TooLong.

        before: the number of lines before these, for that error.
        """
        sentences = self.encode([line for line in lines if line.strip()])
        full = [index for index, line in enumerate(lines) if line.strip()]
        for index, sentence in zip(full, sentences, strict=True):
            if len(sentence) > self.longest:
                line = f"line {before + index + 1}: {len(sentence)} subwords, at most {self.longest} can be translated"
                raise TooLong(index, line)
        texts = dict(zip(full, self.decode([ids for ((ids, _),) in self.search(sentences)]), strict=True))
        return [texts.get(index, "") for index in range(len(lines))]

    def encode(self, lines: list[str]) -> list[list[int]]:
        """Return plain sentences of the source language as token ids, each ending in EOS."""
        return self.vocabulary.encode([self.source.tokenize(line) for line in lines])

    def decode(self, sentences: list[list[int]]) -> list[str]:
        return [self.target.detokenize(words) for words in self.vocabulary.decode(sentences)]

    @property
    def longest(self) -> int:
        """Return the most tokens that a sentence may have, EOS included: a translation may be `extra_length` longer."""
        return POSITIONS - self.decoding.extra_length

    def search(self, sentences: list[list[int]], n: int = 1) -> list[list[Scored]]:
        return _search_n_best(self.model, len(self.vocabulary), sentences, self.decoding, weights=self.weights, n=n)

    @cached_property
    def weights(self) -> Weights:
        """The decoder's matrices, in the layout of single steps, for all calls."""
        return Weights(self.model)


def open_translator(run: Path, model: Transformer, changes: dict) -> Translator:
    """Return a translator with the `model`, the run folder's other files, and `changes` to its decoding."""
    from transformer.data.tokenization import Moses  # here, as above

    files = Run(run)
    experiment = load(files.experiment)
    decoding = asdict(load(files.decoding, Decoding)) | changes
    vocabulary = Subwords(files.vocabulary).fitting(experiment.model.embedding_rows)
    if vocabulary.symbols:
        raise InputError(f"{run}: expected a translator, found a parser")
    return Translator(
        model=model,
        vocabulary=vocabulary,
        source=Moses(experiment.source, experiment.preparation),
        target=Moses(experiment.target, experiment.preparation),
        decoding=Decoding.read(decoding, "decoding"),
    )


def search(*arguments: Any, **options: Any) -> list[Scored]:
    return [best for best, *_ in _search_n_best(*arguments, **options)]


def _search_n_best(
    model: Transformer,
    vocabulary: int,
    sentences: list[list[int]],
    decoding: Decoding,
    steer: Callable[[Decoder, list[int]], Decoder] = lambda decoder, _: decoder,
    weights: Weights | None = None,
    n: int = 1,
) -> list[list[Scored]]:
    """Return the n best translations of each sentence, best first: ids below `vocabulary`, without EOS.

    Sentences of similar length are decoded together. No output is longer than the model has positions for. steer:
    restricts the tokens of a decoder for the sentences of these indices. weights: the model's, if they were made
    before.
    """
    device, weights = model.embedding.weight.device, weights or Weights(model)

    @torch.inference_mode()
    def decode(batch: list[int]) -> list[list[Scored]]:
        source = pack([np.array(sentences[index]) for index in batch], device)
        # §6.1: input length + 50; EOS counts on both sides.
        lengths = torch.tensor([len(sentences[index]) for index in batch], device=device)
        limits = (lengths + decoding.extra_length).clamp(max=POSITIONS)
        decoder = steer(CachedDecoder(model, source, vocabulary, weights), batch)
        return beam_search(decoder, limits, decoding.beam, decoding.alpha, n)

    threads = torch.get_num_threads() if device.type == "cpu" else 1
    large, tokens = weights.output.numel() >= LARGE, sum(map(len, sentences))
    if device.type == "cuda":  # whose caches have BLOCK places for the shortest sentence
        batches = by_length(sentences, decoding.batch_tokens * GPU, least=CACHE_BLOCK)
    else:
        batches = by_length(sentences, min(decoding.batch_tokens, divided(tokens, threads, large)))
    results: list[list[Scored]] = [[([], 0.0)]] * len(sentences)
    found = _side_by_side(decode, batches, threads, threads if large else 1)
    for batch, translations in zip(batches, found, strict=True):
        for index, ranked in zip(batch, translations, strict=True):
            results[index] = [([token for token in ids if token != EOS], score) for ids, score in ranked]
    return results


def divided(tokens: int, threads: int, large: bool) -> int:
    """Return each thread's share of the tokens; in a small model, only as many threads work as have SHARE each."""
    parts = threads if large else max(1, min(threads, tokens // _MEMORY_SHARE))
    return -(-tokens // parts)


def _side_by_side(function: Callable, items: list, threads: int, alone: int) -> list:
    """Return `function` of each item, in order, several at a time, or a single one with PyTorch on `alone` threads."""
    several = min(threads, len(items)) > 1
    before = torch.get_num_threads()
    torch.set_num_threads(1 if several else alone)
    try:
        if not several:
            return list(map(function, items))
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(function, items))
    finally:
        torch.set_num_threads(before)


def by_length(sentences: list[list[int]], batch_tokens: int, least: int = 1) -> list[list[int]]:
    """Return indices of the sentences, longest first, in batches of at most `batch_tokens` padded tokens, or of one.

    least: the tokens that the shortest sentence counts as.
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(sentences)), key=lambda index: -len(sentences[index])):
        if batches and max(least, len(sentences[batches[-1][0]])) * (len(batches[-1]) + 1) <= batch_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches
