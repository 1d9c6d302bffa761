"""Checkpoints: files are read as written, foreign files are refused, averages are correct."""

import os

import pytest
import safetensors.torch
import torch
from support.toy import model_config, random_model

from transformer.model.weights import average, load_model, load_tensors, save_tensors
from transformer.storage.files import InputError

TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor(7.0)}
HEADER = {"digest": "d", "step": 3, "nested": [1, None, 0.1]}


def save_steps(folder, *tensors, digests=None, steps=None):
    """Write a checkpoint for each of `tensors`. The defaults are steps 10, 20, ... of run "d"."""
    steps = steps or [10 * number for number, _ in enumerate(tensors, start=1)]
    paths = [folder / f"{number}.safetensors" for number, _ in enumerate(tensors)]
    for path, step, digest, weights in zip(paths, steps, digests or ["d"] * len(paths), tensors, strict=True):
        save_tensors(path, weights, {"digest": digest, "step": step})
    return paths


def test_round_trip(tmp_path):
    path = tmp_path / "new" / "x.safetensors"
    transposed = {"c": torch.arange(6.0).reshape(2, 3).T}
    save_tensors(path, TENSORS | transposed, HEADER)
    tensors, header = load_tensors(path)
    expected = TENSORS | transposed
    assert tensors.keys() == expected.keys()
    assert all(torch.equal(tensors[name], expected[name]) for name in expected)
    assert header == HEADER
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize(
    "content",
    [b"", bytes(1000), safetensors.torch.save(TENSORS), safetensors.torch.save(TENSORS, {"about": "not JSON"})],
    ids=["empty", "zeros", "no about", "about is not JSON"],
)
def test_foreign_file(tmp_path, content):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"^{path}: truncated, or not a checkpoint of this project"):
        load_tensors(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_ff": 35}, r"decoder.0.feed_forward.inner.bias: expected shape \(35,\), found \(34,\)"),
        ({"N": 3}, r"decoder.2.\S+: expected shape \(\d+,\), found None"),
        ({"N": 1}, r"decoder.1.\S+: expected shape None, found \(\d+,\)"),
        ({"tied": False}, r"untied_output: expected shape \(\d+, \d+\), found None"),
    ],
    ids=str,
)
def test_another_models_weights(tmp_path, changes, message):
    path = tmp_path / "x.safetensors"
    save_tensors(path, random_model(1).state_dict(), HEADER)
    with pytest.raises(InputError, match=f"^{path}: {message}$"):
        load_model(path, model_config(**changes))


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([[1.0, 0.5], [2.0, -0.5], [6.0, 3.0]], [3.0, 1.0]),
        (
            [[2.0**25], [1.0], [-(2.0**25)], [1.0]],
            [0.5],
        ),  # in float32, 2^25 + 1 is 2^25, and the mean would be 0
    ],
)
def test_average_by_hand(tmp_path, terms, expected):
    mean, header = average(save_steps(tmp_path, *({"a": torch.tensor(term)} for term in terms)))
    assert header == {"digest": "d", "steps": [10 * number for number in range(1, len(terms) + 1)]}
    assert mean["a"].tolist() == expected
    assert mean["a"].dtype == torch.float32


@pytest.mark.parametrize(
    ("second", "digests", "steps", "found"),
    [
        (TENSORS, ["d", "d"], [5, 5], r"steps \[5, 5\]"),
        (TENSORS, ["d", "e"], [5, 10], ".*'(d|e)'.*'(d|e)'"),
        ({"a": torch.ones(3, 5), "c": torch.ones(2)}, ["d", "e"], [5, 10], "steps"),
    ],
    ids=["a step twice", "two runs", "two shapes"],
)
def test_average_wants_different_steps_of_one_run(tmp_path, second, digests, steps, found):
    with pytest.raises(InputError, match=f"^{tmp_path}: expected different steps of one run, found {found}"):
        average(save_steps(tmp_path, TENSORS, second, digests=digests, steps=steps))
