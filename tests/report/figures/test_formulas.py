"""Positional encoding and learning rate: values are read back from the axes."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from support.toy import make_experiment, random_model

from transformer.config.experiment import save
from transformer.files import InputError
from transformer.model import weights
from transformer.report.figures.curves import positions, schedule


@pytest.mark.parametrize("kind", ["sinusoid", "learned", "none"])
def test_positions_are_those_that_are_added(kind, tmp_path):
    model = random_model(1, positions=kind)
    save(make_experiment(model={"positions": kind}), tmp_path / "experiment.yaml")
    weights.save(tmp_path / "average.safetensors", model.state_dict(), {"digest": "d", "steps": [1]})
    input = SimpleNamespace(experiment=tmp_path / "experiment.yaml", weights=str(tmp_path / "average.safetensors"))
    if kind == "none":
        with pytest.raises(InputError, match=r": expected positions sinusoid, learned or words, found 'none'$"):
            positions(input, None)
        return
    drawing = positions(input, None)
    (image,) = drawing.figure.axes[0].images
    table = np.array(image.get_array())
    assert ("learned" in drawing.caption) == (kind == "learned")
    if kind == "learned":
        assert np.array_equal(table, model.embedding.position_table[:100].detach())
        return
    for pos, i in ((0, 0), (7, 3), (99, 12)):
        angle = pos / 10000 ** (2 * i / 26)
        assert table[pos, 2 * i : 2 * i + 2] == pytest.approx([math.sin(angle), math.cos(angle)], abs=1e-5)


def test_schedule_has_the_papers_peak(tmp_path):
    """§5.3: 512^-0.5 · 4000^-0.5 = 6.99e-4 at step 4000, half of it at step 2000."""
    path = tmp_path / "experiment.yaml"
    save(make_experiment(model={"d_model": 512}, steps=100_000, warmup_steps=4000), path)
    drawing = schedule(SimpleNamespace(experiment=[path]), None)
    line = drawing.figure.axes[0].lines[0]
    assert drawing.data == {"en-de/base": pytest.approx(6.99e-4, rel=1e-3)}
    assert np.interp([2000, 4000, 16000], *line.get_data()) == pytest.approx([3.49e-4, 6.99e-4, 3.49e-4], rel=0.01)
