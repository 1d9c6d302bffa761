"""Raw text in one language to raw text in the other."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from transformer.batches import pack
from transformer.config import EOS, Decoding
from transformer.files import InputError
from transformer.incremental import CachedDecoder
from transformer.model import POSITIONS, Transformer
from transformer.search import Decoder, beam_search
from transformer.subwords import Subwords
from transformer.tokenization import Moses


@dataclass(frozen=True)
class Translator:
    """A trained model with all that stands between it and plain text."""

    model: Transformer
    vocabulary: Subwords
    source: Moses
    target: Moses
    decoding: Decoding

    def translate(self, lines: list[str]) -> list[str]:
        """One translation per line, in order; a blank line stays blank. Raises InputError on too long a line."""
        full = [index for index, line in enumerate(lines) if line.strip()]
        sentences = self.vocabulary.encode([self.source.tokenize(lines[index]) for index in full])
        for index, sentence in zip(full, sentences, strict=True):
            if len(sentence) + self.decoding.extra_length > POSITIONS:
                most = POSITIONS - self.decoding.extra_length
                raise InputError(f"line {index + 1}: {len(sentence)} subwords, at most {most} can be translated")
        found = search(self.model, len(self.vocabulary), sentences, self.decoding)
        decoded = self.vocabulary.decode([ids for ids, _ in found])
        translations = [""] * len(lines)
        for index, words in zip(full, decoded, strict=True):
            translations[index] = self.target.detokenize(words)
        return translations


@torch.inference_mode()
def search(
    model: Transformer,
    vocabulary: int,
    sentences: list[list[int]],
    decoding: Decoding,
    steer: Callable[[Decoder, list[int]], Decoder] = lambda decoder, _: decoder,
) -> list[tuple[list[int], float]]:
    """Token ids to token ids below `vocabulary`, without EOS, and their score (search.py).

    Sentences of like length are decoded together. No output is longer than the model has positions for. steer: makes of
    a decoder for these sentences, given by their indices, one that allows less.
    """
    results: list[tuple[list[int], float]] = [([], 0.0)] * len(sentences)
    device = model.embedding.weight.device
    for batch in by_length(sentences, decoding.batch_tokens):
        source = pack([np.array(sentences[index]) for index in batch], device)
        # §6.1: input length + 50; EOS counts on both sides.
        lengths = torch.tensor([len(sentences[index]) for index in batch], device=device)
        decoder = steer(CachedDecoder(model, source, vocabulary), batch)
        limits = (lengths + decoding.extra_length).clamp(max=POSITIONS)
        found = beam_search(decoder, limits, decoding.beam, decoding.alpha)
        for index, (ids, score) in zip(batch, found, strict=True):
            results[index] = ([token for token in ids if token != EOS], score)
    return results


def by_length(sentences: list[list[int]], batch_tokens: int) -> list[list[int]]:
    """Indices of the sentences, longest first, in batches of at most `batch_tokens` padded tokens, one at least."""
    batches: list[list[int]] = []
    for index in sorted(range(len(sentences)), key=lambda index: -len(sentences[index])):
        if batches and len(sentences[batches[-1][0]]) * (len(batches[-1]) + 1) <= batch_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches
