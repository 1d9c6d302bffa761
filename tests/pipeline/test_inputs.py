"""Inputs of the jobs for the actual configuration: the paper's data, options of rules, partial pages."""

import inspect
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec import to_builtins

from transformer.config import settings
from transformer.layout import Run
from transformer.pipeline.inputs import Inputs, untracked
from transformer.pipeline.registry import FIGURES, TABLES, analysed_runs, made, obstacles
from transformer.pipeline.scale import Pipeline
from transformer.report import build
from transformer.storage.files import InputError

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def project(monkeypatch) -> None:
    monkeypatch.chdir(ROOT)


def asked(*entries: str) -> Inputs:
    return Inputs(settings.read([], list(entries)))


def wildcards(**names: str) -> SimpleNamespace:
    return SimpleNamespace(**{"scale": "paper", "task": "en-de", "experiment": "base", "seed": "1"} | names)


def test_a_training_set_is_its_corpora_in_their_order():
    files = asked().side("target")(wildcards(split="train"))
    names = ["europarl-v7.de-en", "commoncrawl.de-en", "news-commentary-v9.de-en"]
    assert files == [Path(f"resources/corpora/{name}.de") for name in names]


def test_downloads_and_their_members_are_named_to_the_jobs():
    """Alternative archives have the same members. One archive is known by its MD5, and a test set is in SGML."""
    ask = asked("mirror=m")
    entries = ask.config.downloads
    for file, key in (("training-parallel-europarl-v7.tgz", "sha256"), ("wmt14-test-filtered.tgz", "md5")):
        entry, options = entries[file], ask.fetch_options(SimpleNamespace(file=file))
        assert options[:2] == ["--url", entry.urls[0]]
        assert options[options.index(f"--{key}") + 1] == getattr(entry, key) == ask.checksum(SimpleNamespace(file=file))
        others = [json.loads(options[place + 1]) for place, option in enumerate(options) if option == "--or"]
        assert others == [to_builtins(other) for other in entry.alternatives or []]
        assert options[-2:] == ["--mirror", "m"]
    text = ask.unpack_options(SimpleNamespace(corpus="newstest2014.de-en", language="de"))
    assert text == {"format": "sgm", "member": "dev/newstest2014-deen-ref.de.sgm", "lines": 3003}


def test_every_row_of_another_architecture_is_measured_by_length():
    changes = ["baselines={mine: {architecture: lstm, N: 4}}", "scales={demo: {rows: [base, lstm, mine]}}"]
    pipeline = Pipeline(settings.read([], ["scale=demo", *changes]))
    assert {run.experiment for run in analysed_runs(pipeline, "lengths")} == {"base", "lstm", "mine"}


def test_parts_of_treebanks_and_of_the_grammar():
    ask = asked()
    assert ask.treebank_options(SimpleNamespace(corpus="wsj-train"))["sections"] == (2, 21)
    assert ask.treebank_options(SimpleNamespace(corpus="gum-test"))["split"] == "test"
    assert ask.slice_of_grammar(SimpleNamespace(corpus="grammar-dev")) == [1, 20_000, 400]


def test_phrases_and_silver_trees_are_for_training():
    parser = wildcards(task="semi-supervised", split="train")
    mix = asked().mix_options
    assert mix(parser) == {"drawn": 0, "repeat": 5}
    assert mix(wildcards(task="semi-supervised", split="dev")) == {"drawn": 0, "repeat": 1}


def test_snakemake_compares_all_values_that_are_not_untracked():
    """It compares no value of a function with `input` or `output`, so a changed vocabulary would stay unnoticed."""
    ask = asked()
    for function in (ask.vocabulary_options, ask.mix_options, ask.preprocessing, ask.treebank_options, ask.identity):
        assert list(inspect.signature(function).parameters) == ["wildcards"]
    assert list(inspect.signature(untracked(ask.longest)).parameters) == ["wildcards", "output"]
    assert untracked(ask.longest)(wildcards(), ["data.json"]) == ask.longest(wildcards())


def test_weights_and_search_of_translations():
    ask = asked()
    assert ask.weights(wildcards(suffix=".last")).name == "last.safetensors"
    assert ask.weights(wildcards(suffix=".beam-1")).name == "average.safetensors"
    assert json.loads(ask.search(wildcards(suffix=".alpha-0"))) == {"alpha": 0.0}
    tiny = ask.decoding(wildcards(scale="multi30k-tiny"))
    assert tiny == {"beam": 5, "alpha": 1.33, "extra_length": 50, "batch_tokens": 4096}


def test_a_vocabulary_has_the_sizes_of_its_task():
    """test_digests.py has the preprocessing of all tasks."""
    ask = asked()
    assert ask.vocabulary_options(wildcards()) == {"subwords": 37_000}
    assert ask.vocabulary_options(wildcards(task="supervised")) == {"subwords": 16_384, "symbols": 512}


def test_text_with_tokens_of_moses_is_scored_on_them():
    asks = asked(), asked("scales={paper: {tasks: {en-de: {tokenizer: given}}}}")
    filtered = ["--subset", "filtered", Path("resources/corpora/newstest2014-filtered.de-en.de")]
    assert [ask.subset_options(wildcards(split="test")) for ask in asks] == [filtered, [*filtered, "--tokenized"]]


def test_what_will_be_translated_is_measured_before_training():
    """`extra_length` of the positions are reserved for translations that are longer than their source."""
    ask = asked("scale=paper")
    assert ask.longest(wildcards()) == 974
    vocabulary = ask.vocabulary_of_search(wildcards(split="test"))
    assert list(map(str, vocabulary)) == ["results/paper/data/en-de/vocabulary.model"]
    assert ask.vocabulary_of_search(wildcards(split="dev")) == []
    assert list(map(str, ask.measured(wildcards(split="test")))) == ["results/paper/data/en-de/test.source.tok"]


def test_table_4_and_its_parsers_are_left_out_without_a_treebank():
    paper = Pipeline(settings.read([], ["scale=paper"]))
    assert "table4" not in made(paper, TABLES)
    assert obstacles(paper)[TABLES["table4"].title] == "this scale or this machine has no treebank"
    demo = Pipeline(settings.read([], []))
    assert (made(demo, TABLES), made(demo, FIGURES)) == (list(TABLES), list(FIGURES))


def test_beam_and_alpha_are_tried_where_the_scale_names_some():
    """§6.1 chose them on the dev set for base."""
    ask = asked()
    found = [TABLES["table5"].files(ask.at(scale))["tuning"] for scale in ("demo", "paper")]
    assert [[path.parts[-3:] for path in paths] for paths in found] == [[], [("base", n, "tuning.json") for n in "123"]]
    options = ask.analysis_options(wildcards(analysis="tuning"))
    tried = ["--beams", 1, 4, 20, "--alphas", 0.0, 0.3, 0.6, 0.9, 1.2]
    assert options == [*tried, "--sentences", 100_000]
    options = ask.analysis_options(wildcards(analysis="lengths"))
    assert options[:2] == ["--data", Path("results/paper/data/en-de")]


def test_an_analysis_without_its_settings_is_named():
    with pytest.raises(InputError, match=r"^analyses: tuning: missing key 'alphas' at scale demo$"):
        asked().analysis_options(wildcards(scale="demo", analysis="tuning"))


def test_every_run_of_a_table_is_trained_once():
    pipeline = Pipeline(settings.read([], ["scale=multi30k"]))
    runs = pipeline.all_runs()
    assert len(runs) == len(set(runs)) == 47
    assert {run for entry in TABLES.values() for run in entry.runs(pipeline)} == set(runs)


def test_a_partial_page_uses_the_existing_files(tmp_path, monkeypatch):
    """Existing files have an absolute path that no rule makes. Missing runs are still expected."""
    config = settings.read([], ["partial=true"])
    monkeypatch.chdir(tmp_path)
    pipeline = Pipeline(config)
    run = Run(tmp_path / "results/demo/runs/en-de/base/1")
    run.folder.mkdir(parents=True)
    run.scores("test").touch()
    files, params = TABLES["table2"].files(pipeline), TABLES["table2"].params(pipeline)
    assert files["score"] == [run.scores("test")]
    german = ["base/1", "base/2", "base/3", "big/1", "lstm/1", "conv/1"]
    french = ["base/1", "big/1"]
    assert params["expected"] == [*(f"en-de/{run}" for run in german), *(f"en-fr/{run}" for run in french)]
    assert obstacles(pipeline)[FIGURES["positions"].title] == "no file en-de/base/1/average.safetensors"
    assert obstacles(pipeline)[FIGURES["cost_curves"].title] == "no model with a different architecture is trained"


@pytest.mark.parametrize(
    ("trained", "shown"),
    [(["base"], False), (["heads-1"], False), (["base", "heads-1"], True), (["base", "conv"], False)],
)
def test_differences_from_base_need_base_and_another_row(tmp_path, monkeypatch, trained, shown):
    config = settings.read([], ["partial=true"])
    monkeypatch.chdir(tmp_path)
    for experiment in trained:
        run = Run(tmp_path / f"results/demo/runs/en-de/{experiment}/1")
        run.folder.mkdir(parents=True)
        run.scores("dev.last").touch()
    assert ("differences" in made(Pipeline(config), FIGURES)) == shown


@pytest.mark.parametrize(("samples", "shown"), [(1, True), (0, False)])
def test_a_page_without_samples_reads_no_text(samples, shown):
    """A record of a corpus whose licence forbids copies has no samples."""
    ask = asked("scale=iwslt15", f"report={{samples: {samples}}}")
    assert bool(ask.page_files(wildcards(scale="iwslt15"))["samples"]) == shown
    assert bool(ask.page_params(wildcards(scale="iwslt15"))["translations"]) == shown


@pytest.mark.parametrize(("rows", "measured"), [("[base]", False), ("[base, big]", False), ("[base, lstm]", True)])
def test_recall_is_measured_to_compare_architectures(rows, measured):
    pipeline = Pipeline(settings.read([], [f"scales={{demo: {{rows: {rows}}}}}"]))
    assert bool(TABLES["table1"].files(pipeline)["recall"]) == measured
    assert ("recall" in made(pipeline, FIGURES)) == measured


def test_the_architecture_of_a_row_of_table_2_is_not_its_name():
    pipeline = Pipeline(settings.read([], ["scale=multi30k", "baselines={mine: {architecture: lstm, N: 8}}"]))
    kinds = {"base": "transformer", "big": "transformer", "lstm": "lstm", "conv": "conv", "mine": "lstm"}
    assert TABLES["table2"].params(pipeline)["architectures"] == kinds
    logs = FIGURES["cost_curves"].files(pipeline)["metrics"]
    assert [path.parts[-3:-1] for path in logs][-1] == ("mine", "1")
    assert {path.parts[-4] for path in logs} == {"en-de"}


def test_figures_of_a_transformer_are_left_out_for_other_architectures():
    demo = "base: {architecture: lstm, N: 4, steps: 300, checkpoint_every: 20}, parsing: null"
    less = Pipeline(settings.read([], [f"scales={{demo: {{{demo}, rows: [base, dropout-0.0, conv]}}}}"]))
    shown = {"figure1", "figure2", "figure3", "figure4", "figure5", "positions", "head_importance"}
    assert set(FIGURES) - set(made(less, FIGURES)) == shown
    assert obstacles(less)["Attention viewer"] == "expected a Transformer as base model, found 'lstm'"
    assert TABLES["table5"].files(less)["heads"] == []


@pytest.mark.parametrize(
    ("base", "figure", "reason"),
    [
        ({"positions": "none"}, "positions", "the base model has no positions"),
        ({"attention": "additive"}, "figure2", "expected dot-product attention in the base model, found additive"),
    ],
)
def test_figures_that_cannot_show_the_base_model_are_left_out(base, figure, reason):
    less = Pipeline(settings.read([], [f"base={json.dumps(base)}"]))
    assert set(FIGURES) - set(made(less, FIGURES)) == {figure}
    assert obstacles(less)[FIGURES[figure].title] == reason


def test_a_row_lists_its_settings_at_its_scale():
    config = settings.read([], ["scale=multi30k", "experiments={mine: {h: 2}}"])
    values = Pipeline(config).values(["N-2", "dropout-0.2", "mine"])
    assert values.pop("base").startswith("N=3, d_model=128, d_ff=512, h=8,")
    assert values == {"N-2": "N=1", "dropout-0.2": "P_drop=0.5", "mine": "h=2 (d_k and d_v as in base)"}


@pytest.mark.parametrize(("entries", "functions"), [(TABLES, build._TABLES), (FIGURES, build._FIGURES)])
def test_each_table_and_figure_has_a_function_of_its_files_and_parameters(entries, functions):
    pipeline = Pipeline(settings.read([], []))
    assert entries.keys() == functions.keys()
    for name, entry in entries.items():
        inspect.signature(functions[name]).bind(**entry.files(pipeline), **entry.params(pipeline))
