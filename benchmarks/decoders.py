"""This project's search and CTranslate2's, as their users call them."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from msgspec import structs
from torch import Tensor, nn

from benchmarks.results import LeftOut, require
from transformer.config.experiment import PAD, Decoding, load
from transformer.data.subwords import Subwords
from transformer.files import InputError
from transformer.model.transformer import Transformer
from transformer.model.weights import load_model
from transformer.runtime.device import best_device
from transformer.translation.decoder import Weights
from transformer.translation.marian import save_marian, token_names
from transformer.translation.search import Decoder
from transformer.translation.translator import by_length, search

ANY = 10**9  # tokens: all sentences of a call may be one batch
PATIENCE = 1  # CTranslate2's own default: it stops once as many hypotheses have ended as the beam is wide
LIMITS = [("tokens", ANY), ("tokens", 1024), ("examples", ANY), ("examples", 32)]  # of a batch, as CTranslate2 has them


@dataclass(frozen=True)
class Trained:
    """A trained model, in evaluation mode, with all that a search needs, and the folders of its run and its data."""

    model: Transformer
    vocabulary: Subwords
    decoding: Decoding
    run: Path
    data: Path
    threads: int

    def limits(self, sentences: list[list[int]]) -> list[int]:
        """Return the most tokens of each output. Toolkits with one limit a batch get the largest; outputs are cut."""
        return [len(sentence) + self.decoding.extra_length for sentence in sentences]


def open_run(run: Path, data: Path, weights: Path | None, threads: int) -> Trained:
    """Open a trained run, with the weights of its average.safetensors where no others are given."""
    experiment = load(run / "experiment.yaml")
    model = load_model(weights or run / "average.safetensors", experiment.model).to(best_device())
    vocabulary = Subwords(data / "vocabulary.model")
    return Trained(model, vocabulary, load(run / "decoding.yaml", Decoding), run, data, threads)


class Ours:
    """This project's search, with the methods that every system has.

    A system has a `name`, and one or more `settings`, of which the fastest counts. `translate` turns sentences, token
    ids that end in EOS, into ids without EOS, in batches of at most `tokens` padded tokens. `steps` counts the
    decoder's steps in doing so, each of them once for every sentence in it.
    """

    name = "this project"
    settings = ("",)

    def __init__(self, trained: Trained, folder: Path):
        self.trained, self.weights = trained, Weights(trained.model)

    def translate(self, sentences: list[list[int]], beam: int, tokens: int, setting: int = 0) -> list[list[int]]:
        return self.search(sentences, beam, tokens, lambda decoder: decoder)

    def steps(self, sentences: list[list[int]], beam: int, tokens: int) -> int:
        counts: list[int] = []
        self.search(sentences, beam, tokens, lambda decoder: Counted(decoder, counts))
        return sum(counts)

    def search(
        self, sentences: list[list[int]], beam: int, tokens: int, wrap: Callable[[Decoder], Decoder]
    ) -> list[list[int]]:
        decoding = structs.replace(self.trained.decoding, beam=beam, batch_tokens=tokens)
        rows = len(self.trained.vocabulary)
        pairs = search(self.trained.model, rows, sentences, decoding, lambda decoder, _: wrap(decoder), self.weights)
        return [ids for ids, _ in pairs]


@dataclass
class Counted:
    """A decoder that appends the number of sentences in each step to `counts`."""

    decoder: Decoder
    counts: list[int]

    def step(self, tokens: Tensor) -> Tensor:
        self.counts.append(len(tokens))
        return self.decoder.step(tokens)

    def select(self, sentences: np.ndarray, parents: np.ndarray) -> None:
        self.decoder.select(sentences, parents)


class CTranslate2:
    """CTranslate2's `translate_batch`, in float32, with a model that its own converter made of our Marian export.

    A setting is the number of translations side by side, the threads of each, and the limit on the size of a batch. A
    batch never takes more than one translation's share of the sentences.
    """

    name = "CTranslate2, float32"
    compute_type = "float32"

    def __init__(self, trained: Trained, folder: Path):
        require("ctranslate2")
        if best_device().type != "cpu":
            raise LeftOut("it is measured on the processor alone")
        os.environ.setdefault("CT2_USE_MKL", "1")  # its other library's int8 products were wrong on an AMD processor
        from ctranslate2.converters import TransformersConverter

        marian = folder / "marian"
        marian.mkdir()
        try:
            save_marian(
                trained.model, trained.vocabulary, load(trained.run / "experiment.yaml"), trained.decoding, marian
            )
        except InputError as refusal:
            raise LeftOut(str(refusal)) from None
        TransformersConverter(str(marian)).convert(str(folder / "model"))
        self.trained = trained
        self.names = token_names(trained.vocabulary, trained.model.config.embedding_rows)[:-1]
        self.ids = {name: token for token, name in enumerate(self.names)}
        self.translators = {inter: self.open(folder / "model", inter) for inter in divisors(trained.threads)}
        self.choices = list(product(self.translators, LIMITS))
        self.settings = [self.describe(inter, *limit) for inter, limit in self.choices]

    def open(self, folder: Path, inter: int) -> object:
        import ctranslate2

        intra = self.trained.threads // inter
        kinds = {"compute_type": self.compute_type, "inter_threads": inter, "intra_threads": intra}
        return ctranslate2.Translator(str(folder), **kinds)

    def describe(self, inter: int, unit: str, limit: int) -> str:
        intra = self.trained.threads // inter
        return f"inter_threads={inter}, intra_threads={intra}, {'shared' if limit == ANY else limit} {unit}"

    def translate(self, sentences: list[list[int]], beam: int, tokens: int, setting: int = 0) -> list[list[int]]:
        inter, (unit, limit) = self.choices[setting]
        sizes = list(map(len, sentences)) if unit == "tokens" else [1] * len(sentences)
        share = -(-sum(sizes) // inter)
        size = max(min(limit, share, tokens if unit == "tokens" else ANY), *sizes, 1)
        results = self.call(inter, sentences, beam, max_batch_size=size, batch_type=unit)
        limits = self.trained.limits(sentences)
        return [
            [self.ids[name] for name in result.hypotheses[0]][:length]
            for result, length in zip(results, limits, strict=True)
        ]

    def steps(self, sentences: list[list[int]], beam: int, tokens: int) -> int:
        """Count the steps: a sentence leaves the batch when the last of its `beam` hypotheses has ended."""
        results = self.call(1, sentences, beam, num_hypotheses=beam, return_end_token=True)
        return sum(max(map(len, result.hypotheses)) for result in results)

    def call(self, inter: int, sentences: list[list[int]], beam: int, **options: object) -> list:
        """Return CTranslate2's TranslationResult of each sentence."""
        return self.translators[inter].translate_batch(
            [[self.names[token] for token in sentence] for sentence in sentences],
            beam_size=beam,
            patience=PATIENCE,
            length_penalty=self.trained.decoding.alpha,
            suppress_sequences=[[name] for name in (self.names[PAD], *self.names[len(self.trained.vocabulary) :])],
            max_input_length=0,
            min_decoding_length=0,
            max_decoding_length=max(self.trained.limits(sentences)),
            **options,
        )


class CTranslate2Int8(CTranslate2):
    name = "CTranslate2, int8"
    compute_type = "int8"


def divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


class Toolkit:
    """A system that decodes one padded batch at a time, by `decode`, with all threads in each product."""

    settings = ("",)
    trained: Trained
    layer: nn.Module  # which every step of the decoder calls once, with a row per hypothesis

    def decode(self, sentences: list[list[int]], beam: int) -> list[list[int]]:
        """Translate one batch."""
        raise NotImplementedError

    def translate(self, sentences: list[list[int]], beam: int, tokens: int, setting: int = 0) -> list[list[int]]:
        results: list[list[int]] = [[]] * len(sentences)
        for batch in by_length(sentences, tokens):
            for index, ids in zip(batch, self.decode([sentences[index] for index in batch], beam), strict=True):
                results[index] = ids
        return results

    def steps(self, sentences: list[list[int]], beam: int, tokens: int) -> int:
        with counting(self.layer) as rows:
            self.translate(sentences, beam, tokens)
        return sum(rows) // beam


@contextmanager
def counting(layer: nn.Module) -> Iterator[list[int]]:
    """Yield a list, to which each call of `layer` appends the number of its rows."""
    rows: list[int] = []
    hook = layer.register_forward_hook(lambda _, __, output: rows.append(len(output)))
    try:
        yield rows
    finally:
        hook.remove()
