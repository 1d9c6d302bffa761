"""Exports for the library transformers: it loads them, and computes, writes and reads what this project does."""

import json
import re
import shutil
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
import torch
import yaml
from msgspec.structs import replace
from support.commands import do
from support.toy import (
    DECODING,
    ROWS,
    logits,
    make_experiment,
    make_vocabulary,
    model_config,
    random_lines,
    random_sentences,
    varied_model,
    write_text,
)

from transformer.config.experiment import EOS, PAD, PRESETS, Decoding, load, save
from transformer.data import subwords
from transformer.data.subwords import Subwords
from transformer.files import InputError
from transformer.model import weights as checkpoints
from transformer.translation.marian import refuse, save_marian
from transformer.translation.translator import open_translator

pytestmark = pytest.mark.usefixtures("on_the_processor")

ROOT = Path(__file__).parents[2]
SUBWORDS = 28  # fewer than ROWS
CODE = {"sinusoids": "concatenated", "target_spaces": 32}  # of paper-code
MODELS = {
    "paper-text": {},
    "paper-code": CODE,
    "odd width": {"d_model": 27, "h": 3, "d_k": 7, "d_v": 9},
    "one wide head": {"h": 1, "d_k": 26, "d_v": 26},
    "one layer": {"N": 1},
    "three layers": {"N": 3},
    "learned": {"positions": "learned"},
    "no positions": {"positions": "none"},
    "not scaled": {"scaled": False},
    "untied": {"tied": False},
    "untied, paper-code": {"tied": False, **CODE},
    "fewer rows in the softmax": {"output_rows": 31},
}
few_models = pytest.mark.parametrize("changes", [{}, CODE], ids=["paper-text", "paper-code"])


@pytest.fixture(scope="module")
def library():
    """The library, without its network and its progress bars."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        import transformers

        transformers.utils.logging.disable_progress_bar()
        # While it loads a model, the library has its own torch.linspace, which torch would remember for good.
        with torch.device("meta"):
            torch.empty(0)
        yield transformers


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


@torch.no_grad()
def check_log_probabilities(model, theirs, least=1.0):
    """Compare the logarithms of all probabilities, whose greatest difference in a place is `least` or more."""
    for source, target in zip(*(random_sentences(seed, 5, longest=9, ids=SUBWORDS) for seed in (1, 2)), strict=True):
        expected = logits(model, source, target).log_softmax(dim=1)
        ids = {"input_ids": source, "decoder_input_ids": [theirs.config.decoder_start_token_id, *target]}
        found = theirs(**{name: torch.tensor([each]) for name, each in ids.items()}).logits[0].log_softmax(dim=1)
        rows = expected.shape[1]
        torch.testing.assert_close(found[:, :rows], expected, atol=1e-4, rtol=1e-4)  # unscaled, they are large
        assert found[:, rows:].exp().max() == 0
        assert expected.max() - expected.min() > least


@pytest.mark.parametrize("changes", MODELS.values(), ids=MODELS)
def test_log_probabilities_are_the_models(opened, changes):
    model = varied_model(**changes)
    check_log_probabilities(model, opened(model))


@few_models
def test_norms_have_the_same_epsilon(opened, changes):
    """The epsilon matters where the values are small, as they are after this model's norms."""
    model = varied_model(N=3, **changes)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.startswith(("embedding.", "target_spaces")) and "decoder.2.residuals.2" not in name:
                parameter *= 1e-2 if re.search(r"residuals|output|outer", name) else 1
    check_log_probabilities(model, opened(model), least=0.1)


@few_models
def test_padding_changes_nothing(opened, changes):
    """Sentences of a batch get what each gets alone, in sources and in what is generated."""
    theirs = opened(varied_model(**changes))
    sentences = random_sentences(1, 10, longest=9, ids=SUBWORDS)
    together = generated(theirs, sentences, 12)
    assert together == [generated(theirs, [sentence], 12)[0] for sentence in sentences]


def generated(theirs, sentences, limit, **options):
    """Return what a greedy search of the library writes: ids, with EOS if it comes within the limit."""
    pad, longest = theirs.config.pad_token_id, max(map(len, sentences))
    ids = torch.tensor([[*sentence, *[pad] * (longest - len(sentence))] for sentence in sentences])
    options = {"num_beams": 1, "do_sample": False, "max_new_tokens": limit} | options
    written = theirs.generate(input_ids=ids, attention_mask=(ids != pad).long(), **options)[:, 1:].tolist()
    return [ids[: ids.index(EOS) + 1] if EOS in ids else [token for token in ids if token != pad] for ids in written]


