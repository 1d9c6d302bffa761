"""§6.3: a parser's trees, scores and repairs. A constrained search writes all trees over the words, and only these."""

import itertools
import math
from dataclasses import replace

import msgspec
import pytest
import torch
from support.commands import do
from support.toy import (
    DECODING,
    PREPROCESSING,
    Table,
    make_experiment,
    make_run,
    make_vocabulary,
    random_model,
    random_table,
    sequence_log_p,
    write_text,
)
from support.trees import PLAIN, TREES

from transformer.config.experiment import EOS, PAD, POSITIONS, save
from transformer.data.corpus import SPECIAL, Subwords
from transformer.data.preprocessing import encode_splits, learn_vocabulary
from transformer.layout import Data
from transformer.model.packed import pack
from transformer.parsing.parser import TOO_LONG, Parser, TreeDecoder, open_parser, penn_words
from transformer.parsing.treebanks import linearize_split
from transformer.parsing.trees import bracketed, decode, encode_tree, words
from transformer.storage.files import InputError
from transformer.translation.search import beam_search, length_penalty

WORDS = [penn_words(line) for line in PLAIN]
ROWS, SIZE = 59, 127  # of the softmax and of the embedding; some symbols are unused

pytestmark = pytest.mark.usefixtures("on_the_processor")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Make the folder of a task with TREES as training trees and the first of them as dev set."""
    data = tmp_path_factory.mktemp("task") / "supervised"
    trees, dev = write_text(data.with_suffix(".trees"), TREES), write_text(data.with_suffix(".dev"), TREES[:3])
    linearize_split(Data(data), "train", [trees], repeat=20)
    linearize_split(Data(data), "dev", [dev])
    learn_vocabulary(Data(data), SIZE - ROWS, ("en", "trees"), PREPROCESSING, symbols=ROWS)
    encode_splits(Data(data), processes=1)
    return data


@pytest.fixture(scope="module")
def subwords(data):
    return Subwords(data / "vocabulary.model")


@pytest.fixture(scope="module")
def parser(tmp_path_factory, data):
    model = {"N": 1, "d_model": 64, "d_ff": 128, "d_k": 16, "d_v": 16, "P_drop": 0.0}
    rows = {"embedding_rows": SIZE, "output_rows": ROWS}
    steps = 300  # enough for every tree to be certain; after 200, rounding decided one of them
    training = {"learning_rate_scale": 0.2, "warmup_steps": 70, "checkpoint_every": 5, "epsilon_ls": 0.0}
    tokens = {"source_tokens": 1200, "target_tokens": 1200}
    logging = {"log_every": steps, "evaluate_every": steps, "save_every": steps}
    resolved = make_experiment(model=model | rows, logging=logging, steps=steps, **training, **tokens)
    run = make_run(tmp_path_factory.mktemp("run") / "1", resolved)
    save(msgspec.structs.replace(DECODING, extra_length=60), run / "decoding.yaml")
    do("train", run, "--data", data, "--threads", 1)
    return open_parser(run, None, {}, constrained=False)


@pytest.mark.parametrize("constrained", [False, True])
def test_a_parser_reproduces_its_training_trees(parser, constrained):
    """Each sentence gets its own training tree. A constrained search finds it, too."""
    parses = replace(parser, constrained=constrained).parse(WORDS)
    assert [bracketed(parsed.tree) for parsed in parses] == TREES
    assert [parsed.fault for parsed in parses] == [None] * len(TREES)
    for sentence, parsed in zip(WORDS, parses, strict=True):
        assert parser.parse([sentence])[0].score == pytest.approx(parsed.score, abs=1e-4)


def log_probability(parser: Parser, sentence: list[str], symbols: list[str]) -> float:
    """Return the log-probability of these symbols and EOS among all possible symbols, from one pass of the model."""
    (ids,) = parser.vocabulary.encode_symbols([" ".join(symbols)])
    (source,) = parser.vocabulary.encode([" ".join(sentence)])
    packed = (pack([line], torch.device("cpu")) for line in (source, [PAD, *ids[:-1]]))
    with torch.inference_mode():
        logits = parser.model(*packed) @ parser.model.embedding.weight[:ROWS].T
    return logits.double().log_softmax(dim=1)[range(len(ids)), ids].sum().item()


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_the_score_is_the_log_probability_over_the_penalty(parser, alpha):
    """§6.1: ((5 + length) / 6)^alpha, and EOS counts."""
    parser = replace(parser, decoding=msgspec.structs.replace(parser.decoding, length_penalty=alpha))
    for sentence, parsed in zip(WORDS, parser.parse(WORDS), strict=True):
        symbols = encode_tree(parsed.tree)[1]
        penalty = ((5 + len(symbols) + 1) / 6) ** alpha
        assert parsed.score == pytest.approx(log_probability(parser, sentence, symbols) / penalty, abs=1e-4)


@pytest.mark.parametrize("constrained", [False, True])
def test_every_output_of_an_untrained_parser_becomes_a_tree(subwords, constrained):
    """The tree has exactly the words, including unknown words. A constrained search has no faults."""
    model = random_model(0, embedding_rows=SIZE, output_rows=ROWS)
    decoding = msgspec.structs.replace(DECODING, beam_size=2, extra_length=1000 if constrained else 20)
    parser = Parser(model, subwords, decoding, constrained)
    sentences = [*WORDS, ["Mary", "runs", "."], ["(", ")"], ["naïve", "(S", "字", "<unk>"], ["symbol", "unused"]]
    parses = parser.parse(sentences)
    assert [words(parsed.tree) for parsed in parses] == sentences
    assert any(parsed.fault for parsed in parses) is not constrained


def test_a_sentence_that_is_too_long_has_a_flat_tree_and_the_others_their_own(parser):
    """The sentence has one subword more than there are positions, counting EOS."""
    parser = replace(parser, decoding=msgspec.structs.replace(parser.decoding, beam_size=1))
    first, flat, longest, last = parser.parse([WORDS[0], ["cat"] * POSITIONS, ["cat"] * (POSITIONS - 1), WORDS[1]])
    assert bracketed(flat.tree) == f"(TOP{' (XX cat)' * POSITIONS})"
    assert (flat.fault, flat.score) == (TOO_LONG, None)
    assert longest.fault != TOO_LONG
    assert math.isfinite(longest.score)
    assert [bracketed(parsed.tree) for parsed in (first, last)] == TREES[:2]


def test_a_translators_run_is_refused(tmp_path):
    run = make_run(tmp_path / "1", make_experiment())
    make_vocabulary(run / "vocabulary.model")
    with pytest.raises(InputError, match=rf"^{run}: expected a parser, found a translator from en to de$"):
        open_parser(run, None, {}, False)


SYMBOLS = {symbol: SPECIAL + number for number, symbol in enumerate(["(A", ")A", "(B", ")B", "x", "y"])}
V = SPECIAL + len(SYMBOLS)


def best_tree(log_p, sentence: int, words: list[str], limit: int, alpha: float) -> tuple[list[int], float]:
    """Return the best tree of up to `limit` tokens, including EOS, and its score."""
    scored = []
    for length in range(1, limit):
        for symbols in itertools.product(SYMBOLS, repeat=length):
            if decode(list(symbols), words)[1] is None:
                ids = [*(SYMBOLS[symbol] for symbol in symbols), EOS]
                scored.append((sequence_log_p(log_p, sentence, ids) / length_penalty(len(ids), alpha), ids))
    score, ids = max(scored)
    return ids, score


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_a_beam_that_holds_everything_finds_the_best_of_all_trees(alpha):
    lengths, limit = [1, 2, 3], 6
    decoder = TreeDecoder(Table(random_table(1, V), range(len(lengths))), torch.tensor(lengths), SYMBOLS)
    results = beam_search(decoder, torch.tensor([limit] * len(lengths)), beam=300, alpha=alpha)
    for sentence, (length, [(ids, score)]) in enumerate(zip(lengths, results, strict=True)):
        expected, best = best_tree(random_table(1, V), sentence, ["w"] * length, limit, alpha)
        assert ids == expected
        assert score == pytest.approx(best, rel=1e-5)
