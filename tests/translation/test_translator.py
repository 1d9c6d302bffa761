"""Raw text to raw text: every line answered in its place, whatever it is decoded together with."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from support.toy import DECODING, PREPARATION, make_vocabulary, random_lines, random_model

from transformer.config.experiment import EOS, UNK
from transformer.data.corpus import Subwords
from transformer.data.tokenization import Moses
from transformer.model.packed import POSITIONS
from transformer.translation.translator import Translator, by_length, search


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    vocabulary = Subwords(make_vocabulary(tmp_path_factory.mktemp("vocabulary") / "vocabulary.model"))
    languages = (Moses(language, PREPARATION) for language in ("en", "de"))
    return Translator(random_model(1), vocabulary, *languages, DECODING)


LINES = random_lines(5, 20)


def test_each_line_has_the_translation_that_it_gets_alone(translator):
    """Decoding starts with the longest; blank lines stay blank; neither batches nor threads change a translation."""
    alone = {line: translator.translate([line])[0] for line in LINES}
    assert len(set(alone.values())) > 10
    lines = ["", *LINES[:5], "  \t", *LINES[5:], ""]
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        for batch_tokens in (1, 10_000):
            other = replace(translator, decoding=structs.replace(DECODING, batch_tokens=batch_tokens))
            assert other.translate(lines) == [alone.get(line, "") for line in lines]
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert translator.translate(["", " "]) == ["", ""]


@given(st.lists(st.integers(1, 30), max_size=40), st.integers(1, 100), st.sampled_from([1, 16]))
def test_by_length(lengths, batch_tokens, least):
    """Sentences are in order of length, as many in a batch as fit; the shortest count as `least` tokens."""
    batches = by_length([[0] * length for length in lengths], batch_tokens, least)
    order = [index for batch in batches for index in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[index] for index in order] == sorted(lengths, reverse=True)
    for batch, following in zip(batches, [*batches, None][1:], strict=True):
        longest = max(least, lengths[batch[0]])
        assert len(batch) == 1 or len(batch) * longest <= batch_tokens
        assert following is None or longest * (len(batch) + 1) > batch_tokens


def endless_model():
    """Return a model that always writes the same word, so that every translation goes up to its limit."""
    model = random_model(1, N=1)
    embedding, norm = model.embedding.weight, model.decoder[-1].residuals[2].norm
    with torch.no_grad():
        norm.weight.zero_()
        norm.bias.copy_(embedding[UNK + 1])
        embedding[EOS] = -embedding[UNK + 1]
    return model


@pytest.mark.parametrize(("lines", "extra_length"), [(LINES, 3), ([" ".join(["ab"] * (POSITIONS - 2))], 1)])
def test_output_is_at_most_extra_length_longer_than_the_input(translator, lines, extra_length):
    """The last position that the decoder can reach is the last that the model has."""
    decoding = structs.replace(DECODING, extra_length=extra_length, beam=1)
    sentences = translator.vocabulary.encode(lines)
    found = search(endless_model(), len(translator.vocabulary), sentences, decoding)
    assert [len(ids) for ids, _ in found] == [len(ids) + extra_length for ids in sentences]
