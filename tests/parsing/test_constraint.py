"""Constrained search: every tree over the words can be written, and nothing else."""

import itertools

import pytest
import torch
from support.table import Table, random_table, sequence_log_p
from support.toy import random_model

from transformer.config.experiment import EOS, Decoding
from transformer.data.subwords import SPECIAL, Subwords, learn
from transformer.parsing.constraint import TreeDecoder
from transformer.parsing.linearization import decode
from transformer.parsing.parser import Parser
from transformer.translation.search import beam_search, length_penalty

SYMBOLS = {symbol: SPECIAL + number for number, symbol in enumerate(["(A", ")A", "(B", ")B", "x", "y"])}
V = SPECIAL + len(SYMBOLS)


def whole(symbols: tuple[str, ...], words: list[str]) -> bool:
    """Return whether these symbols are a tree over the words: `decode` finds nothing to repair."""
    return bool(symbols) and decode(list(symbols), words)[1] is None


def best_tree(log_p, sentence: int, words: list[str], limit: int, alpha: float) -> tuple[list[int], float]:
    """Return the best of all trees of at most `limit` tokens, EOS included, and its score."""
    scored = []
    for length in range(1, limit):
        for symbols in itertools.product(SYMBOLS, repeat=length):
            if whole(symbols, words):
                ids = [*(SYMBOLS[symbol] for symbol in symbols), EOS]
                scored.append((sequence_log_p(log_p, sentence, ids) / length_penalty(len(ids), alpha), ids))
    score, ids = max(scored)
    return ids, score


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_a_beam_that_holds_everything_finds_the_best_of_all_trees(alpha):
    lengths, limit = [1, 2, 3], 6
    decoder = TreeDecoder(Table(random_table(1, V), range(len(lengths))), torch.tensor(lengths), SYMBOLS)
    results = beam_search(decoder, torch.tensor([limit] * len(lengths)), beam=300, alpha=alpha)
    for sentence, (words, ((ids, score),)) in enumerate(zip(lengths, results, strict=True)):
        expected, best = best_tree(random_table(1, V), sentence, ["w"] * words, limit, alpha)
        assert ids == expected
        assert score == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("beam", [1, 3])
def test_what_is_written_is_a_tree_over_the_words(beam):
    """Sentences of one batch end at different steps, and hypotheses change places."""
    lengths = [1, 7, 2, 5, 12, 3]
    decoder = TreeDecoder(Table(random_table(2, V), range(len(lengths))), torch.tensor(lengths), SYMBOLS)
    names = {number: symbol for symbol, number in SYMBOLS.items()}
    for words, ((ids, _),) in zip(lengths, beam_search(decoder, torch.full((6,), 500), beam, 0.3), strict=True):
        assert ids[-1] == EOS
        assert whole(tuple(names[token] for token in ids[:-1]), ["w"] * words)


@pytest.mark.parametrize("seed", range(2))
def test_an_untrained_model_writes_trees_alone(tmp_path, seed):
    (tmp_path / "text").write_text("the cat sees a dog .\nthe dog sleeps .\n" * 20)
    learn([tmp_path / "text"], SPECIAL + len(SYMBOLS) + 20, 100, tmp_path / "model", list(SYMBOLS))
    subwords = Subwords(tmp_path / "model")
    model = random_model(seed, embedding_rows=len(subwords))
    sentences = [["the", "dog"], ["a"], ["the", "cat", "sees", "."], ["sleeps", "."]]
    free, constrained = (Parser(model, subwords, Decoding(2, 0.3, 1000, 100), flag) for flag in (False, True))
    assert any(parsed.fault for parsed in free.parse(sentences))
    assert [parsed.fault for parsed in constrained.parse(sentences)] == [None] * len(sentences)
