"""Figures 1 and 2 of models other than the recorded one. The tests read texts from the axes."""

import pytest
from support.toy import make_experiment

from transformer.config.experiment import save
from transformer.report.figures.architecture import figure1, figure2


def drawn(tmp_path, figure, **changes):
    save(make_experiment(model=changes), tmp_path / "experiment.yaml")
    drawing = figure(experiment=str(tmp_path / "experiment.yaml"))
    return drawing, [text.get_text() for text in drawing.figure.axes[0].texts]


def heights(drawing, text: str) -> list[float]:
    return [each.get_position()[1] for each in drawing.figure.axes[0].texts if each.get_text() == text]


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({"norm": "pre"}, {"Norm": 7, "Add": 5, "Add & Norm": 0}),  # a norm below each sub-layer, and above each stack
        ({"residual": False}, {"Norm": 5, "Add": 0, "Add & Norm": 0}),
        ({"positions": "learned"}, {"Learned\nPositions": 2, "Positional\nEncoding": 0}),
        ({"target_spaces": 32}, {"Positional\nEncoding\n+ language": 1, "Positional\nEncoding": 1}),
        ({"positions": "none", "target_spaces": 32}, {"+ language": 1, "Positional\nEncoding": 0}),
        ({"tied": False}, {"shared": 0, "Linear\n(shared matrix)": 0, "Linear": 1}),
    ],
    ids=str,
)
def test_figure_1_has_the_models_parts(tmp_path, changes, counts):
    _, written = drawn(tmp_path, figure1, **changes)
    assert {text: written.count(text) for text in counts} == counts


def test_figure_1_draws_the_norm_in_its_place(tmp_path):
    attention, output = "Multi-Head\nAttention\n$h$ = 2", "Linear\n(shared matrix)"
    post, _ = drawn(tmp_path, figure1)
    assert min(heights(post, attention)) < min(heights(post, "Add & Norm"))
    pre, _ = drawn(tmp_path, figure1, norm="pre")
    assert min(heights(pre, "Norm")) < min(heights(pre, attention)) < min(heights(pre, "Add"))
    assert max(heights(pre, "Add")) < max(heights(pre, "Norm")) < min(heights(pre, output))
    assert "(norm and add round it)" in pre.caption
    assert "Each stack ends with norm." in pre.caption


def test_figure_2_draws_the_attention_of_the_model(tmp_path):
    drawing, written = drawn(tmp_path, figure2, scaled=False)
    assert {"Dot-Product\nAttention", "Dot-Product Attention"} <= set(written)
    assert not any("cale" in text for text in [*written, drawing.caption, drawing.alt])
