"""Figures: what is drawn is what was given. Lines and texts are read back from the axes."""

import json
import math
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.colors import to_rgba
from matplotlib.image import imread
from support.scored import score, write_scores
from support.toy import make_experiment, random_model
from torch import nn

from transformer.commands import figure as stage
from transformer.config.experiment import save as save_yaml
from transformer.evaluation.scorefiles import read_scores
from transformer.files import InputError
from transformer.model.transformer import EncoderLayer, Residual
from transformer.report.figures import COLORS, FIGURES
from transformer.report.figures.architecture import figure1
from transformer.report.figures.cost import bleu_flops, bleu_parameters
from transformer.report.figures.curves import curves
from transformer.report.figures.heads import (
    by_word,
    distance,
    entropies,
    figure3,
    figure4,
    figure5,
    layer_of,
    two_structured,
)
from transformer.report.figures.multihead import figure2
from transformer.report.figures.positions import positions
from transformer.report.figures.schedule import schedule
from transformer.report.figures.structure import structure
from transformer.report.figures.style import new, save
from transformer.report.tables.table2 import read_systems
from transformer.report.tables.table3 import read_variations

TABLE_2, TABLE_3 = "workflow/paper/table2.csv", "workflow/paper/table3.csv"
RUN = "en-de/base/1"


def texts(drawing) -> list[str]:
    """All that is written in a figure's axes."""
    return [text.get_text() for axes in drawing.figure.axes for text in axes.texts]


def height(drawing, text: str) -> float:
    """Where the lowest text that is `text` stands."""
    return min(each.get_position()[1] for axes in drawing.figure.axes for each in axes.texts if each.get_text() == text)


# Files ----------------------------------------------------------------------------------------------------------------


def test_files_are_the_same_each_time(tmp_path):
    for folder in ("one", "other"):
        figure, axes = new(2, 1)
        axes.plot([1, 2], [3, 4], marker="o")
        axes.set_xlabel("α")
        save(figure, tmp_path / folder / "name")
    names = ["name.pdf", "name.png", "name.svg"]
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == names
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    svg = (tmp_path / "one/name.svg").read_text()
    assert "<text" not in svg  # outlines, which need no font
    assert "<dc:date>" not in svg
    assert imread(tmp_path / "one/name.png").shape[:2] == (300, 600)


# Figures 1 and 2 ------------------------------------------------------------------------------------------------------


class PreNorm(EncoderLayer):
    def forward(self, x, source):
        x = x + self.self_attention(self.residuals[0].norm(x), source)
        return x + self.feed_forward(self.residuals[1].norm(x))


class NoResidual(Residual):
    def forward(self, x, sublayer):
        return self.norm(self.dropout(sublayer(x)))


def test_figure_1_has_the_models_sizes():
    written = texts(figure1(random_model(1, N=3, h=5, d_ff=48), RUN))
    assert written.count("3×") == 2
    assert written.count("Multi-Head\nAttention\n$h$ = 5") == 2
    assert written.count("Masked\nMulti-Head\nAttention\n$h$ = 5") == 1
    assert written.count("Feed Forward\n$d_\\mathrm{ff}$ = 48") == 2
    assert written.count("Add & Norm") == 5
    assert written.count("Positional\nEncoding") == 2
    assert {"shared", "Linear\n(shared matrix)", "Softmax"} <= set(written)
    assert "4×" in texts(figure1(random_model(1, N=4), RUN))


def test_figure_1_draws_the_norm_where_it_is():
    model = random_model(1, N=1)
    usual = figure1(model, RUN)
    attention = "Multi-Head\nAttention\n$h$ = 2"
    assert height(usual, attention) < height(usual, "Add & Norm")
    model.encoder[0] = PreNorm(model.config).eval()
    other = figure1(model, RUN)
    written = texts(other)
    assert [written.count(text) for text in ("Norm", "Add", "Add & Norm")] == [2, 2, 3]
    assert height(other, "Norm") < height(other, attention) < height(other, "Add")
    assert "norm and add round it" in other.caption


def test_figure_1_names_another_norm_and_misses_a_residual():
    model = random_model(1, N=1)
    for residual in model.encoder[0].residuals:
        residual.norm = nn.RMSNorm(model.config.d_model)
    assert texts(figure1(model, RUN)).count("Add & RMSNorm") == 2
    model.encoder[0].residuals[1] = NoResidual(model.config).eval()
    first, second = structure(model).encoder
    assert (first.residual, second.residual) == (True, False)
    assert (first.norm, second.norm) == ("RMSNorm", "LayerNorm")
    assert texts(figure1(model, RUN)).count("Norm") == 1


def test_figure_1_says_what_positions_are_and_whether_the_embedding_is_shared():
    assert texts(figure1(random_model(1, positions="learned"), RUN)).count("Learned\nPositions") == 2
    language = texts(figure1(random_model(1, target_spaces=32), RUN))
    assert "Positional\nEncoding\n+ language" in language
    model = random_model(1)
    model.embedding.output_weight = lambda: torch.zeros(5, 26)
    assert not {"shared", "Linear\n(shared matrix)"} & set(texts(figure1(model, RUN)))


def test_figure_1_draws_a_pre_norm_model_with_its_last_norms():
    """5 sub-layers in two stacks, each with a norm below it and a sum above, and a norm above each stack."""
    drawing = figure1(random_model(1, N=3, norm="pre"), RUN)
    written = texts(drawing)
    assert [written.count(text) for text in ("Norm", "Add", "Add & Norm")] == [7, 5, 0]
    highest = max(text.get_position()[1] for text in drawing.figure.axes[0].texts if text.get_text() == "Norm")
    assert height(drawing, "Linear\n(shared matrix)") > highest
    assert highest > max(text.get_position()[1] for text in drawing.figure.axes[0].texts if text.get_text() == "Add")
    assert "Each stack ends with norm." in drawing.caption
    assert "Each stack" not in figure1(random_model(1), RUN).caption


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_figure_1_draws_no_sum_without_residuals(norm):
    drawing = figure1(random_model(1, residual=False, norm=norm), RUN)
    written = texts(drawing)
    assert not any("Add" in text for text in written)
    assert written.count("Norm") == {"post": 5, "pre": 7}[norm]
    assert drawing.caption.count(f"(norm {'after' if norm == 'post' else 'before'} it)") == 5


def test_figure_1_draws_nothing_added_to_the_embeddings_without_positions():
    drawing = figure1(random_model(1, positions="none"), RUN)
    assert "Positional\nEncoding" not in texts(drawing)
    assert "Added to the embeddings: no positions." in drawing.caption
    assert texts(figure1(random_model(1, positions="none", target_spaces=32), RUN)).count("+ language") == 1


def test_figure_1_of_an_untied_model_shares_nothing():
    drawing = figure1(random_model(1, tied=False), RUN)
    assert not {"shared", "Linear\n(shared matrix)"} & set(texts(drawing))
    assert "One matrix" not in drawing.caption


def test_figure_2_scales_only_what_the_model_scales():
    usual, other = (figure2(random_model(1, scaled=scaled), RUN) for scaled in (True, False))
    assert {"Scaled Dot-Product\nAttention", "Scaled Dot-Product Attention"} <= set(texts(usual))
    assert {"Dot-Product\nAttention", "Dot-Product Attention"} <= set(texts(other))
    assert not any("cale" in text for text in [*texts(other), other.caption, other.alt])
    assert texts(other).count("MatMul") == 2


def test_figures_refuse_what_they_cannot_draw():
    with pytest.raises(InputError, match=r"^en-de/base/1: Figure 2 draws attention dot, found 'additive'$"):
        figure2(random_model(1, attention="additive"), RUN)
    with pytest.raises(InputError, match=r": expected positions sinusoid, learned or words, found 'none'$"):
        positions(random_model(1, positions="none"), RUN)


def test_figure_2_has_the_widths_of_heads():
    """d_model 26, h 2, d_k 7, d_v 11."""
    written = texts(figure2(random_model(1), RUN))
    assert written.count("Linear\n26 → 7") == 2
    assert written.count("Linear\n26 → 11") == 1
    assert {"Scale: $1/\\sqrt{7}$", "Linear: 22 → 26", "$h$ = 2"} <= set(written)


# Figures 3 to 5 -------------------------------------------------------------------------------------------------------


def test_weights_of_subwords_become_weights_of_words():
    """Given weights are added, giving ones averaged: rows (.1, .2 + .3, .4) and the mean of two."""
    weights = np.array([[[0.1, 0.2, 0.3, 0.4], [0.0, 0.5, 0.5, 0.0], [1.0, 0.0, 0.0, 0.0], [0.25] * 4]])
    words, found = by_word(["a", "b@@", "c", "d"], weights)
    assert words == ["a", "bc", "d"]
    np.testing.assert_allclose(found, [[[0.1, 0.5, 0.4], [0.5, 0.5, 0.0], [0.25, 0.5, 0.25]]])


@pytest.mark.parametrize(("layers", "layer"), [(6, 5), (1, 1), (2, 2), (3, 3), (4, 3), (9, 8), (12, 10)])
def test_layer_is_five_sixths_up(layers, layer):
    """Of 3 it is 2.5, of 9 it is 7.5: up."""
    assert layer_of(layers) == layer


def test_structured_heads_are_sharp_and_unlike():
    """Uniform attention over 4 words has 2 bits; of three sharp heads two are nearly the same."""
    same, reverse, uniform = np.eye(4), np.eye(4)[::-1], np.full((4, 4), 0.25)
    nearly = 0.9 * same + 0.1 * uniform
    heads = np.stack([uniform, same, nearly, uniform, uniform, reverse])
    assert entropies(heads)[[0, 1]] == pytest.approx([2, 0], abs=1e-6)
    assert distance(same, reverse) == 1
    assert distance(same, uniform) == pytest.approx(0.75)
    assert two_structured(heads) == (1, 5)
    assert two_structured(heads[:1]) == (0,)


def attention(layers: int = 2, **about) -> dict:
    """Four words, three heads; in the second layer "its" gives "bird" 0.2, 0.7 and 0.5."""
    other = np.full((3, 4, 4), 0.25)
    shown = other.copy()
    shown[:, 2] = [[0.8, 0.2, 0, 0], [0.3, 0.7, 0, 0], [0.46, 0.5, 0.04, 0]]
    sentence = {"title": "t", "source": ["The", "bird", "its", "<EOS>"], "figures": about}
    sentence["encoder"] = [other.tolist() for _ in range(layers - 1)] + [shown.tolist()]
    return {"run": RUN, "label": "toy", "layers": layers, "heads": 3, "sentences": [sentence]}


ITS = {"text": "The bird its", "from": "its", "to": ["bird"]}


def rays(axes) -> list[tuple]:
    """The lines of a figure of heads: colour and weight."""
    return [(line.get_color(), round(line.get_alpha(), 3)) for line in axes.lines]


def test_figure_3_has_a_line_for_each_weight_of_one_word():
    drawing = figure3(attention(figure3=ITS))
    expected = [(COLORS[0], 0.8), (COLORS[0], 0.2), (COLORS[1], 0.3), (COLORS[1], 0.7), (COLORS[2], 0.46)]
    assert rays(drawing.figure.axes[0]) == [*expected, (COLORS[2], 0.5)]  # 0.04 is too faint
    assert drawing.data["shares"] == [0.2, 0.7, 0.5]
    assert drawing.data["layer"] == 2
    assert "head 2 most, 0.70" in drawing.caption
    bold = [text.get_text() for text in drawing.figure.axes[0].texts if text.get_weight() == "bold"]
    assert bold == ["its"]


def test_figure_4_shows_the_heads_that_find_the_antecedent():
    drawing = figure4(attention(figure4=ITS))
    assert drawing.data["heads"] == [2, 3]
    assert {"all words, head 2", "from “its”, heads 2 and 3"} <= set(texts(drawing))
    assert "0.70 and 0.50" in drawing.caption
    # Left: three words give 0.25 to four each, "its" to two; right: "its" alone, the better head first.
    assert rays(drawing.figure.axes[0])[14:] == [
        *((COLORS[0], weight) for weight in (0.3, 0.7)),
        *((COLORS[1], weight) for weight in (0.46, 0.5)),
    ]


def test_figure_5_needs_no_word_and_shows_two_heads():
    drawing = figure5(attention(figure5={"text": "The bird its"}))
    assert len(drawing.data["heads"]) == 2
    assert {f"all words, head {head}" for head in drawing.data["heads"]} <= set(texts(drawing))


def test_a_word_or_a_sentence_that_is_not_there_is_named():
    with pytest.raises(InputError, match="expected 'cat' once in the sentence, found it 0 times"):
        figure4(attention(figure4=ITS | {"to": ["cat"]}))
    with pytest.raises(InputError, match="figure5: expected a sentence for it"):
        figure5(attention(figure4=ITS))


# Positions, schedule, curves ------------------------------------------------------------------------------------------


def test_positions_are_those_that_are_added():
    (image,) = positions(random_model(1), RUN).figure.axes[0].images
    table = np.array(image.get_array())
    for pos, i in ((0, 0), (7, 3), (99, 12)):
        angle = pos / 10000 ** (2 * i / 26)
        assert table[pos, 2 * i : 2 * i + 2] == pytest.approx([math.sin(angle), math.cos(angle)], abs=1e-5)
    model = random_model(1, positions="learned")
    learned = positions(model, RUN)
    (image,) = learned.figure.axes[0].images
    assert np.array_equal(image.get_array(), model.embedding.position_table[:100].detach())
    assert "learned" in learned.caption


def test_schedule_has_the_papers_peak():
    """§5.3: 512^-0.5 · 4000^-0.5 = 6.99e-4 at step 4000, half of it at step 2000."""
    experiment = make_experiment(model={"d_model": 512}, steps=100_000, warmup_steps=4000)
    drawing = schedule([experiment])
    line = drawing.figure.axes[0].lines[0]
    assert drawing.data == {"en-de/base": pytest.approx(6.99e-4, rel=1e-3)}
    assert np.interp([2000, 4000, 16000], *line.get_data()) == pytest.approx([3.49e-4, 6.99e-4, 3.49e-4], rel=0.01)


def write_metrics(folder, *rows: dict):
    path = folder / "metrics.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_curves_have_the_logged_values_and_name_what_is_missing(tmp_path):
    """The paper's perplexity 4.92 lies between 4.5 and 9; its BLEU is far from 1 and 2."""
    base = write_metrics(
        tmp_path / "en-de/base/1",
        {"step": 50, "smoothed_loss": 3.0},
        {"step": 100, "dev_perplexity": 9.0, "dev_bleu": 1.0},
        {"step": 200, "dev_perplexity": 4.5, "dev_bleu": 2.0},
    )
    other = write_metrics(tmp_path / "en-de/heads-1/1", {"step": 100, "dev_perplexity": 8.0})
    drawing = curves([base, other], ["en-fr/big/1"], read_variations(TABLE_3), "en-de", "toy")
    perplexity, missing, bleu, _ = drawing.figure.axes
    lines = {line.get_label(): line for line in perplexity.lines}
    assert np.array_equal(lines["base"].get_data(), [[100, 200], [9.0, 4.5]])
    assert np.array_equal(lines["other rows of Table 3"].get_data(), [[100], [8.0]])
    assert list(lines["4.92, the paper's base, newstest2013"].get_ydata()) == [4.92, 4.92]
    assert bleu.lines[0].get_label() == "base"
    assert np.array_equal(bleu.lines[0].get_data(), [[100, 200], [1.0, 2.0]])
    assert drawing.data["gaps"] == ["en-fr/big/1"]
    assert "not shown: en-fr/big/1" in drawing.caption
    assert "dev BLEU 25.8, the paper's base, newstest2013" in drawing.data["outside"]
    assert [text.get_text() for text in missing.texts] == ["none logged"]


def test_on_other_data_the_papers_values_are_not_drawn(tmp_path):
    """4.92 would lie within the axes."""
    base = write_metrics(tmp_path / "en-de/base/1", *({"step": n, "dev_perplexity": 10.0 - n} for n in range(1, 8)))
    drawing = curves([base], [], read_variations(TABLE_3), None, "toy")
    assert [len(axes.lines) for axes in drawing.figure.axes] == [1, 1]
    assert drawing.data["outside"] == []
    assert "paper's" not in drawing.caption


def test_parsers_share_a_panel_of_perplexity(tmp_path):
    names = ("en-de/base/1", "supervised/parser/1", "semi/parser/1")
    paths = [write_metrics(tmp_path / name, {"step": 9, "dev_perplexity": 1.0 + n}) for n, name in enumerate(names)]
    drawing = curves(paths, [], read_variations(TABLE_3), "en-de", "toy")
    panels = {axes.get_title(): axes for axes in drawing.figure.axes}
    assert list(panels) == ["EN-DE: dev perplexity", "Parsers: dev perplexity", "EN-DE: dev BLEU"]
    shown = {line.get_label(): line.get_ydata().tolist() for line in panels["Parsers: dev perplexity"].lines}
    assert shown == {"supervised": [2.0], "semi": [3.0]}
    (legend,) = drawing.figure.legends
    assert {"base", *shown} <= {text.get_text() for text in legend.get_texts()}
    assert "semi/parser/1: dev perplexity 3.00" in drawing.alt


def test_a_bad_line_of_metrics_is_named(tmp_path):
    path = write_metrics(tmp_path / "en-de/base/1", {"step": 1})
    path.write_text('{"step": 1}\n{"step"\n')
    with pytest.raises(InputError, match=r"metrics.jsonl, line 2: cannot be read as JSON"):
        curves([path], [], read_variations(TABLE_3), "en-de", "toy")


# BLEU over costs ------------------------------------------------------------------------------------------------------


def scores(tmp_path, *contents) -> pd.DataFrame:
    tmp_path.mkdir(exist_ok=True)
    return read_scores(write_scores(tmp_path, *contents))


def test_parameters_have_means_over_seeds_and_the_papers_rows(tmp_path):
    """30 and 34: mean 32, deviation √8. The paper leaves heads-1's parameters blank: base's 65 million."""
    runs = scores(tmp_path, score(30.0), score(34.0, seed=2), score(20.0, experiment="mine", parameters=7))
    drawing = bleu_parameters(read_variations(TABLE_3), runs, "toy", ["en-de/big/1"])
    printed, ours = drawing.data["points"].values()
    by_name = {point["name"]: point for point in printed}
    assert len(printed) == 20
    assert (by_name["heads-1"]["x"], by_name["heads-1"]["y"], by_name["heads-1"]["kind"]) == (65e6, 24.9, "A")
    assert by_name["big"]["x"] == 213e6
    assert ours[0] == {"name": "base", "kind": "base", "x": 1_900_544, "y": 32.0}
    assert ours[1] == {"name": "mine", "kind": "ours", "x": 7.0, "y": 20.0}
    (bars,) = [bars for bars in drawing.figure.axes[1].containers if bars.has_yerr and bars.lines[2][0].get_segments()]
    ((low, high),) = [segment[:, 1] for segment in bars.lines[2][0].get_segments()]
    assert high - low == pytest.approx(2 * math.sqrt(8))
    assert "not shown: en-de/big/1" in drawing.caption


def test_flops_have_a_row_per_task_and_names_that_do_not_overlap(tmp_path):
    runs = scores(tmp_path / "test", score(30.0), score(40.0, experiment="big", flops=6e15), score(50.0, task="en-fr"))
    dev = scores(tmp_path / "dev", score(25.0, experiment="heads-1"))
    drawing = bleu_flops(read_systems(TABLE_2), runs, dev, "toy", [])
    printed, ours, _, french = drawing.data["points"].values()
    assert {"name": "Transformer (big)", "kind": "paper", "x": 2.3e19, "y": 28.4} in printed
    assert "ByteNet" not in {point["name"] for point in printed}  # no FLOPs in print
    assert [(point["name"], point["kind"]) for point in ours] == [
        ("base", "test set"),
        ("big", "test set"),
        ("heads-1", "dev"),
    ]
    assert [point["y"] for point in french] == [50.0]
    for axes, count in ((drawing.figure.axes[0], 7), (drawing.figure.axes[2], 9)):
        boxes = [text.get_window_extent() for text in axes.texts]
        assert len(boxes) == count
        assert not any(one.overlaps(other) for n, one in enumerate(boxes) for other in boxes[:n])


def test_without_any_score_the_papers_side_stands_alone():
    drawing = bleu_flops(read_systems(TABLE_2), read_scores([]), read_scores([]), "toy", ["en-de/base/1"])
    printed, ours = drawing.data["points"].values()
    assert (len(printed), ours) == (7, [])
    assert "no scores" in texts(drawing)
    assert "not shown: en-de/base/1" in drawing.caption


def test_scales_are_shared_where_ours_can_be_compared(tmp_path):
    paper = read_variations(TABLE_3)
    far = bleu_parameters(paper, scores(tmp_path / "1", score(30.0)), "toy", []).figure.axes
    near = bleu_parameters(paper, scores(tmp_path / "2", score(30.0, parameters=65_000_000)), "toy", []).figure.axes
    assert far[0].get_xlim() != far[1].get_xlim()
    assert near[0].get_xlim() == near[1].get_xlim()


# The stage ------------------------------------------------------------------------------------------------------------


def test_every_figure_has_a_title_a_drawing_and_inputs():
    inputs = Path("workflow/inputs/figures.smk").read_text(encoding="utf-8")
    listed = re.findall(r'"(\w+)"', inputs[inputs.index("FIGURES = [") :])[: len(FIGURES)]
    assert list(FIGURES) == list(stage.DRAWN) == listed


def test_stage_writes_four_files(tmp_path):
    experiment, output = tmp_path / "experiment.yaml", tmp_path / "figures" / "figure2"
    save_yaml(make_experiment(), experiment)
    stage.main(["figure2", "--experiment", str(experiment), "--output", str(output)])
    assert {path.name for path in output.parent.iterdir()} == {
        f"figure2.{end}" for end in ("json", "pdf", "png", "svg")
    }
    about = json.loads(output.with_suffix(".json").read_text(encoding="utf-8"))
    assert re.search(r"en-de/base/1 has it: h = 2, d_k = 7, d_v = 11, d_model = 26", about["caption"])
    assert about["alt"]


# Linear sRGB as it is seen without one kind of cones: Machado, Oliveira and Fernandes (2009), severity 1.
SIGHTS = {
    "usual": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])  # of linear sRGB


def linear(color: str) -> np.ndarray:
    parts = np.array(to_rgba(color)[:3])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """Return the CIELAB of linear sRGB."""
    t = XYZ @ rgb.clip(0, 1) / XYZ.sum(axis=1)
    x, y, z = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_colours_stand_out_from_white():
    """WCAG: (1 + 0.05) / (Y + 0.05) is 3 or more; that of yellow is not."""
    assert len(set(COLORS)) == 8
    assert all(1.05 / ((XYZ @ linear(color))[1] + 0.05) >= 3 for color in COLORS)


@pytest.mark.parametrize("sight", SIGHTS)
def test_colour_blind_readers_tell_colours_apart(sight):
    """Okabe and Ito's eight are 16 apart, seen so; 2 is what an eye just notices."""
    seen = [lab(SIGHTS[sight] @ linear(color)) for color in COLORS]
    assert min(math.dist(one, other) for one, other in combinations(seen, 2)) > 16
