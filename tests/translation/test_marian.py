"""Exports for the library transformers: it loads them, and gives the same probabilities and texts as this project.

CTranslate2's own converter takes them from there.
"""

import re
from pathlib import Path

import pytest
import torch
from support.commands import do
from support.toy import (
    DECODING,
    ROWS,
    TABLE_2,
    greedy,
    logits,
    make_experiment,
    make_vocabulary,
    model_config,
    random_lines,
    random_model,
    random_sentences,
    varied_model,
)

from transformer.config.experiment import EOS, PAD, UNK, Decoding, load
from transformer.data.corpus import Subwords, learn
from transformer.model.architectures import build
from transformer.storage.files import InputError
from transformer.translation.marian import _marian_tokens, save_marian
from transformer.translation.translator import open_translator

pytestmark = pytest.mark.usefixtures("on_the_processor")

SUBWORDS = 28  # fewer than ROWS
CODE = {"sinusoids": "concatenated", "target_spaces": 32, "P_drop_relu": 0.1}  # settings of tensor2tensor
MODELS = {
    "paper-text": {},
    "tensor2tensor": CODE,
    "odd width": {"d_model": 27, "h": 3, "d_k": 7, "d_v": 9},
    "one wide head": {"h": 1, "d_k": 26, "d_v": 26},
    "three layers": {"N": 3},
    "learned": {"positions": "learned"},
    "no positions": {"positions": "none"},
    "not scaled": {"scaled": False},
    "untied, tensor2tensor": {"tied": False, **CODE},
}
few_models = pytest.mark.parametrize("changes", [{}, CODE], ids=["paper-text", "tensor2tensor"])


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    return Subwords(make_vocabulary(tmp_path_factory.mktemp("vocabulary") / "vocabulary.model", SUBWORDS))


@pytest.fixture
def opened(library, vocabulary, tmp_path):
    """Return a function that exports a model and opens it with the library."""

    def make(model):
        save_marian(model, vocabulary, make_experiment(), DECODING, tmp_path)
        return library.MarianMTModel.from_pretrained(tmp_path)

    return make


@pytest.mark.parametrize("changes", MODELS.values(), ids=MODELS)
@torch.no_grad()
def test_log_probabilities_are_the_models(opened, changes):
    """The log-probabilities span more than 1. Another epsilon in LayerNorm would change them by 0.001."""
    model = varied_model(**changes)
    theirs = opened(model)
    for source, target in zip(*(random_sentences(seed, 5, longest=9, ids=SUBWORDS) for seed in (1, 2)), strict=True):
        expected = logits(model, source, target).log_softmax(dim=1)
        ids = {"input_ids": source, "decoder_input_ids": [theirs.config.decoder_start_token_id, *target]}
        found = theirs(**{name: torch.tensor([each]) for name, each in ids.items()}).logits[0].log_softmax(dim=1)
        rows = expected.shape[1]
        torch.testing.assert_close(found[:, :rows], expected, atol=1e-3, rtol=0)
        assert found[:, rows:].exp().max() == 0
        assert expected.max() - expected.min() > 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "a translator, found a parser"),
        ({"positions": "words"}, "positions sinusoid, learned or none, found 'words'"),
        ({"norm": "pre"}, "norm 'post', found 'pre'"),
        (TABLE_2["lstm"], "a Transformer, found the architecture LSTM"),
        (TABLE_2["conv"], "a Transformer, found the architecture Conv"),
        ({"norm": "batch"}, "norm 'post', found 'batch'"),
        ({"h": 3}, "a multiple of h = 3 as d_model, found 26"),
        ({"d_v": 14}, "d_k and d_v up to d_model / h = 13, found 14"),
    ],
    ids=str,
)
def test_what_marian_cannot_express_is_refused(vocabulary, tmp_path, changes, message):
    if not changes:
        learn([Path(vocabulary.path).with_suffix(".txt")], 30, 1000, tmp_path / "parser.model", symbols=["(S", ")S"])
        vocabulary = Subwords(tmp_path / "parser.model")
    model = build(model_config(**changes)) if "architecture" in changes else random_model(1, **changes)
    with pytest.raises(InputError, match=f"^Marian: expected {re.escape(message)}$"):
        save_marian(model, vocabulary, make_experiment(), DECODING, tmp_path)


