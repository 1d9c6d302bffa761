"""Constrained search: every tree over the words can be written, and nothing else."""

import itertools
import math
import random

import pytest
import torch
from support.toy import random_model

from transformer.config.experiment import EOS, Decoding
from transformer.data.subwords import SPECIAL, Subwords, learn
from transformer.parsing.constraint import TreeDecoder
from transformer.parsing.linearization import decode
from transformer.parsing.parser import Parser
from transformer.translation.search import beam_search, length_penalty

SYMBOLS = {symbol: SPECIAL + number for number, symbol in enumerate(["(A", ")A", "(B", ")B", "x", "y"])}
V = SPECIAL + len(SYMBOLS)


class Table:
    """A search.Decoder with arbitrary log-probabilities, fixed for a sentence and what it has so far."""

    def __init__(self, seed: int, B: int):
        self.seed, self.sentences, self.prefixes = seed, list(range(B)), None

    def log_p(self, sentence: int, prefix: tuple) -> list[float]:
        source = random.Random(f"{self.seed} {sentence} {prefix}")
        logits = [source.gauss(0, 1.5) for _ in range(V)]
        total = math.log(sum(map(math.exp, logits)))
        return [logit - total for logit in logits]

    def step(self, tokens):
        if self.prefixes is None:
            self.prefixes = [[()] * tokens.shape[1] for _ in self.sentences]
        else:
            rows = zip(self.prefixes, tokens.tolist(), strict=True)
            self.prefixes = [[(*p, t) for p, t in zip(prefixes, row, strict=True)] for prefixes, row in rows]
        rows = zip(self.sentences, self.prefixes, strict=True)
        return torch.tensor([[self.log_p(sentence, prefix) for prefix in prefixes] for sentence, prefixes in rows])

    def select(self, sentences, parents):
        rows = zip(sentences.tolist(), parents.tolist(), strict=True)
        self.prefixes = [[self.prefixes[sentence][parent] for parent in row] for sentence, row in rows]
        self.sentences = [self.sentences[sentence] for sentence in sentences.tolist()]


def whole(symbols: tuple[str, ...], words: list[str]) -> bool:
    """Whether these symbols are a tree over the words: the other direction finds nothing to mend."""
    return bool(symbols) and decode(list(symbols), words)[1] is None


def best_tree(table: Table, sentence: int, words: list[str], limit: int, alpha: float) -> tuple[list[int], float]:
    """Of all trees of at most `limit` tokens, EOS included."""
    scored = []
    for length in range(1, limit):
        for symbols in itertools.product(SYMBOLS, repeat=length):
            if whole(symbols, words):
                ids = [*(SYMBOLS[symbol] for symbol in symbols), EOS]
                steps = [table.log_p(sentence, tuple(ids[:place]))[token] for place, token in enumerate(ids)]
                scored.append((sum(steps) / length_penalty(len(ids), alpha), ids))
    score, ids = max(scored)
    return ids, score


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_a_beam_that_holds_everything_finds_the_best_of_all_trees(alpha):
    lengths, limit = [1, 2, 3], 6
    decoder = TreeDecoder(Table(1, len(lengths)), torch.tensor(lengths), SYMBOLS)
    found = beam_search(decoder, torch.tensor([limit] * len(lengths)), beam=300, alpha=alpha)
    for sentence, (words, (ids, score)) in enumerate(zip(lengths, found, strict=True)):
        expected, best = best_tree(Table(1, 1), sentence, ["w"] * words, limit, alpha)
        assert ids == expected
        assert score == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("beam", [1, 3])
def test_what_is_written_is_a_tree_over_the_words(beam):
    """Also where sentences of one batch end at different steps, and hypotheses change places."""
    lengths = [1, 7, 2, 5, 12, 3]
    decoder = TreeDecoder(Table(2, len(lengths)), torch.tensor(lengths), SYMBOLS)
    names = {number: symbol for symbol, number in SYMBOLS.items()}
    for words, (ids, _) in zip(lengths, beam_search(decoder, torch.full((6,), 500), beam, 0.3), strict=True):
        assert ids[-1] == EOS
        assert whole(tuple(names[token] for token in ids[:-1]), ["w"] * words)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_an_untrained_model_writes_trees_alone(tmp_path, seed):
    (tmp_path / "text").write_text("the cat sees a dog .\nthe dog sleeps .\n" * 20)
    learn([tmp_path / "text"], SPECIAL + len(SYMBOLS) + 20, 100, tmp_path / "model", list(SYMBOLS))
    subwords = Subwords(tmp_path / "model")
    model = random_model(seed, embedding_rows=len(subwords))
    sentences = [["the", "dog"], ["a"], ["the", "cat", "sees", "."], ["sleeps", "."]]
    free, constrained = (Parser(model, subwords, Decoding(2, 0.3, 1000, 100), flag) for flag in (False, True))
    assert any(found.fault for found in free.parse(sentences))
    assert [found.fault for found in constrained.parse(sentences)] == [None] * len(sentences)
