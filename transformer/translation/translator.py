"""Interface of a trained model for raw text: translations, scores of translations, attention."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from transformer.config.experiment import EOS, PAD, POSITIONS, Decoding, Experiment, changed, load, verified_run
from transformer.data.corpus import Subwords, blank
from transformer.device import best_device
from transformer.layout import Run
from transformer.model.packed import pack
from transformer.model.seq2seq import Decoder, Decoders, Seq2Seq
from transformer.model.transformer import attention_weights
from transformer.model.weights import load_model
from transformer.storage.files import InputError
from transformer.translation.search import Scored, beam_search, length_penalty

if TYPE_CHECKING:  # it loads sacremoses, and a training would wait half a second for it
    from transformer.data.tokenization import Tokenizer

GPU = 8  # factor on `max_tokens` on a GPU, because kernel launches limit the speed of its steps, not the rows
_THREAD_SHARE = 150  # minimum source tokens per thread: a small model's threads mostly wait for Python's lock


class TooLong(InputError):
    """A text with more subwords than the model's positions."""

    def __init__(self, number: int, tokens: int, most: int):
        self.number, self.problem = number, f"expected up to {most} subwords, found {tokens}"
        super().__init__(f"text {number}: {self.problem}")


class Translation(NamedTuple):
    """The best translation of a beam search. `others` are the next best translations."""

    text: str
    score: float  # log-probability divided by the length penalty (§6.1)
    tokens: list[str]  # subwords; @@ marks a subword whose word continues
    ids: list[int]  # token ids
    others: Sequence["Translation"] = ()

    def ranked(self) -> list[dict[str, Any]]:
        """Return text, score and tokens of all translations for JSON, best first."""
        return [{"text": one.text, "score": one.score, "tokens": one.tokens} for one in (self, *self.others)]


class Score(NamedTuple):
    """The log-probability of each token of a translation (with EOS), given the source and the previous tokens."""

    tokens: list[str]
    log_probabilities: list[float]


class PairAttention(NamedTuple):
    """The weights of all heads for a sentence and its translation: arrays [layer, head, query, key] (§3.2.1).

    A decoder query belongs to the output token in `target`, and a decoder key to the input token in `shifted`.
    """

    source: list[str]
    target: list[str]
    shifted: list[str]
    encoder: np.ndarray  # source to source
    decoder: np.ndarray  # target to shifted
    cross: np.ndarray  # target to source