def generated(theirs, sentences, limit):
    """Return the greedy outputs of the library: ids, with EOS if it is within the limit."""
    pad, longest = theirs.config.pad_token_id, max(map(len, sentences))
    ids = torch.tensor([[*sentence, *[pad] * (longest - len(sentence))] for sentence in sentences])
    options = {"num_beams": 1, "do_sample": False, "max_new_tokens": limit}
    written = theirs.generate(input_ids=ids, attention_mask=(ids != pad).long(), **options)[:, 1:].tolist()
    return [ids[: ids.index(EOS) + 1] if EOS in ids else [token for token in ids if token != pad] for ids in written]


def translated(folder, names, subwords, sentences, limit):
    """Return the greedy outputs of CTranslate2, converted by its own converter, in the form of `generated`."""
    import ctranslate2
    from ctranslate2.converters import TransformersConverter

    TransformersConverter(str(folder)).convert(str(folder / "converted"))
    found = ctranslate2.Translator(str(folder / "converted"), intra_threads=1).translate_batch(
        [[names[token] for token in sentence] for sentence in sentences],
        beam_size=1,
        min_decoding_length=0,
        max_decoding_length=limit,
        return_end_token=True,
        suppress_sequences=[[name] for name in (names[PAD], *names[subwords:-1])],
    )
    return [[names.index(name) for name in each.hypotheses[0]] for each in found]


@few_models
def test_greedy_outputs_are_the_models_in_both_libraries(opened, vocabulary, tmp_path, changes):
    """Neither PAD nor a row without a subword is written, even if it is the likeliest."""
    model, sentences = varied_model(**changes), random_sentences(1, 20, longest=9, ids=SUBWORDS)
    with torch.no_grad():
        model.embedding.weight[[PAD, *range(SUBWORDS, ROWS)]] *= 3
    best = [logits(model, sentence, []).argmax().item() for sentence in sentences]
    assert any(token == PAD or token >= SUBWORDS for token in best)
    expected = [greedy(model, sentence, SUBWORDS, 12) for sentence in sentences]
    assert len(set(map(tuple, expected))) > 10
    assert generated(opened(model), sentences, 12) == expected
    assert translated(tmp_path, _marian_tokens(vocabulary, ROWS), SUBWORDS, sentences, 12) == expected


@pytest.fixture
def exported(run, tmp_path):
    do("export", "--run", run, "--to", tmp_path / "en-de", "--format", "marian")
    return tmp_path / "en-de"


def test_both_libraries_translate_100_sentences_as_the_run_does(library, run, exported):
    """The greedy translations are equal in ids, and with the library's tokeniser also in words."""
    ours, lines = open_translator(run, changes={"beam": 1}), random_lines(99, 100)
    tokenizer = library.AutoTokenizer.from_pretrained(exported)
    assert isinstance(tokenizer, library.MarianTokenizer)
    sentences = [tokenizer(line)["input_ids"] for line in lines]
    assert sentences == ours.encode(lines)
    expected = [ids for ((ids, _),) in ours.search(sentences)]
    assert len(set(map(tuple, expected))) > 50
    limits = [len(sentence) + ours.decoding.extra_length for sentence in sentences]
    names = _marian_tokens(ours.vocabulary, ours.model.config.embedding_rows)
    for written in (
        generated(library.MarianMTModel.from_pretrained(exported), sentences, max(limits)),
        translated(exported, names, len(ours.vocabulary), sentences, max(limits)),
    ):
        cut = [ids[:limit] for ids, limit in zip(written, limits, strict=True)]
        assert [[token for token in ids if token != EOS] for ids in cut] == expected
    assert [tokenizer.decode(ids, skip_special_tokens=True) for ids in expected] == ours.vocabulary.decode(expected)
    defaults, decoding = library.GenerationConfig.from_pretrained(exported), load(exported / "decoding.yaml", Decoding)
    found = (defaults.num_beams, defaults.length_penalty, defaults.max_new_tokens)
    assert found == (decoding.beam_size, decoding.length_penalty, 1024)  # not the library's limit of 20 tokens


def test_tokenizers_agree_on_prepared_text(library, run, exported):
    """They also agree on unknown characters, escaped tokens and language codes."""
    ours = open_translator(run)
    lines = ["ab  cd", "", "ab-cd's “ef” <pad> </s> <unk>", ">>ab<< cd", "日本 gh & ij", *random_lines(5, 50)]
    tokenizer = library.MarianTokenizer.from_pretrained(exported)
    prepared = [ours.source.tokenize(line) for line in lines]
    expected = ours.vocabulary.encode(prepared)
    assert tokenizer(prepared)["input_ids"] == expected
    assert sum(UNK in ids for ids in expected) > 2
    known = [ids for ids in expected if UNK not in ids]
    assert tokenizer.batch_decode(known, skip_special_tokens=True) == ours.vocabulary.decode(known)
