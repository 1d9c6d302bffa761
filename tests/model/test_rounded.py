"""Weights in 8 bits are within half a step of what they were, and a model takes them as it takes whole ones."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.toy import random_model

from transformer.model import weights
from transformer.model.header import Unusable
from transformer.model.rounded import restored, rounded


@given(st.integers(1, 5), st.integers(1, 7), st.floats(1e-30, 1e30), st.integers(0, 10**6))
def test_each_weight_is_within_half_a_step(m, n, size, seed):
    """A row's greatest number has 127 steps; a row of zeros stays one; a vector is not rounded."""
    torch.manual_seed(seed)
    matrix, vector = torch.randn(m, n) * size, torch.randn(n)
    matrix[0] = 0.0
    found = restored(rounded({"a": matrix, "b": vector}))
    assert found.keys() == {"a", "b"}
    assert torch.equal(found["b"], vector)
    assert torch.equal(found["a"][0], matrix[0])
    half = matrix.abs().amax(dim=1, keepdim=True) / 127 / 2
    assert ((found["a"] - matrix).abs() <= half * 1.001).all()


def test_a_model_is_loaded_from_them(tmp_path):
    """Its file has a little over a quarter of the bytes."""
    model = random_model(1, d_model=64, embedding_rows=500)
    paths = [tmp_path / name for name in ("whole", "small")]
    weights.save(paths[0], model.state_dict(), {"digest": "0" * 64, "step": 1})
    weights.save(paths[1], rounded(model.state_dict()), {"digest": "0" * 64, "step": 1})
    assert paths[1].stat().st_size < 0.35 * paths[0].stat().st_size
    expected = restored(rounded(model.state_dict()))
    found = weights.load_model(paths[1], model.config).state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    assert found.keys() == model.state_dict().keys()


@pytest.mark.parametrize("step", [None, torch.ones(5), torch.ones(2, 1), torch.ones(500, 1, dtype=torch.float64)])
def test_steps_that_do_not_fit_are_refused(tmp_path, step):
    model = random_model(1, embedding_rows=500)
    tensors = rounded(model.state_dict())
    del tensors["embedding.weight.step"]
    weights.save(tmp_path / "w", tensors | ({} if step is None else {"embedding.weight.step": step}), {"step": 1})
    with pytest.raises(Unusable, match=r"w: embedding\.weight"):
        weights.load_model(tmp_path / "w", model.config)