@dataclass(frozen=True, repr=False)
class Translator:
    """A trained model with the conversions between its ids and plain text."""

    model: Seq2Seq
    vocabulary: Subwords
    source: "Tokenizer"
    target: "Tokenizer"
    decoding: Decoding
    experiment: Experiment

    def translate(
        self, texts: list[str], *, beam_size: int | None = None, length_penalty: float | None = None, n_best: int = 1
    ) -> list[Translation]:
        """Translate raw sentences by beam search (§6.1). A blank sentence stays blank. Raises TooLong.

        beam_size, length_penalty: the default is the run's value. n_best: maximum number of translations per sentence.
        """
        if isinstance(texts, str):
            raise InputError(f"texts: expected a list of sentences, found a single text: {texts!r}")
        changes = {"beam_size": beam_size, "length_penalty": length_penalty}
        decoding = changed(self.decoding, {name: value for name, value in changes.items() if value is not None})
        if not 1 <= n_best <= decoding.beam_size:
            raise InputError(f"n_best: expected 1 to {decoding.beam_size} (the beam size), found {n_best}")
        words = list(map(self.source.tokenize, texts))
        full = [index for index, line in enumerate(words) if not blank(line)]
        sentences = self.vocabulary.encode([words[index] for index in full])
        _refuse_longer(sentences, [index + 1 for index in full], self.longest)
        results = [Translation("", 0.0, [], [])] * len(texts)
        for index, ranked in zip(full, self.search(sentences, n_best, decoding), strict=True):
            plain = self.decode([ids for ids, _ in ranked])
            named = [
                Translation(text, score, self.vocabulary.names(ids), ids)
                for text, (ids, score) in zip(plain, ranked, strict=True)
            ]
            results[index] = named[0]._replace(others=named[1:])
        return results

    def score(self, pairs: Sequence[tuple[str, str | Translation]]) -> list[Score]:
        """Return the log-probabilities of given translations of raw sentences. Raises TooLong."""
        sources = self.encode([source for source, _ in pairs])
        targets = [self._target_ids(target) for _, target in pairs]
        longest = [max(pair, key=len) for pair in zip(sources, targets, strict=True)]
        _refuse_longer(longest, range(1, len(pairs) + 1), POSITIONS)
        results = [Score([], [])] * len(pairs)
        for batch in by_length(longest, POSITIONS):
            losses = self._losses([sources[index] for index in batch], [targets[index] for index in batch])
            for index, of_sentence in zip(batch, losses, strict=True):
                results[index] = Score(self.vocabulary.names(targets[index]), [-loss for loss in of_sentence])
        return results

    @torch.inference_mode()
    def _losses(self, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
        """Return the negative log-probability of each target token, by the whole decoder."""
        device, labels = self.model.device, list(map(np.array, targets))
        shifted = [np.append(PAD, ids[:-1]) for ids in labels]
        outputs = self.model(pack(list(map(np.array, sources)), device), pack(shifted, device))
        logits, expected = outputs @ self.model.output_weight().T, torch.from_numpy(np.concatenate(labels))
        losses = F.cross_entropy(logits, expected.to(device), reduction="none").cpu()
        return [each.tolist() for each in losses.split(list(map(len, targets)))]

    def attention(self, source: str, target: str | Translation | None = None) -> PairAttention:
        """Return all heads' weights for a raw sentence and its translation. The default is the model's translation."""
        ids = self._target_ids(self.translate([source])[0] if target is None else target)
        (given,) = self.encode([source])
        weights = {kind: each.numpy() for kind, each in attention_weights(self.model, given, ids).items()}
        return PairAttention(*map(self.vocabulary.names, (given, ids, [PAD, *ids[:-1]])), **weights)

    def _target_ids(self, target: str | Translation) -> list[int]:
        """Return the ids of a translation, with EOS at the end."""
        if isinstance(target, Translation):
            return [*target.ids, EOS]
        return self.vocabulary.encode([self.target.tokenize(target)])[0]

    def encode(self, lines: list[str]) -> list[list[int]]:
        """Encode plain sentences of the source language as token ids with EOS at the end."""
        return self.vocabulary.encode([self.source.tokenize(line) for line in lines])

    def decode(self, sentences: list[list[int]]) -> list[str]:
        return [self.target.detokenize(words) for words in self.vocabulary.decode(sentences)]

    @property
    def longest(self) -> int:
        """Return the maximum number of tokens of a sentence, with EOS. A translation may be `extra_length` longer."""
        return POSITIONS - self.decoding.extra_length

    def search(self, sentences: list[list[int]], n: int = 1, decoding: Decoding | None = None) -> list[list[Scored]]:
        """Search with the run's settings, or others. The first call compares the cached decoder with the whole one."""
        decoding, unchecked = decoding or self.decoding, "decoders" not in vars(self)
        results = search(self.model, len(self.vocabulary), sentences, decoding, decoders=self.decoders, n=n)
        if sentences and unchecked:
            shortest = min(range(len(sentences)), key=lambda index: len(sentences[index]))
            self._compare(sentences[shortest], *results[shortest][0], decoding)
        return results

    def _compare(self, source: list[int], ids: list[int], score: float, decoding: Decoding) -> None:
        """Refuse a translation whose log-probability differs in the whole decoder. An edit may have left out a file."""
        ended = len(ids) < min(len(source) + decoding.extra_length, POSITIONS)
        target = [*ids, *[EOS] * ended]
        expected = -sum(self._losses([source], [target])[0])
        found = score * length_penalty(len(target), decoding.length_penalty)
        if not math.isclose(found, expected, rel_tol=0.001, abs_tol=0.01):
            decoder = f"transformer/model: the incremental decoder of a model '{self.experiment.model.architecture}'"
            problem = f"expected the whole decoder's log-probability of {expected:.4f}, found {found:.4f}"
            raise InputError(f"{decoder}: {problem}: make the same change to both")

    @cached_property
    def decoders(self) -> Decoders:
        """The decoder's matrices in the layout for single steps. All calls share them."""
        return self.model.incremental()


def _refuse_longer(sentences: Sequence[list[int]], numbers: Iterable[int], most: int) -> None:
    for number, sentence in zip(numbers, sentences, strict=True):
        if len(sentence) > most:
            raise TooLong(number, len(sentence), most)


def open_translator(
    folder: str | Path, weights: Path | None = None, changes: Mapping[str, Any] | None = None
) -> Translator:
    """Open a run's folder or an export, on a GPU if there is one. `changes` replace settings of its decoding.

    weights: the default is the run's average. Raises InputError.
    """
    from transformer.data.tokenization import Tokenizer  # local, because it loads sacremoses

    experiment, model, vocabulary, decoding = opened(folder, weights, changes or {}, parses=False)
    sides = [Tokenizer(language, experiment.preprocessing) for language in (experiment.source, experiment.target)]
    return Translator(model, vocabulary, *sides, decoding, experiment)


def opened(
    folder: str | Path, weights: Path | None, changes: Mapping[str, Any], parses: bool
) -> tuple[Experiment, Seq2Seq, Subwords, Decoding]:
    """Open the folder of a parser (if `parses`) or a translation model. Raises InputError on the other kind."""
    files = Run(folder)
    weights = weights or files.average
    experiment = verified_run(files, files.vocabulary, weights)
    decoding = changed(load(files.decoding, Decoding), changes)
    vocabulary = Subwords(files.vocabulary).fitting(experiment.model.embedding_rows)
    if bool(vocabulary.symbols) != parses:
        found = "a parser" if vocabulary.symbols else f"a translator from {experiment.source} to {experiment.target}"
        raise InputError(f"{folder}: expected a {'parser' if parses else 'translator'}, found {found}")
    return experiment, load_model(weights, experiment.model).to(best_device()), vocabulary, decoding


def search(
    model: Seq2Seq,
    vocabulary: int,
    sentences: list[list[int]],
    decoding: Decoding,
    steer: Callable[[Decoder, list[int]], Decoder] = lambda decoder, _: decoder,
    decoders: Decoders | None = None,
    n: int = 1,
) -> list[list[Scored]]:
    """Return the n best translations of each sentence, best first: ids below `vocabulary`, without EOS.

    Sentences of similar length are decoded together. The model's positions limit the length of an output.
    steer: restricts a decoder's tokens for the sentences with these indices. decoders: `model.incremental()`, to reuse
    an earlier result.
    """
    device, decoders = model.device, decoders or model.incremental()

    @torch.inference_mode()
    def decode(batch: list[int]) -> list[list[Scored]]:
        source = pack([np.array(sentences[index]) for index in batch], device)
        # §6.1: input length + 50. Both lengths include EOS.
        lengths = torch.tensor([len(sentences[index]) for index in batch], device=device)
        limits = (lengths + decoding.extra_length).clamp(max=POSITIONS)
        decoder = steer(decoders(source, vocabulary), batch)
        return beam_search(decoder, limits, decoding.beam_size, decoding.length_penalty, n)

    threads = torch.get_num_threads()
    if device.type == "cuda":
        batches = by_length(sentences, decoding.max_tokens * GPU, least=model.shortest)
    else:
        tokens = sum(map(len, sentences))
        parts = max(1, min(threads, tokens // _THREAD_SHARE))
        batches = by_length(sentences, min(decoding.max_tokens, math.ceil(tokens / parts)))
    several = device.type == "cpu" and min(threads, len(batches)) > 1  # parallel batches, each in one thread
    torch.set_num_threads(1 if several else threads)
    try:
        with ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(decode, batches) if several else map(decode, batches))
    finally:
        torch.set_num_threads(threads)
    results: list[list[Scored]] = [[]] * len(sentences)
    for index, ranked in zip(chain.from_iterable(batches), chain.from_iterable(found), strict=True):
        results[index] = [([token for token in ids if token != EOS], score) for ids, score in ranked]
    return results


def by_length(sentences: list[list[int]], max_tokens: int, least: int = 1) -> list[list[int]]:
    """Return batches of sentence indices, longest first, with up to `max_tokens` padded tokens or one sentence each.

    least: shorter sentences count as sentences with this number of tokens.
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(sentences)), key=lambda index: -len(sentences[index])):
        if batches and max(least, len(sentences[batches[-1][0]])) * (len(batches[-1]) + 1) <= max_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches
