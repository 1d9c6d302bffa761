"""Positional encoding, learning rate and learning curves. The tests read values from the axes."""

import numpy as np
import pytest
from support.scored import rivals, write_logs, write_scores
from support.toy import make_experiment, random_model

from transformer.config.experiment import save
from transformer.model import weights
from transformer.report.figures.curves import cost_curves, curves, positions, schedule


def drawn(folder, logs: dict, gaps: tuple = ()):
    return curves(metrics=write_logs(folder, logs), dev_label="toy", expected=[*logs, *gaps])


def test_curves_have_the_logged_values_and_list_missing_ones(tmp_path):
    base = [{"step": 100 * n, "dev_perplexity": 18 / 2**n, "dev_bleu": n} for n in (1, 2)]
    others = {"heads-1": [5.0], "no-warmup": [99.0], "N-2": [12.0]}
    logs = {"en-de/base/1": [{"step": 50}, *base]}
    for name, (perplexity,) in others.items():
        logs[f"en-de/{name}/1"] = [{"step": 100, "dev_perplexity": perplexity}]
    drawing = drawn(tmp_path, logs, ("en-fr/big/1",))
    perplexity, missing, bleu, _ = drawing.figure.axes
    lines = {line.get_label(): line for line in perplexity.lines}
    assert np.array_equal(lines["base"].get_data(), [[100, 200], [9.0, 4.5]])
    assert np.array_equal(lines["other rows of Tables 3 and 5"].get_data(), [[100], [5.0]])
    assert np.array_equal(lines["N-2"].get_data(), [[100], [12.0]])  # 12 is more than 1.25 times 4.5
    assert "Too high for the frame: no-warmup." in drawing.caption
    assert np.array_equal(bleu.lines[0].get_data(), [[100, 200], [1.0, 2.0]])
    assert "not shown: en-fr/big/1" in drawing.caption
    assert [text.get_text() for text in missing.texts] == ["none logged"]


def test_cost_curves_have_a_line_for_each_run_over_flops_and_seconds(tmp_path):
    scores, logs = rivals()
    scores[-1]["run"] |= {"hardware": "NVIDIA H200", "starts": [scores[-1]["run"]["starts"][0] | {"processes": 2}]}
    options = {"metrics": write_logs(tmp_path, logs), "score": write_scores(tmp_path / "test", *scores)}
    drawing = cost_curves(**options, dev_label="toy", expected=["en-de/conv/1", *logs])
    flops, seconds = (axes.lines for axes in drawing.figure.axes)
    assert [line.get_data()[0].tolist() for line in flops] == [[5e14, 1e15]] * 2 + [[2e15, 4e15]] * 2
    assert [line.get_data()[0].tolist() for line in seconds] == [[100, 200]] * 2 + [[500, 1000], [1000, 2000]]
    assert [line.get_data()[1].tolist() for line in flops] == [[20, 30], [24, 34], [40, 50], [60, 70]]
    looks = [(line.get_label(), line.get_linestyle()) for line in flops]
    assert looks == [("base", "-"), ("base", "-"), ("mine", "-"), ("mine", "--")]
    assert {line.get_linestyle() for line in drawing.figure.legends[0].get_lines()} == {"-"}
    assert "(solid: 2 CPU cores; dashed: NVIDIA H200)." in drawing.alt
    assert "Without dev BLEU, therefore not shown: en-de/conv/1." in drawing.alt
    assert drawing.alt.endswith("en-de/mine/2 70.0 at 4e+15 FLOPs, 2e+03 s.")
    options["metrics"] = []
    assert cost_curves(**options, dev_label="toy", expected=[]).figure.axes[1].texts[0].get_text() == "none logged"


@pytest.mark.parametrize("kind", ["sinusoid", "learned"])
def test_positions_equal_the_added_vectors(kind, tmp_path):
    model = random_model(1, positions=kind)
    save(make_experiment(model={"positions": kind}), tmp_path / "experiment.yaml")
    weights.save_tensors(tmp_path / "average.safetensors", model.state_dict(), {"digest": "d", "steps": [1]})
    drawing = positions(experiment=tmp_path / "experiment.yaml", weights=str(tmp_path / "average.safetensors"))
    (image,) = drawing.figure.axes[0].images
    table = np.array(image.get_array())
    assert ("learned" in drawing.caption) == (kind == "learned")
    expected = model.embedding.position_table[:100].detach().numpy()
    if kind == "sinusoid":
        angles = np.arange(100)[:, None] / 10000 ** (np.arange(0, 26, 2) / 26)
        expected = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(100, 26)
    np.testing.assert_allclose(table, expected, atol=1e-5)


def test_schedule_has_the_papers_peak(tmp_path):
    """§5.3: 512^-0.5 · 4000^-0.5 = 6.99e-4 at step 4000, half of it at step 2000."""
    path = tmp_path / "experiment.yaml"
    save(make_experiment(model={"d_model": 512}, steps=100_000, warmup_steps=4000), path)
    drawing = schedule(experiment=[path])
    line = drawing.figure.axes[0].lines[0]
    assert "en-de/base: maximum 6.99e-04." in drawing.caption
    assert np.interp([2000, 4000, 16000], *line.get_data()) == pytest.approx([3.49e-4, 6.99e-4, 3.49e-4], rel=0.01)
