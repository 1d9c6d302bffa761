"""What jobs read, for the configuration as it is: the paper's data, options of rules, a page of what is there."""

import inspect
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec import to_builtins

from transformer.config import settings
from transformer.pipeline.inputs import Inputs, untracked
from transformer.pipeline.registry import FIGURES, TABLES, made, obstacles
from transformer.pipeline.scale import Pipeline

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
    """With other archives that have the same members; one archive is known by its MD5; a test set is in SGML."""
    ask = asked("mirror=m")
    entries = ask.config.downloads
    for file, key in (("training-parallel-europarl-v7.tgz", "sha256"), ("wmt14-test-filtered.tgz", "md5")):
        entry, options = entries[file], ask.fetch_options(SimpleNamespace(file=file))
        assert options[:2] == ["--url", entry.urls[0]]
        assert options[options.index(f"--{key}") + 1] == getattr(entry, key) == ask.checksum(SimpleNamespace(file=file))
        others = [json.loads(options[place + 1]) for place, option in enumerate(options) if option == "--or"]
        assert others == [{key: v for key, v in to_builtins(other).items() if v} for other in entry.alternatives or []]
        assert options[-2:] == ["--mirror", "m"]
    text = ask.unpack_options(SimpleNamespace(corpus="newstest2014.de-en", language="de"))
    assert text == {"format": "sgm", "member": "dev/newstest2014-deen-ref.de.sgm", "lines": 3003}


def test_snakemake_compares_all_values_that_are_not_untracked():
    """It compares no value of a function that takes `input` or `output`: a changed vocabulary would go unnoticed."""
    ask = asked()
    for function in (ask.vocabulary_options, ask.mix_options, ask.preparation, ask.treebank_options, ask.identity):
        assert list(inspect.signature(function).parameters) == ["wildcards"]
    assert list(inspect.signature(untracked(ask.longest)).parameters) == ["wildcards", "output"]
    assert untracked(ask.longest)(wildcards(), ["data.json"]) == ask.longest(wildcards())


def test_weights_and_search_of_translations():
    ask = asked()
    assert ask.weights(wildcards(suffix=".last")).name == "last.safetensors"
    assert ask.weights(wildcards(suffix=".beam-1")).name == "average.safetensors"
    assert json.loads(ask.search(wildcards(suffix=".alpha-0"))) == {"alpha": 0.0}
    tiny = ask.decoding(wildcards(scale="multi30k-tiny"))
    assert tiny == to_builtins(ask.config.decoding) | {"beam": 5, "alpha": 1.33}


def test_a_vocabulary_has_the_size_and_the_longest_subword_of_its_scale():
    ask = asked()
    sentences = ask.config.preparation.vocabulary_sentences
    assert ask.vocabulary_options(wildcards()) == {"subwords": 37_000, "sentences": sentences, "longest": 512}
    assert ask.vocabulary_options(wildcards(scale="demo"))["longest"] is None


def test_beam_and_alpha_are_tried_where_the_scale_names_some():
    """§6.1 chose them on the dev set, for base."""
    ask = asked()
    found = [TABLES["table5"].files(ask.at(scale))["tuning"] for scale in ("demo", "paper")]
    assert [[path.parts[-3:] for path in paths] for paths in found] == [[], [("base", n, "tuning.json") for n in "123"]]
    options = ask.analysis_options(wildcards(analysis="tuning"))
    assert options[4:] == ["--beams", 1, 4, 20, "--alphas", 0.0, 0.3, 0.6, 0.9, 1.2]


@pytest.mark.parametrize(
    ("base", "figure", "why"),
    [
        ({"positions": "none"}, "positions", "the base model has none"),
        ({"attention": "additive"}, "figure2", "it shows dot products, and attention in the base model is additive"),
    ],
)
def test_figures_that_cannot_show_the_base_model_are_left_out(base, figure, why):
    less = Pipeline(settings.read([], [f"base={json.dumps(base)}"]))
    assert set(FIGURES) - set(made(less, FIGURES)) == {figure}
    assert obstacles(less)[FIGURES[figure].title] == why


def test_a_row_says_what_it_has_at_its_scale():
    config = settings.read([], ["scale=multi30k", "experiments={mine: {h: 2}}"])
    values = Pipeline(config).values(["N-2", "dropout-0.2", "mine"])
    assert values.pop("base").startswith("N=3, d_model=128, d_ff=512, h=8,")
    assert values == {"N-2": "N=1", "dropout-0.2": "P_drop=0.5", "mine": "h=2 (d_k and d_v as in base)"}
