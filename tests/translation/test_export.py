"""Exported runs: whole or absent, usable anywhere; and CTranslate2 computes with them what the model here computes."""

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from support.commands import do, error
from support.toy import (
    DECODING,
    logits,
    make_vocabulary,
    random_lines,
    random_model,
    random_sentences,
    varied_model,
    write_text,
)

from transformer.commands import translate
from transformer.config.experiment import EOS, PAD
from transformer.data import subwords
from transformer.data.subwords import Subwords
from transformer.files import sha256
from transformer.model import weights as checkpoints
from transformer.model.packed import POSITIONS
from transformer.translation.ctranslate2 import CTranslate2, import_ctranslate2, save_ctranslate2
from transformer.translation.export import FORMATS, MANIFEST
from transformer.translation.layout import token_names
from transformer.translation.search import length_penalty

pytestmark = pytest.mark.usefixtures("on_the_processor")

SUBWORDS = 28  # fewer than ROWS
LIBRARIES = {"ctranslate2": "CTranslate2", "marian": "Marian"}
SENTENCES = random_sentences(1, 30, longest=9, ids=SUBWORDS)
MODELS = {
    "interleaved": {},
    "learned": {"positions": "learned"},
    "target space": {"target_spaces": 32},
    "d_k > d_v": {"d_k": 11, "d_v": 7},
    "odd width": {"d_model": 27},
    "fewer rows in the softmax": {"output_rows": 31},
    # Those of Table 5.
    "pre-norm": {"norm": "pre"},
    "not scaled": {"scaled": False},
    "not scaled, d_k < d_v": {"scaled": False, "d_k": 7, "d_v": 11},
    "no positions": {"positions": "none"},
    "no positions, target space": {"positions": "none", "target_spaces": 32},
    "untied": {"tied": False},
    "all at once": {"norm": "pre", "scaled": False, "positions": "none", "tied": False, "output_rows": 31},
}
# Probabilities are compared for each of these models; what is built on them, for a few.
few_models = pytest.mark.parametrize(
    "model",
    [MODELS[name] for name in ("interleaved", "target space", "d_k > d_v", "fewer rows in the softmax", "all at once")],
    ids=str,
    indirect=True,
)


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    return Subwords(make_vocabulary(tmp_path_factory.mktemp("vocabulary") / "vocabulary.model", SUBWORDS))


@pytest.fixture(params=MODELS.values(), ids=MODELS)
def model(request):
    return varied_model(**request.param)


def engine_of(model, vocabulary, folder, compute_type="float32"):
    save_ctranslate2(model, vocabulary, folder)
    translator = import_ctranslate2().Translator(str(folder), compute_type=compute_type, intra_threads=1)
    names = (token_names(vocabulary, rows) for rows in (model.config.embedding_rows, model.config.output_rows))
    return CTranslate2(translator, *names, len(vocabulary))


def allowed_only(logits):
    """Return log-probabilities over the tokens that may be written."""
    logits = logits.clone()
    logits[:, PAD] = logits[:, SUBWORDS:] = -torch.inf
    return logits.log_softmax(dim=1)


def score(model, source, target, alpha):
    """Return the score of a translation, with or without EOS, over the tokens that may be written."""
    log_probabilities = allowed_only(logits(model, source, target[:-1]))[range(len(target)), target]
    return float(log_probabilities.sum()) / length_penalty(len(target), alpha)


def greedy(model, source, limit):
    """Choose the likeliest token each time, given the whole prefix."""
    ids = []
    while len(ids) < limit and EOS not in ids:
        ids.append(int(allowed_only(logits(model, source, ids))[-1].argmax()))
    return ids


def check_log_probabilities(model, vocabulary, folder):
    engine = engine_of(model, vocabulary, folder)
    targets = random_sentences(2, len(SENTENCES), longest=9, ids=SUBWORDS)
    results = engine.translator.score_batch(
        [[engine.source[token] for token in ids] for ids in SENTENCES],
        [[engine.target[token] for token in ids[:-1]] for ids in targets],  # EOS is added there
    )
    for source, target, scores in zip(SENTENCES, targets, results, strict=True):
        expected = logits(model, source, target[:-1]).log_softmax(dim=1)[range(len(target)), target]
        torch.testing.assert_close(torch.tensor(scores.log_probs), expected, atol=1e-4, rtol=0)


def test_log_probabilities_are_the_models(model, vocabulary, tmp_path):
    check_log_probabilities(model, vocabulary, tmp_path)


