"""Translation of raw text in one language to raw text in the other."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
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
_THREAD_SHARE = 500  # source tokens that are worth a thread of their own: a small model's mostly wait for Python's lock


class TooLong(InputError):
    """A line of a text with more subwords than the model has positions for."""


@dataclass(frozen=True)
class Translator:
    """A trained model, and the steps between it and plain text."""

    model: Transformer
    vocabulary: Subwords
    source: "Moses"
    target: "Moses"
    decoding: Decoding

    def translate(self, lines: list[str], before: int = 0) -> list[str]:
        """Return one translation per line, in order; a blank line stays blank. Raises TooLong, after `before` lines."""
        full = [index for index, line in enumerate(lines) if line.strip()]
        sentences = self.encode([lines[index] for index in full])
        for index, sentence in zip(full, sentences, strict=True):
            if len(sentence) > self.longest:
                line = f"line {before + index + 1}: {len(sentence)} subwords, at most {self.longest} can be translated"
                raise TooLong(line)
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
    decoding = Decoding.read(asdict(load(files.decoding, Decoding)) | changes, "decoding")
    vocabulary = Subwords(files.vocabulary).fitting(experiment.model.embedding_rows)
    if vocabulary.symbols:
        raise InputError(f"{run}: expected a translator, found a parser")
    source, target = (Moses(language, experiment.preparation) for language in (experiment.source, experiment.target))
    return Translator(model, vocabulary, source, target, decoding)


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

    Sentences of similar length are decoded together. No output is longer than the model has positions for.
    steer: restricts a decoder's tokens for the sentences of these indices. weights: the model's, if made before.
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

    threads = torch.get_num_threads()
    if device.type == "cuda":  # whose caches have CACHE_BLOCK places for the shortest sentence
        batches = by_length(sentences, decoding.batch_tokens * GPU, least=CACHE_BLOCK)
    else:
        tokens = sum(map(len, sentences))
        parts = max(1, min(threads, tokens // _THREAD_SHARE))
        batches = by_length(sentences, min(decoding.batch_tokens, math.ceil(tokens / parts)))
    several = device.type == "cpu" and min(threads, len(batches)) > 1  # batches at a time, each in one thread
    torch.set_num_threads(1 if several else threads)
    try:
        if several:
            with ThreadPoolExecutor(threads) as pool:
                found = list(pool.map(decode, batches))
        else:
            found = list(map(decode, batches))
    finally:
        torch.set_num_threads(threads)
    results: list[list[Scored]] = [[]] * len(sentences)
    for index, ranked in zip(chain.from_iterable(batches), chain.from_iterable(found), strict=True):
        results[index] = [([token for token in ids if token != EOS], score) for ids, score in ranked]
    return results


def by_length(sentences: list[list[int]], batch_tokens: int, least: int = 1) -> list[list[int]]:
    """Return indices of the sentences, longest first, in batches of at most `batch_tokens` padded tokens, or of one.

    least: the number of tokens that a shorter sentence counts as.
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(sentences)), key=lambda index: -len(sentences[index])):
        if batches and max(least, len(sentences[batches[-1][0]])) * (len(batches[-1]) + 1) <= batch_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches
