"""The benchmarks on toy sizes with the installed peers. Some numbers are computed by hand."""

import importlib.util
import json

import numpy as np
import pytest
import torch
from support.toy import make_data, make_experiment, make_run, model_config, random_lines, random_model

from benchmarks import decode, gpu, train, workload
from benchmarks.loops import Step
from transformer.layout import Data
from transformer.model import weights as checkpoints
from transformer.training.batches import plan_batches

SQUARE = {"d_model": 24, "h": 2, "d_k": 12, "d_v": 12}  # all peers support these widths


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_data(tmp_path_factory.mktemp("toy") / "data", random_lines(1, 300), random_lines(2, 20))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Make a run with a model that every peer supports. It has no dropout and no other randomness."""
    experiment = make_experiment(
        model=SQUARE | {"P_drop": 0.0}, source_tokens=200, target_tokens=200, learning_rate_scale=0.1
    )
    run = make_run(tmp_path_factory.mktemp("runs") / "en-de/base/1", experiment)
    model = random_model(1, **SQUARE)
    checkpoints.save_tensors(run / "average.safetensors", model.state_dict(), {"digest": "ab", "steps": [1]})
    return run


def test_training(data, run, tmp_path):
    """After the warm-up, the batches follow the plan. With equal weights and rates, PyTorch's losses are equal."""
    train.main(run=run, data=data, steps=6, warm_up=1, in_a_row=1, threads=1, output=tmp_path / "train.json")
    result = json.loads((tmp_path / "train.json").read_text())
    ours, plain = result["systems"]["ours"], result["systems"]["plain"]
    lengths = workload.of_run(run, data).text.lengths
    batches = plan_batches(1, 0, lengths, (200, 200))[1:7]
    assert ours["source_tokens"] == [lengths[0, batch].sum() for batch in batches]
    assert ours["target_tokens"] == [lengths[1, batch].sum() for batch in batches] == plain["target_tokens"]
    assert ours["losses"] == pytest.approx(plain["losses"], rel=1e-4)
    assert ours["losses"][-1] < ours["losses"][0]
    assert ours["target_tokens_per_second"] == np.median(np.divide(ours["target_tokens"], ours["seconds"]))
    assert 0 <= ours["padding_share"] < 0.5
    assert ours["flops_utilisation"] > 0
    assert ("joeynmt" in result["systems"]) == bool(importlib.util.find_spec("joeynmt"))


def test_the_papers_models_are_of_their_sizes():
    """None of their batches is trained, because one takes too long on a processor."""
    base, big = (workload.of_paper(model, 2000) for model in ("base", "big"))
    assert (base.experiment.model.d_model, base.experiment.model.embedding_rows) == (512, 40960)
    assert (big.experiment.model.d_model, big.experiment.training.target_tokens) == (1024, 25000)
    assert base.text.lengths.mean() == pytest.approx(28, rel=0.1)
    assert np.corrcoef(base.text.lengths)[0, 1] > 0.8


def test_utilisation_by_hand():
    """Two source tokens and one target token: 3 (2 N (3P + F) 3 + 2 V d_model + 2 N h (d_k + d_v) (4 + 1 + 2))."""
    model = model_config(N=1, d_model=2, d_ff=4, h=1, d_k=2, d_v=2, embedding_rows=3)
    flops = 3 * (2 * (3 * 8 + 16) * 3 + 2 * 3 * 2 + 2 * 4 * 7)  # = 924
    step = Step(np.array([[2], [1]]), positions=3)
    taken = train.Taken(torch.float32, [[step]] * 3, [2.0, 1.0, 4.0])
    assert train.utilisation(model, taken, ceiling=flops) == 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "code", "words"), [(600, 0, "all checks that ran are right"), (1, 1, "kernels failed")]
)
def test_a_gpus_first_minutes(tmp_path, capfd, limit, code, words):
    """On a processor with small models. The file contains the findings up to the failure."""
    names = ["kernels"] if code else ["kernels", "resume", "together", "base"]
    assert gpu.run_all(tuple(names), limit, tmp_path / "gpu.json") == code
    assert words in capfd.readouterr().out.splitlines()[-1]
    checks = json.loads((tmp_path / "gpu.json").read_text())["checks"]
    assert list(checks) == names
    assert [name for name in checks if "leftout" in checks[name]] == ([] if code else ["base"])


@pytest.mark.slow
def test_a_gpus_curve_and_translations_are_compared_with_the_records(data, run, tmp_path, monkeypatch):
    """A toy replaces the record. Its own translations match, and a loss far from the log fails."""
    (tmp_path / "1").symlink_to(run)
    monkeypatch.setattr(gpu, "RECORD", tmp_path)
    monkeypatch.setattr(gpu, "DATA", Data(data))
    (run / "metrics.jsonl").write_text(json.dumps({"step": 300, "loss": 99.0}) + "\n")
    with pytest.raises(gpu.Failed, match=r"loss .* expected 99.000 to 99.000"):
        gpu.curve()
    assert gpu.decoding()["same_as_the_processors"] == [20, 20]


@pytest.mark.slow
def test_decoding(data, run, tmp_path):
    """Each system has its own process. Greedy outputs agree, unless an untrained model is cut at the limit."""
    decode.main(run=run, data=data, sentences=12, batches=[1, 5], threads=1, output=tmp_path / "decode.json")
    result = json.loads((tmp_path / "decode.json").read_text())
    assert result["left_out"] == {}
    assert result["systems"].keys() == decode.NAMES.keys()
    ours = result["systems"]["ours"]
    assert {"sentences/s, 1 a batch", "sentences/s, 5 a batch", "sentences/s, tokens a batch"} <= ours.keys()
    assert ours["same_by_beam"] == ours["times_slower"] == 1
    for name in ("ctranslate2", "transformers"):
        assert result["systems"][name]["same_greedy"] > 0.5