def test_norms_have_the_same_epsilon(vocabulary, tmp_path):
    """The epsilon matters where the values are small."""
    model = random_model(3)
    with torch.no_grad():
        for tensor in (
            model.embedding.weight,
            model.embedding.position_table,
            model.encoder[0].self_attention.output.weight,
        ):
            tensor *= 3e-3
    check_log_probabilities(model, vocabulary, tmp_path)


@few_models
def test_greedy_search_is_greedy(model, vocabulary, tmp_path):
    """Each sentence goes up to its own limit, though all are searched together."""
    results = engine_of(model, vocabulary, tmp_path).search(SENTENCES, replace(DECODING, beam=1))
    expected = [greedy(model, ids, len(ids) + DECODING.extra_length) for ids in SENTENCES]
    assert [ids for ids, _ in results] == [[token for token in ids if token != EOS] for ids in expected]
    assert len(set(map(tuple, expected))) > 10
    for (_, result_score), source, ids in zip(results, SENTENCES, expected, strict=True):
        assert result_score == pytest.approx(score(model, source, ids, DECODING.alpha), abs=1e-4)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_beam_search_ranks_by_our_penalty(vocabulary, tmp_path, alpha):
    """It ranks hypotheses that ended; the others only where none did."""
    model, decoding, ends = varied_model(target_spaces=32), replace(DECODING, alpha=alpha), set()
    engine = engine_of(model, vocabulary, tmp_path)
    for source in SENTENCES:
        (hypotheses,) = engine.hypotheses([source], len(source) + decoding.extra_length, decoding)
        scores = {tuple(ids): score(model, source, ids, alpha) for ids, _ in hypotheses}
        ended = {ids: value for ids, value in scores.items() if ids[-1] == EOS}
        best = max(ended or scores, key=scores.__getitem__)
        ((ids, result_score),) = engine.search([source], decoding)
        assert ids == [token for token in best if token != EOS]
        assert result_score == pytest.approx(scores[best], abs=1e-4)
        ends.add(min(len(ended), 2))
    assert ends == {0, 1, 2}


def test_beam_search_keeps_each_sentences_limit(vocabulary, tmp_path):
    """Each sentence gets the translation that it gets alone."""
    engine = engine_of(varied_model(target_spaces=32), vocabulary, tmp_path)
    together = engine.search(SENTENCES, DECODING)
    assert [ids for ids, _ in together] == [engine.search([source], DECODING)[0][0] for source in SENTENCES]
    excess = [len(ids) - len(source) for (ids, _), source in zip(together, SENTENCES, strict=True)]
    assert max(excess) == DECODING.extra_length
    assert min(excess) < 0  # EOS not counted


def test_the_longest_sentence_is_translated(vocabulary, tmp_path):
    """Its translation goes up to the last position."""
    engine = engine_of(random_model(3), vocabulary, tmp_path)
    assert engine.search([], DECODING) == []
    for extra_length in (0, 50):
        ((ids, _),) = engine.search(
            [[7] * (POSITIONS - 1) + [EOS]], replace(DECODING, beam=1, extra_length=extra_length)
        )
        assert len(ids) == POSITIONS
    with pytest.raises(RuntimeError):
        engine.search([[7] * POSITIONS + [EOS]], DECODING)


def test_only_subwords_are_written(vocabulary, tmp_path):
    """This holds however likely PAD and the rows without a subword are."""
    model = random_model(3)
    with torch.no_grad():
        model.embedding.weight[SUBWORDS:] *= 3
        model.embedding.weight[PAD] *= 3
    best = [logits(model, ids, []).argmax().item() for ids in SENTENCES]
    assert any(token == PAD or token >= SUBWORDS for token in best)
    for beam in (1, 4):
        results = engine_of(model, vocabulary, tmp_path).search(SENTENCES, replace(DECODING, beam=beam))
        assert all(PAD < token < SUBWORDS for ids, _ in results for token in ids)


@few_models
def test_int8_is_close_and_not_the_same(model, vocabulary, tmp_path):
    """This holds for heads padded with zeros, too."""
    scores = []
    for compute_type in ("float32", "int8"):
        engine = engine_of(model, vocabulary, tmp_path, compute_type)
        texts = [[engine.source[token] for token in ids[:-1]] for ids in SENTENCES]
        scores.append(np.concatenate([each.log_probs for each in engine.translator.score_batch(texts, texts)]))
    error = np.abs(scores[0] - scores[1])
    assert 1e-4 < error.mean() < 0.1 * scores[0].std()


