"""The cost of a scale, compared with hand-computed sizes of the paper, written files, and the counts in Table 3."""

import csv
import json
import re
from pathlib import Path

import pytest
import torch
from support.scored import score
from support.toy import make_experiment

from transformer.cli import main
from transformer.commands import plan
from transformer.config.scales import RunName
from transformer.config.settings import read
from transformer.layout import Data, Run
from transformer.model import weights
from transformer.model.transformer import Transformer
from transformer.pipeline.registry import TABLES
from transformer.pipeline.scale import Pipeline
from transformer.storage.files import InputError
from transformer.training import benchmark
from transformer.training.states import publish

ROOT = Path(__file__).parents[2]
V_37000 = "scales={paper: {tasks: {en-de: {embedding_rows: 37000}}}}"  # the paper's number of subwords
with open(ROOT / "workflow/paper/table3.csv", encoding="utf-8", newline="") as file:
    TABLE_3 = list(csv.DictReader(file))


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch) -> Path:
    for name in ("config.yaml", "config", "workflow", "benchmarks"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pipeline(*entries: str) -> Pipeline:
    return Pipeline(read([], ["scale=paper", *entries]))


def printed(capsys, *arguments: str) -> str:
    main(["plan", *arguments])
    return capsys.readouterr().out


def test_flops_of_table_3_by_hand():
    """A step's TFLOPs for 25,000 + 25,000 tokens in sentences of 30 tokens and 37,000 subwords."""
    scale = pipeline(V_37000)
    trainings = plan.planned_runs(scale)
    others = {"d_k-16": 8.44, "d_k-32": 8.80, "d_ff-1024": 7.64, "d_ff-4096": 13.31, "N-2": 5.07, "N-4": 7.30}
    others |= {"N-8": 11.76, "big": 32.27, "d_model-256": 4.06, "d_model-1024": 24.72}
    runs = TABLES["table3"].runs(scale)
    assert (len(runs), others.keys() - {run.experiment for run in runs}) == (22, set())
    for run in runs:
        tera = others.get(run.experiment, 9.53)  # base's, if no matrix has another size
        assert plan._run_flops(trainings[run]) / trainings[run].training.steps / 1e12 == pytest.approx(tera, abs=0.005)
    once = sum(plan._run_flops(trainings[run]) for run in runs if run.seed == 1)
    assert once == pytest.approx(2.83e19, abs=0.005e19)


def test_each_run_counts_once(capsys):
    """`all` has Table 3's 20 runs, 13 more of Table 5, two more seeds of base, French base and big, and two other
    architectures in both languages. With the treebank, it has two parsers.
    """
    options = ["--gpu", "h200", "--utilisation", "0.5", "--config", "scale=paper"]
    output = printed(capsys, *options)
    rows = dict(re.findall(r"^(\w+) +(\d+) .* GB$", output, re.MULTILINE))
    assert rows == {"table2": "10", "table3": "22", "table5": "35", "bleu_variants": "5", "all": "41"}
    assert "\nHours of lstm are too low: an LSTM processes a sequence step by step.\n" in output
    Path("resources/wsj").mkdir(parents=True)
    output = printed(capsys, *options, "scales={paper: {seeds_of: {base: [1, 2]}}}", "--price", "2")
    assert re.search(r"^table4 +2 ", output, re.MULTILINE)
    flops, hours, cost = re.search(r"^table3 +21 +\S+ +(\S+) +(\S+) .* GB +(\S+)$", output, re.MULTILINE).groups()
    assert re.search("^all +42 ", output, re.MULTILINE)
    assert float(hours) == pytest.approx(float(flops) / (989e12 / 2) / 3600, rel=0.01)
    assert float(cost) == pytest.approx(2 * float(hours), rel=0.01)


def test_additive_attention_takes_more_time_than_its_flops():
    """The tanh over all queries, keys and their dimensions is not a matrix product. By hand for base on a core."""
    scale = pipeline()
    run, speed = plan.planned_runs(scale)[scale.base("additive")], plan._Speed("core", "core", 1e12, "")
    numbers = 18 * 8 * 64 * 30 * 25_000  # three attentions in each of six layers
    assert plan._run_hours(run, speed) * 3600 == pytest.approx((plan._run_flops(run) + 100_000 * 700 * numbers) / 1e12)


def test_masking_heads_takes_time_too(capsys):
    """Base has 48 heads of each kind. By hand: 50 dev sentences for each trial, and 3,000 after each choice."""
    scale, speed = pipeline(), plan._Speed("GPU", "GPU", 1e12, "")
    forward = plan._step_flops(plan.planned_runs(scale)[scale.base()]) / 3 / (25_000 / 30)  # of one sentence
    sentences = 3 * sum(range(1, 49)) * 50 + (3 * 48 + 3 * 48) * 3000
    assert plan._masking_hours(scale, speed) * 3600 == pytest.approx(3 * sentences * forward / 1e12)  # three seeds
    assert "`heads` of Table 5, takes about" in printed(capsys, "--gpu", "h200", "--config", "scale=paper")


def write_benchmark(folder: Path, name: str, hardware: str, utilisation: float, measured: str = "2027-01-01") -> None:
    """Write a result of `python -m benchmarks.train` from a machine with 600 TFLOP/s in matrix products."""
    ours = {"products": "bfloat16", "flops_utilisation": utilisation}
    record = {"label": name, "hardware": hardware, "measured": measured, "commit": "c0ffee" * 7}
    record |= {"matrix_flops_per_second": {"bfloat16": 600e12}, "systems": {"ours": ours}}
    (folder / f"train-{name}-{measured}.json").write_text(json.dumps(record))


def test_a_machine_is_as_fast_as_it_was_measured(project):
    (project / "benchmarks").unlink()
    folder = project / "benchmarks/results"
    folder.mkdir(parents=True)
    write_benchmark(folder, "paper-base", "NVIDIA GH200 480GB", 0.9)  # another machine
    assert "There is no benchmark of this GPU" in plan._gpu_speed("h200", None).source
    write_benchmark(folder, "paper-base", "NVIDIA H200", 0.1, "2026-12-01")  # older than the next
    write_benchmark(folder, "paper-base", "NVIDIA H200", 0.4)
    write_benchmark(folder, "paper-big", "NVIDIA H200", 0.6)
    assert plan._gpu_speed("h200", None).flops_per_second == pytest.approx(240e12)
    assert plan._gpu_speed("h200", 0.5).flops_per_second == pytest.approx(989e12 / 2)


def test_a_step_of_this_machine_is_timed(monkeypatch):
    """By hand: 1 and 3 GFLOPs per layer in 0.1 and 0.2 s give 20 GFLOP/s and an overhead of 0.05 s."""
    monkeypatch.setattr("transformer.device.best_device", lambda: torch.device("cpu"))
    monkeypatch.setattr(plan, "_step_flops", lambda run: {1: 1e9, 2: 6e9}[run.model.N])
    monkeypatch.setattr(benchmark, "time_step", lambda run, share, device: {1: 0.1 * share, 2: 0.4}[run.model.N])
    one, two = (make_experiment(model={"N": N}) for N in (1, 2))
    speed = plan._own_speed(one, two)
    assert (speed.flops_per_second, speed.layer_seconds) == pytest.approx((2e10, 0.05))
    steps, flops = two.training.steps, plan._run_flops(two)
    expected = speed.start_seconds + steps * 2 * 0.05 + flops / 2e10
    assert plan._run_hours(two, speed) * 3600 == pytest.approx(expected)
    monkeypatch.setitem(benchmark.MOST_FLOPS, "cpu", 0.5e9)
    speed = plan._own_speed(one, two)
    assert (speed.flops_per_second, speed.layer_seconds) == pytest.approx((1e10, 0))
    assert speed.source.endswith("a step of base takes 0.05 s, timed with 0.5 of its batch.")


def test_a_run_of_each_architecture_is_timed(monkeypatch):
    """Each run has 1e9 FLOPs a step, in 0.1 s for base and 0.5 s for an LSTM. Only trainings of the scale are timed."""
    monkeypatch.setattr("transformer.device.best_device", lambda: torch.device("cpu"))
    monkeypatch.setattr(plan, "_step_flops", lambda run: 1e9)
    monkeypatch.setattr(
        benchmark, "time_step", lambda run, *_: {"transformer": 0.1, "lstm": 0.5}[run.model.architecture]
    )
    trainings = plan.planned_runs(pipeline())
    base, lstm = (trainings[RunName("en-de", name, 1)] for name in ("base", "lstm"))
    speed = plan._own_speeds(base, [base, lstm])
    hours = [plan._run_hours(run, speed._replace(start_seconds=0.0)) for run in (base, lstm)]
    assert hours[0] * 3600 == pytest.approx(0.1 * base.training.steps)
    assert hours[1] * 3600 - speed.start_seconds == pytest.approx(0.5 * lstm.training.steps)
    assert re.search(r"base takes 0.1 s\.\nSpeed of lstm: .* a step of lstm takes 0.5 s\.$", speed.source)


def test_a_part_of_a_batch_takes_less_time(monkeypatch):
    monkeypatch.setattr(benchmark, "_TIMED_SECONDS", 0.2)
    demo = Pipeline(read([], []))
    base = plan.planned_runs(demo)[demo.base()]
    part, whole = (benchmark.time_step(base, share, torch.device("cpu")) for share in (0.1, 1.0))
    assert 0 < part < whole < 30


def test_the_estimated_size_of_a_run_equals_its_files(tmp_path):
    """States, checkpoints (one with two names) and the average are really written. File headers are negligible."""
    run = make_experiment(model={"d_model": 128, "d_ff": 512}, averaged_checkpoints=3)
    model = Transformer(run.model).state_dict()
    trained, published = Run(tmp_path / "trained"), Run(tmp_path / "published")
    for step in (1, 2, 3):
        weights.save_tensors(trained.checkpoint(step), model, {"digest": "d", "step": step})
    for path in (trained.metrics, trained.vocabulary):
        path.touch()
    trained.record.write_text(json.dumps(score(30.0)["run"]))
    published.folder.mkdir()
    publish(published, trained, run, Data(trained.folder), torch.device("cpu"))
    written = {path.stat().st_ino: path.stat().st_size for path in tmp_path.rglob("*.safetensors")}
    states = plan._STATES * plan._STATE * plan._WEIGHT * sum(tensor.numel() for tensor in model.values())
    assert plan.run_bytes(run) == pytest.approx(sum(written.values()) + states, rel=0.03)


def test_lines_of_the_tasks():
    """WMT's counts are known. One edition is estimated from its archive, close to another edition's 270,769 lines."""
    config = read([], [])
    tasks = config.scales["paper"].tasks
    assert [plan._training_lines(config, tasks[name]) for name in ("en-de", "en-fr")] == [4_520_620, 40_842_333]
    assert 270_769 < plan._corpus_lines(config, "news-commentary-v13.de-en") < 4 * 270_769


def test_an_unknown_gpu_is_refused():
    with pytest.raises(InputError, match=r"--gpu: expected one of b200, .*v100, found h300"):
        plan._gpu_speed("h300", None)


def test_table_3_as_printed():
    """Sums over the columns, computed from the printed page, detect a changed digit."""
    assert "".join(row["row"] for row in TABLE_3) == "AAAABBCCCCCCCDDDDE"
    assert sum(float(row["perplexity"]) for row in TABLE_3) == pytest.approx(101.87)
    assert sum(float(row["bleu"]) for row in TABLE_3) == pytest.approx(507.7)
    assert [row["parameters"] for row in TABLE_3 if row["parameters"]] == (
        ["65", "58", "60", "36", "50", "80", "28", "168", "53", "90", "213"]
    )