def greedy(model, source, limit):
    """Choose the likeliest subword each time, given the whole prefix."""
    ids = []
    while len(ids) < limit and EOS not in ids:
        ids.append(int(logits(model, source, ids)[-1, PAD + 1 : SUBWORDS].argmax()) + PAD + 1)
    return ids


@few_models
def test_greedy_outputs_are_the_models(opened, changes):
    """Neither PAD nor a row without a subword is written, however likely it is."""
    model = varied_model(**changes)
    with torch.no_grad():
        model.embedding.weight[[PAD, *range(SUBWORDS, ROWS)]] *= 3
    sentences = random_sentences(1, 20, longest=9, ids=SUBWORDS)
    best = [logits(model, sentence, []).argmax().item() for sentence in sentences]
    assert any(token == PAD or token >= SUBWORDS for token in best)
    expected = [greedy(model, sentence, 12) for sentence in sentences]
    assert generated(opened(model), sentences, 12) == expected
    assert len(set(map(tuple, expected))) > 10


@few_models
def test_saving_again(opened, library, tmp_path, changes):
    """The library saves no position tables by itself, so that a model with its own needs what the model card says."""
    theirs = opened(varied_model(**changes))
    theirs.save_pretrained(tmp_path / "again")
    again = library.MarianMTModel.from_pretrained(tmp_path / "again")
    same = torch.equal(*(model.model.encoder.embed_positions.weight for model in (theirs, again)))
    assert same == (changes == {})
    theirs._keys_to_ignore_on_save = None
    theirs.save_pretrained(tmp_path / "whole")
    whole = library.MarianMTModel.from_pretrained(tmp_path / "whole")
    torch.testing.assert_close(whole.state_dict(), theirs.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("fidelity", PRESETS)
def test_rows_of_the_tables_that_can_be_exported(vocabulary, fidelity):
    """All of Table 3; of Table 5, all but those that say otherwise in the docs."""
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    preset, refused = PRESETS[fidelity], set()
    for name, row in (config["experiments"] | config["claims"]).items():
        changes = {
            key: value for key, value in (config["base"] | row).items() if key in model_config().__struct_fields__
        }
        try:
            refuse(model_config(**changes | preset._asdict()), vocabulary)
        except InputError:
            refused.add(name)
    without = {"no-residual", "no-residual-N-2", "pre-norm", "pre-norm-2N", "no-warmup-pre-norm", "additive"}
    assert refused == without


# A trained run --------------------------------------------------------------------------------------------------------


@pytest.fixture
def exported(run, tmp_path):
    do("export", "--run", run, "--to", tmp_path / "en-de", "--format", "marian")
    return tmp_path / "en-de"


def translator_of(run, **changes):
    model = checkpoints.load_model(run / "average.safetensors", load(run / "experiment.yaml").model)
    return open_translator(run, model, changes)


@pytest.mark.slow
def test_a_trained_model_translates_the_same(library, run, exported):
    """100 sentences, in ids and in words."""
    ours, lines = translator_of(run, beam=1), random_lines(99, 100)
    model = library.MarianMTModel.from_pretrained(exported)
    tokenizer = library.AutoTokenizer.from_pretrained(exported)
    assert isinstance(tokenizer, library.MarianTokenizer)
    sentences = [tokenizer(line)["input_ids"] for line in lines]
    assert sentences == ours.encode(lines)
    limits = [len(sentence) + ours.decoding.extra_length for sentence in sentences]
    written = generated(model, sentences, max(limits))
    written = [ids[:limit] for ids, limit in zip(written, limits, strict=True)]
    expected = [ids for ids, _ in ours.search(sentences)]
    assert [[token for token in ids if token != EOS] for ids in written] == expected
    assert [tokenizer.decode(ids, skip_special_tokens=True) for ids in written] == ours.vocabulary.decode(expected)
    assert len(set(map(tuple, expected))) > 50


@pytest.mark.slow
def test_tokenizers_agree_on_prepared_text(library, exported):
    """They agree on unknown characters, too, and on what looks like a token or a language code before it is escaped."""
    ours = translator_of(exported)
    lines = ["ab  cd", "", "ab-cd's “ef” <pad> </s> <unk>", ">>ab<< cd", "日本 gh & ij", *random_lines(5, 50)]
    tokenizer = library.MarianTokenizer.from_pretrained(exported)
    prepared = [ours.source.tokenize(line) for line in lines]
    expected = ours.vocabulary.encode(prepared)
    assert tokenizer(prepared)["input_ids"] == expected
    assert sum(subwords.UNK in ids for ids in expected) > 2
    known = [ids for ids in expected if subwords.UNK not in ids]
    assert tokenizer.batch_decode(known, skip_special_tokens=True) == ours.vocabulary.decode(known)


@pytest.mark.slow
def test_generate_searches_as_the_run_does(library, exported):
    """The limit of length is the model's own, not the library's 20 tokens."""
    found = library.GenerationConfig.from_pretrained(exported)
    expected = load(exported / "decoding.yaml", Decoding)
    assert (found.num_beams, found.length_penalty, found.max_new_tokens) == (expected.beam, expected.alpha, 1024)
    model = library.MarianMTModel.from_pretrained(exported)
    assert model.generation_config.forced_eos_token_id is None


# The model card and the docs ------------------------------------------------------------------------------------------


def code_of(page):
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return code


@pytest.mark.slow
@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("page", ["docs", "card", "card, nothing normalised", "card, decapitalised"])
def test_examples_translate_as_the_run_does(run, tmp_path, monkeypatch, page):
    """This holds for a sentence whose punctuation is normalised, escaped and, in the translation, joined to words.

    The search is greedy, as beam searches differ.
    """
    copy, text = tmp_path / "run", "ab cd’s “ef”"
    changes = {
        "card, nothing normalised": {"normalize_punctuation": False, "escape": False},
        "docs": {"decapitalize": True},
        "card, decapitalised": {"decapitalize": True},
    }.get(page, {})
    shutil.copytree(run, copy)
    save(replace(load(run / "decoding.yaml", Decoding), beam=1), copy / "decoding.yaml")
    if changes:
        experiment = load(run / "experiment.yaml")
        save(replace(experiment, preparation=replace(experiment.preparation, **changes)), copy / "experiment.yaml")
    do("export", "--run", copy, "--to", tmp_path / "en-de", "--format", "marian")
    code = code_of(ROOT / "docs/export.md" if page == "docs" else tmp_path / "en-de/README.md")
    if page == "docs":
        assert code.count('"Two dogs play in the snow."') == 1
        code = code.replace('"Two dogs play in the snow."', repr(text))
    text = text.capitalize() if "decapitalize" in changes else text
    monkeypatch.chdir(tmp_path / ("" if page == "docs" else "en-de"))
    monkeypatch.setattr("builtins.input", lambda: text)
    with redirect_stdout(StringIO()) as printed:
        exec(code, {})
    assert printed.getvalue() == translator_of(copy).translate([text])[0] + "\n"


def front_of(folder):
    """Return the data at the beginning of a model card, as the Hub reads it."""
    from huggingface_hub import ModelCard

    return ModelCard.load(folder / "README.md").data


@pytest.mark.slow
@pytest.mark.usefixtures("library")
def test_a_card_has_the_scores_of_these_weights_alone(run, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    for name, lines in (("hyp", ["ab cd ef gh ij kl", "mn"]), ("ref", ["ab cd ef gh ij", "mn op"])):
        write_text(copy / f"test.{name}", lines)
    files = ["--hyp", copy / "test.hyp", "--ref", copy / "test.ref", "--json", copy / "test.json"]
    do("score", *files, "--lang", "de", "--run", copy)
    expected = json.loads((copy / "test.json").read_text())["scores"]
    for weights, with_scores in (("average", True), ("last", False)):
        files = ["--weights", copy / f"{weights}.safetensors", "--to", tmp_path / weights]
        do("export", "--run", copy, *files, "--format", "marian")
        front = front_of(tmp_path / weights)
        assert (front.language, front.pipeline_tag, front.license) == (["en", "de"], "translation", None)
        found = {result.metric_name.split(" (")[0]: result for result in front.eval_results or []}
        assert found.keys() == (expected.keys() - {"paper"} if with_scores else set())
        for name, result in found.items():
            assert result.metric_value == expected[name]["score"]
            assert result.metric_name == f"{name} ({expected[name]['signature']})"
            assert result.dataset_name == "toy: sentences to copy"
        assert {result.metric_type for result in found.values()} == ({"bleu", "chrf", "ter"} if with_scores else set())
        text = (tmp_path / weights / "README.md").read_text(encoding="utf-8")
        assert (f"| sacrebleu | {expected['sacrebleu']['score']:.1f} |" in text) == with_scores
        assert ("There are none of these weights." in text) != with_scores


@few_models
@pytest.mark.slow
@pytest.mark.usefixtures("library")
def test_a_card_says_when_tables_are_not_saved_again(untrained, tmp_path, changes):
    do("export", "--run", untrained(**changes), "--to", tmp_path / "1", "--format", "marian")
    text = (tmp_path / "1" / "README.md").read_text(encoding="utf-8")
    assert ("_keys_to_ignore_on_save = None" in text) == (changes == CODE)