UNSEEN = ["", *random_lines(99, 60)]


def translations(run, folder, *options):
    source = write_text(folder / "source", UNSEEN)
    files = ["--input", str(source), "--output", str(folder / "target")]
    translate.main(["--run", str(run), "--threads", "1", *files, *options])
    return (folder / "target").read_text(encoding="utf-8")


@pytest.mark.parametrize("form", FORMATS)
def test_an_export_translates_wherever_it_is_put(run, tmp_path, monkeypatch, form):
    do("export", "--run", run, "--to", tmp_path / "made here" / "1", "--format", form)
    shutil.move(tmp_path / "made here" / "1", tmp_path / "moved")
    assert list((tmp_path / "made here").iterdir()) == []
    for file in (tmp_path / "moved").iterdir():
        assert not any(str(path).encode() in file.read_bytes() for path in (run, tmp_path, Path(__file__).parents[2]))
    expected = translations(run, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert translations(Path("moved"), tmp_path) == expected


def test_an_export_is_replaced_whole_and_names_what_is_there(run, tmp_path):
    """It takes the weights that it is given, also those of an older export."""
    folder, manifest = tmp_path / "1", tmp_path / "1" / MANIFEST
    digest = json.loads((run / "run.json").read_text())["digest"]
    ours = {"average.safetensors", "decoding.yaml", "experiment.yaml", "run.json", "vocabulary.model"}
    do("export", "--run", run, "--to", folder)
    do("export", "--run", folder, "--to", folder, "--format", "ctranslate2")
    entries = json.loads(manifest.read_text())
    assert set(entries["sha256"]) == ours | {"config.json", "model.bin", "shared_vocabulary.json"}
    assert entries["weights"] == {"digest": digest, "steps": [390, 395, 400]}
    do("export", "--run", run, "--to", folder, "--weights", run / "last.safetensors")
    entries = json.loads(manifest.read_text())
    assert entries["sha256"] == {path.name: sha256(path) for path in folder.iterdir() if path != manifest}
    assert set(entries["sha256"]) == ours
    assert entries["sha256"]["average.safetensors"] == sha256(run / "last.safetensors")
    assert entries["weights"]["step"] == 400
    assert os.listdir(tmp_path) == ["1"]


@pytest.mark.parametrize("is_file", [True, False], ids=["file", "folder"])
def test_export_refuses_to_replace_anything_else(run, tmp_path, is_file):
    (tmp_path / "mine").mkdir()
    mine = write_text(tmp_path / "mine" / "thesis.txt", ["years of work"])
    to = mine if is_file else tmp_path / "mine"
    message = error("export", "--run", run, "--to", to)
    assert message == f"{to}: expected nothing or an older export, found something without export.json"
    assert os.listdir(tmp_path / "mine") == ["thesis.txt"]
    assert mine.read_text() == "years of work\n"


@pytest.mark.parametrize(
    "name", ["experiment.yaml", "decoding.yaml", "vocabulary.model", "run.json", "average.safetensors"]
)
def test_export_names_a_missing_or_damaged_file_and_leaves_the_old_export(run, tmp_path, name):
    folder, copy = tmp_path / "1", tmp_path / "run"
    do("export", "--run", run, "--to", folder)
    before = {path.name: sha256(path) for path in folder.iterdir()}
    shutil.copytree(run, copy)
    for damage in (lambda path: path.write_bytes(b"damaged"), Path.unlink):
        damage(copy / name)
        assert error("export", "--run", copy, "--to", folder).startswith(f"{copy / name}: ")
        assert {path.name: sha256(path) for path in folder.iterdir()} == before
        assert sorted(os.listdir(tmp_path)) == ["1", "run"]


def test_export_refuses_weights_of_another_training(run, tmp_path):
    tensors, about = checkpoints.load(run / "average.safetensors")
    checkpoints.save(tmp_path / "other.safetensors", tensors, about | {"digest": "0123"})
    message = error("export", "--run", run, "--to", tmp_path / "1", "--weights", tmp_path / "other.safetensors")
    assert message == f"{tmp_path}/other.safetensors: expected weights of the training {about['digest']}, found 0123"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positions": "words"}, "expected positions sinusoid, learned or none, found 'words'"),
        ({"residual": False}, "expected residual true, found false"),
        ({"attention": "additive"}, "expected attention dot, found 'additive'"),
        ({"norm": "pre"}, "Marian: expected norm post, found 'pre'"),
        ({"h": 3}, "Marian: expected d_model a multiple of h = 3, found 32"),
        ({"d_k": 17}, "Marian: expected d_k of d_model / h = 16 at most, found 17"),
        ({"d_v": 17}, "Marian: expected d_v of d_model / h = 16 at most, found 17"),
    ],
    ids=str,
)
def test_formats_refuse_what_they_cannot_express(untrained, tmp_path, changes, message):
    argv = ["export", "--run", untrained(**changes), "--to", tmp_path / "1"]
    for form, library in LIBRARIES.items():
        if message.startswith("expected"):
            assert error(*argv, "--format", form) == f"{library}: {message}"
        elif message.startswith(library):
            assert error(*argv, "--format", form) == message
        assert not (tmp_path / "1").exists()
    do(*argv)  # as safetensors, anything goes
    assert (tmp_path / "1").exists()


