"""Raw text to raw text: every line gets its translation, independent of the batch."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from support.toy import DECODING, PREPROCESSING, logits, make_experiment, make_vocabulary, random_lines, random_model

from transformer.config.experiment import EOS, POSITIONS, UNK
from transformer.data.corpus import Subwords
from transformer.data.tokenization import Tokenizer
from transformer.storage.files import InputError
from transformer.translation.translator import Translation, Translator, by_length, search


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    vocabulary = Subwords(make_vocabulary(tmp_path_factory.mktemp("vocabulary") / "vocabulary.model"))
    languages = (Tokenizer(language, PREPROCESSING) for language in ("en", "de"))
    return Translator(random_model(1), vocabulary, *languages, DECODING, make_experiment())


LINES = random_lines(5, 20)
RECORDED = Path(__file__).parents[2] / "results/record/multi30k/runs/en-de/base/1"


def test_the_translation_of_a_line_does_not_depend_on_the_batch(translator):
    """Decoding starts with the longest line. Blank lines stay blank. Batches and threads change no translation."""
    single = {line: translator.translate([line])[0].text for line in LINES}
    assert len(set(single.values())) > 10
    lines = ["", *LINES[:5], "  \t", *LINES[5:], ""]
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        for max_tokens in (1, 10_000):
            other = replace(translator, decoding=structs.replace(DECODING, max_tokens=max_tokens))
            assert [best.text for best in other.translate(lines)] == [single.get(line, "") for line in lines]
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    unseen = ["", " ", "\0", "\u200b", "\ufeff", "\u00ad", "\u2581"]
    assert translator.translate(unseen) == [Translation("", 0.0, [], [])] * len(unseen)


def test_a_change_to_only_one_of_the_two_decoders_is_refused(translator, monkeypatch):
    """The change: the whole decoder divides its products by less. The incremental decoder does not."""
    model = random_model(1)
    whole = replace(translator, model=model)
    assert whole.translate(LINES[:2]) == translator.translate(LINES[:2])
    attention = model.decoder[0].self_attention
    forward = attention.forward
    monkeypatch.setattr(attention, "forward", lambda *args, **options: 1.2 * forward(*args, **options))
    with pytest.raises(InputError, match=r"^transformer/model: the incremental decoder of a model 'transformer': exp"):
        replace(translator, model=model).translate(LINES[:2])


def test_n_best_beam_and_alpha(translator):
    """The options change only one call, like decoding settings. The other translations follow the best, each once."""
    found = translator.translate(LINES, beam_size=4, length_penalty=1.0, n_best=4)
    other = replace(translator, decoding=structs.replace(DECODING, beam_size=4, length_penalty=1.0))
    for best, ranked in zip(found, other.search(other.encode(LINES), 4), strict=True):
        assert [(one.ids, one.score) for one in (best, *best.others)] == ranked
        assert best.tokens == translator.vocabulary.names(best.ids)
        assert [one["text"] for one in best.ranked()] == translator.decode([ids for ids, _ in ranked])
    assert max(len(best.others) for best in found) == 3  # short sentences may have fewer
    assert (
        translator.translate(LINES)[0]
        == translator.translate(LINES, beam_size=DECODING.beam_size, length_penalty=DECODING.length_penalty)[0]
    )


def test_score_of_a_text_is_that_of_the_models_logits(translator):
    pairs = list(zip(LINES, reversed(LINES), strict=True))
    for (source, target), score in zip(pairs, translator.score(pairs), strict=True):
        given, expected = translator.vocabulary.encode([source, target])
        table = logits(translator.model, given, expected[:-1]).log_softmax(1)
        np.testing.assert_allclose(score.log_probabilities, table[range(len(expected)), expected], atol=1e-5)


REFUSED = {
    "no list": (lambda model: model.translate("ab"), "texts: expected a list of sentences, found a single text: 'ab'"),
    "beam": (lambda model: model.translate(["ab"], beam_size=0), "decoding: .*beam"),
    "n_best": (lambda model: model.translate(["ab"], n_best=9), r"n_best: expected 1 to 3 \(the beam size\), found 9"),
    "long": (lambda model: model.translate(["ab", "ab " * 2000]), "text 2: expected up to .* subwords, found 2001"),
    "a long target": (lambda model: model.score([("ab", "ab " * 2000)]), "text 1: expected .* subwords, found 2001"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_is_named(translator, case):
    call, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        call(translator)


@given(st.lists(st.integers(1, 30), max_size=40), st.integers(1, 100), st.sampled_from([1, 16]))
def test_by_length(lengths, max_tokens, least):
    """Sentences are sorted by length, and batches are as full as possible. Short sentences count as `least` tokens."""
    batches = by_length([[0] * length for length in lengths], max_tokens, least)
    order = [index for batch in batches for index in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[index] for index in order] == sorted(lengths, reverse=True)
    for batch, following in zip(batches, [*batches, None][1:], strict=True):
        longest = max(least, lengths[batch[0]])
        assert len(batch) == 1 or len(batch) * longest <= max_tokens
        assert following is None or longest * (len(batch) + 1) > max_tokens


def endless_model():
    """Return a model that always writes the same word, so that every translation reaches its limit."""
    model = random_model(1, N=1)
    embedding, norm = model.embedding.weight, model.decoder[-1].residuals[2].norm
    with torch.no_grad():
        norm.weight.zero_()
        norm.bias.copy_(embedding[UNK + 1])
        embedding[EOS] = -embedding[UNK + 1]
    return model


@pytest.mark.parametrize(("lines", "extra_length"), [(LINES, 3), ([" ".join(["ab"] * (POSITIONS - 2))], 1)])
def test_output_is_at_most_extra_length_longer_than_the_input(translator, lines, extra_length):
    """The last position of the decoder is the last position of the model."""
    decoding = structs.replace(DECODING, extra_length=extra_length, beam_size=1)
    sentences = translator.vocabulary.encode(lines)
    found = search(endless_model(), len(translator.vocabulary), sentences, decoding)
    assert [len(ids) for ((ids, _),) in found] == [len(ids) + extra_length for ids in sentences]
