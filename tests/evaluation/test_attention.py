"""Attention weights, compared with the layers that compute them, and the file for the figures."""

import json

import numpy as np
import pytest
import torch
from support.commands import do, error
from support.serving import make_trial
from support.toy import random_baseline, random_model, random_sentences, write_text

import transformer
from transformer.config.experiment import EOS, POSITIONS
from transformer.evaluation.attention import Attention
from transformer.model.attention import MultiHead, SelfAttention
from transformer.model.packed import pack
from transformer.model.transformer import attention_weights
from transformer.report.figures.attention import grids
from transformer.storage.files import InputError
from transformer.storage.records import read_json

SOURCE, TARGET = random_sentences(1, 2, longest=9)


def values(module: MultiHead, given: tuple) -> torch.Tensor:
    """Return V of one sentence by head: [h, keys, d_v]."""
    x = given[0] if isinstance(module, SelfAttention) else given[2]  # the memory
    projection = module.query_key_value if isinstance(module, SelfAttention) else module.key_value
    return projection(x)[:, -module.h * module.d_v :].view(len(x), module.h, module.d_v).transpose(0, 1)


@torch.inference_mode()
@pytest.mark.parametrize("changes", [{}, {"norm": "pre", "scaled": False}, {"attention": "additive"}], ids=str)
def test_weights_times_values_are_the_layers_output(changes):
    model = random_model(1, **changes)
    seen = []
    for module in model.modules():
        if isinstance(module, MultiHead):
            module.register_forward_hook(lambda module, given, output: seen.append((module, given, output)))
    text = pack([torch.tensor(SOURCE).numpy()], torch.device("cpu"))
    before = model(text, text)
    seen.clear()
    taken = attention_weights(model, SOURCE, TARGET)
    decoder = [of_layer for pair in zip(taken["decoder"], taken["cross"], strict=True) for of_layer in pair]
    for of_layer, (module, given, output) in zip([*taken["encoder"], *decoder], seen, strict=True):
        heads = (of_layer @ values(module, given)).transpose(0, 1).flatten(1)
        torch.testing.assert_close(module.output(heads), output, atol=1e-5, rtol=0)
    for of_kind in taken.values():
        torch.testing.assert_close(of_kind.sum(-1), torch.ones(of_kind.shape[:-1]))
    assert taken["decoder"].triu(1).count_nonzero() == 0
    assert torch.equal(model(text, text), before)  # the hooks change nothing
    assert not any("attend" in vars(module) for module in model.modules())


def test_too_long_a_sentence_or_another_architecture_is_refused():
    with pytest.raises(InputError, match=f"up to {POSITIONS} tokens, found a sentence with {POSITIONS + 1}"):
        attention_weights(random_model(4), [5] * POSITIONS + [EOS], TARGET)
    with pytest.raises(InputError, match=r"^attention heads: expected a Transformer, found the architecture LSTM$"):
        attention_weights(random_baseline("lstm"), SOURCE, TARGET)


@pytest.fixture
def run(tmp_path):
    return make_trial(tmp_path / "run")


def command(run, text, *options) -> list:
    return ["attend", "--run", run, "--text", text, "--count", 2, *options, "--threads", 1, "--output", run / "a.json"]


def test_the_file_has_sentences_of_figures_and_of_the_text(run, tmp_path):
    """Of five sentences, the blank one and the long one are never chosen."""
    text = write_text(tmp_path / "test.en", ["ab cd", "", "ij", "ab " * 30, "ef gh"])
    figures = {"figure3": {"text": "ab ij", "from": "ab", "to": ["ij"]}}
    figures |= {name: {"text": "ab cdefij ij opmn"} for name in ("figure4", "figure5")}
    do(*command(run, text, "--figures", json.dumps(figures), "--longest", 9))
    taken = read_json(run / "a.json", Attention)
    assert (taken["run"], taken["layers"], taken["heads"]) == ("en-de/base/1", 2, 2)
    titles = [sentence["title"] for sentence in taken["sentences"]]
    assert titles == ["Figure 3", "Figure 4 and Figure 5", "Sentence 3 of test.en", "Sentence 5 of test.en"]
    for sentence in taken["sentences"]:
        assert " ".join(sentence["source"][:-1]).replace("@@ ", "") == sentence["text"]
        assert sentence["shifted"] == ["<start>", *sentence["target"][:-1]]
        for kind, keys in (("encoder", "source"), ("cross", "source"), ("decoder", "shifted")):
            rows = torch.tensor(sentence[kind], dtype=torch.float)
            assert (rows.sum(-1) - 1).abs().max() <= 0.0005 * len(sentence[keys]) + 1e-6
    assert taken["sentences"][0]["figures"] == {"figure3": figures["figure3"]}
    do(*command(run, text, "--longest", 1))  # no sentence is this short, so the shortest ones are shown
    titles = [sentence["title"] for sentence in read_json(run / "a.json", Attention)["sentences"]]
    assert titles == ["Sentence 1 of test.en", "Sentence 3 of test.en"]
    write_text(text, ["", " "])
    assert error(*command(run, text)) == f"{text}: expected a sentence, found blank lines"


def test_a_given_sentence_is_drawn_and_its_data_are_written(run, tmp_path):
    """Each grid has a row for each query. Without a translation, the model's own translation is shown."""
    words = ["attend", "ab cd", "--run", run, "--threads", 1, "--output", tmp_path / "own.json"]
    do(*words)
    own = read_json(tmp_path / "own.json", Attention)
    best = transformer.load(run).translate(["ab cd"])[0]
    assert own["sentences"][0]["target"] == [*best.tokens, "<EOS>"]
    do(*words, "--target", "ef gh", "--layer", 1, "--head", 2)
    (pair,) = read_json(tmp_path / "own.json", Attention)["sentences"]
    assert "".join(pair["target"]).replace("@@", "") == "efgh<EOS>"
    assert {path.suffix for path in tmp_path.glob("own.*")} == {".json", ".svg", ".png", ".pdf"}
    figure = grids(own | {"sentences": [pair]}, 1, 2)
    for axes, kind in zip(figure.axes, ("encoder", "decoder", "cross"), strict=True):
        np.testing.assert_allclose(axes.images[0].get_array(), pair[kind][0][1])
        assert len(axes.get_yticklabels()) == len(pair["source" if kind == "encoder" else "target"])
    assert error(*words, "--layer", 3) == "layer: expected 1 to 2, found 3"
    assert error(*words, "--text", "x") == "expected either a sentence or --text FILE, found both"
    assert error(*words, "--count", 2) == "--count: this option requires --text FILE"
    assert error(*command(run, "x", "--head", 2)) == "--head: this option requires a sentence, not --text"