@pytest.mark.parametrize("form", LIBRARIES)
def test_formats_refuse_a_parser(untrained, tmp_path, form):
    text, run = write_text(tmp_path / "text", random_lines(0, 200)), untrained()
    subwords.learn([text], 30, 1000, run / "vocabulary.model", symbols=["(S", ")S"])
    argv = ["export", "--run", run, "--to", tmp_path / "1", "--format", form]
    assert error(*argv) == f"{LIBRARIES[form]}: expected a translator, found a parser"
    assert not (tmp_path / "1").exists()


EVERY_OPTION = {"norm": "pre", "residual": False, "attention": "additive", "tied": False, "positions": "none"}


def test_a_model_of_every_option_is_exported_as_safetensors(untrained, tmp_path):
    """The export's weights and translations are the run's."""
    made = untrained(**EVERY_OPTION)
    do("export", "--run", made, "--to", tmp_path / "1")
    exported, weights = (checkpoints.load(folder / "average.safetensors")[0] for folder in (tmp_path / "1", made))
    torch.testing.assert_close(exported, weights, rtol=0, atol=0)
    expected = translations(made, tmp_path)
    shutil.rmtree(made)
    assert translations(tmp_path / "1", tmp_path) == expected
    assert len(set(expected.splitlines())) > 5


@pytest.mark.parametrize("options", [(), ("--decoding", '{"beam": 1, "extra_length": 0}')], ids=str)
def test_translate_with_ctranslate2(run, tmp_path, options):
    """The text is the same except for a few lines."""
    do("export", "--run", run, "--to", tmp_path / "1", "--format", "ctranslate2")
    expected = translations(run, tmp_path, *options).split("\n")
    for compute_type, least in (("float32", 58), ("int8", 45)):
        engine = ["--engine", "ctranslate2", "--compute-type", compute_type]
        lines = translations(tmp_path / "1", tmp_path, *engine, *options).split("\n")
        assert len(lines) == len(expected)
        assert lines[0] == ""
        assert sum(a == b for a, b in zip(lines, expected, strict=True)) >= least


def test_translate_says_what_ctranslate2_lacks(run, tmp_path, monkeypatch):
    source = write_text(tmp_path / "source", UNSEEN)
    argv = ["translate", "--input", source, "--threads", "1", "--engine", "ctranslate2"]
    message = f"{run}/model.bin: no such file; `export --format ctranslate2` writes it"
    assert error(*argv, "--run", run) == message
    do("export", "--run", run, "--to", tmp_path / "1", "--format", "ctranslate2")
    message = error(*argv, "--run", tmp_path / "1", "--compute-type", "int4")
    assert message.startswith("compute type: expected one of float32, int")
    assert message.endswith(", found 'int4'")
    message = error(*argv, "--run", tmp_path / "1", "--weights", run / "last.safetensors")
    assert message == "--weights: CTranslate2 takes those that were exported"
    message = error(*argv[:-2], "--run", run, "--compute-type", "int8")
    assert message == "--compute-type: expected with --engine ctranslate2 only"
    (tmp_path / "1" / "model.bin").write_bytes(b"damaged")
    assert error(*argv, "--run", tmp_path / "1").startswith(f"{tmp_path}/1/model.bin: CTranslate2 cannot read it: ")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert error(*argv, "--run", tmp_path / "1").startswith("CTranslate2: expected it installed, found: ")
