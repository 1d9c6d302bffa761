"""A run with another seed is on track; for one that is not, compare names what is off, and by how much."""

import json
import os
import time

import pytest
from msgspec.structs import asdict
from support.toy import PREPARATION, make_experiment, make_run

from transformer import __main__, cli
from transformer.commands import train
from transformer.layout import SIDES
from transformer.training.optimizer import learning_rate
from transformer.training.trajectory import Comparison, read_log

SPLITS = {"train": (0, 6000), "dev": (20000, 500)}  # of the grammar's stream: skip, take
ROWS = 400


pytestmark = pytest.mark.usefixtures("on_the_processor")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Prepare the demo's corpus with sentences of up to eight words, which are learned in seconds."""
    folder = tmp_path_factory.mktemp("en-de")
    preparation = json.dumps(asdict(PREPARATION) | {"max_words": 8})
    for split, (skip, take) in SPLITS.items():
        corpus = folder / f"corpus-{split}"
        cli.run(["generate", "--seed", "1", "--skip", str(skip), "--take", str(take), "--output", str(corpus)])
        sides = ["--source", f"{corpus}.en", "--target", f"{corpus}.de", "--languages", "en", "de", "--clean"]
        cli.run(["tokenize", *sides, "--preparation", preparation, "--processes", "1", "--output", str(folder / split)])
    text = [str(folder / f"train.{side}.tok") for side in SIDES]
    model = str(folder / "vocabulary.model")
    cli.run(["vocabulary", "--text", *text, "--size", str(ROWS), "--sentences", "10000", "--output", model])
    cli.run(["encode", "--data", str(folder), "--splits", *SPLITS, "--processes", "1"])
    return folder


def do_train(folder, data, model=None, running=None, **settings):
    """Train one narrow layer each; 50 sentences are translated at the end."""
    sizes = (model or {}) | {"N": 1, "d_model": 64, "d_ff": 256, "h": 8, "d_k": 8, "d_v": 8, "embedding_rows": ROWS}
    running = {"log_every": 30, "evaluate_every": 1000, "bleu_sentences": 50, "save_every": 1000} | (running or {})
    tokens = {"source_tokens": 1000, "target_tokens": 1000, "warmup_steps": 140, "averaged_checkpoints": 1}
    run = make_run(folder / "1", make_experiment(model=sizes, running=running, **tokens | settings))
    train.main([str(run), "--data", str(data), "--threads", "1"])
    return run


@pytest.fixture(scope="module")
def reference(tmp_path_factory, data):
    return do_train(tmp_path_factory.mktemp("reference"), data, steps=180)


def compare(run, reference, capsys, *options):
    """Return what is printed, and the exit code."""
    capsys.readouterr()
    code = 0
    try:
        __main__.main(["compare", str(run), str(reference), *map(str, options)])
    except SystemExit as exit:
        code = exit.code
    return capsys.readouterr().out, code


@pytest.mark.slow
def test_a_right_run_with_another_seed_is_on_track(tmp_path, data, reference, capsys):
    page, code = compare(do_train(tmp_path, data, seed=2, steps=180), reference, capsys)
    assert code == 0
    assert page.splitlines()[-1] == "on the expected trajectory, up to step 180"
    assert "settings that differ" not in page
    assert [line.split()[0] for line in page.splitlines()[2:6]] == ["1", "60", "90", "120"]


def test_a_run_with_other_settings_is_off(tmp_path, data, reference, capsys):
    run = do_train(tmp_path, data, steps=30, source_tokens=250, target_tokens=250, rate=2.0)
    page, code = compare(run, reference, capsys)
    assert code == 1
    changed = [f"training.{side}_tokens 250 (reference 1000)" for side in ("source", "target")]
    assert f"\nsettings that differ: training.rate 2.0 (reference 1.0), {', '.join(changed)}\n" in page
    assert "\noff the expected trajectory from step 1\n" in page
    assert "\nrate: 2 times the reference's at step " in page
    assert "\ntarget tokens in a batch: 0.2" in page


@pytest.mark.slow
def test_a_fault_is_recognised_by_the_curve_of_another_seed(tmp_path, data, capsys):
    """The nearest of two rows of Table 5, each trained with seed 1, is the one that has the run's fault."""
    short = {"steps": 90, "running": {"evaluate_every": 30, "bleu_sentences": 0}}
    rows = {"residual": {"model": {"residual": False}}, "warmup": {"warmup": False}}
    claims = [do_train(tmp_path / name, data, **row, **short) for name, row in rows.items()]
    usual = do_train(tmp_path / "usual", data, **short)
    for fault, row in rows.items():
        run = do_train(tmp_path / "run" / fault, data, seed=2, **row, **short)
        page, code = compare(run, usual, capsys, "--claims", *claims)
        assert code == 1
        assert f"\nnearest to the curve of {fault}/1: {fault} false\n" in page


# Logs that are made up.


def write_log(path, steps, **changes):
    """Write a line for each of `steps`; a change is a number or a function of the step."""
    usual = {"smoothed_loss": 5.0, "perplexity": 90.0, "rate": lambda step: learning_rate(step, 64, 50)}
    usual |= {"gradient_norm": 1.0, "batch_source_tokens": 900.0, "batch_target_tokens": 1000.0}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for step in steps:
            values = {key: value(step) if callable(value) else value for key, value in (usual | changes).items()}
            file.write(json.dumps({"step": step} | values) + "\n")
    return path


def test_means_are_taken_over_the_same_steps(tmp_path):
    """A reference that logs less often: its line at step 4 is the mean of steps 2 to 4."""
    losses = {1: 8.0, 2: 6.0, 3: 5.0, 4: 1.0}
    ours = write_log(tmp_path / "a.jsonl", losses, smoothed_loss=losses.get, gradient_norm=losses.get)
    theirs = write_log(tmp_path / "b.jsonl", [1, 4], smoothed_loss={1: 8.0, 4: 4.0}.get, gradient_norm=2.0)
    comparison = Comparison(read_log(ours), read_log(theirs))
    assert comparison.ours["smoothed_loss"].to_dict() == {1: 8.0, 4: 4.0}
    assert comparison.ours["gradient_norm"].to_dict() == {1: 8.0, 4: 4.0}
    assert comparison.ours["rate"].to_dict() == pytest.approx(
        {1: learning_rate(1, 64, 50), 4: learning_rate(4, 64, 50)}
    )
    assert comparison.reference["smoothed_loss"].to_dict() == {1: 8.0, 4: 4.0}
    assert not comparison.wrong["smoothed_loss"].any()
    assert comparison.off == 1  # by the gradient norm


def test_a_run_in_training_is_read_from_its_newest_state(tmp_path, capsys):
    """Also while a line is being written."""
    reference = write_log(tmp_path / "reference.jsonl", range(10, 101, 10))
    old = write_log(tmp_path / "1" / "state" / "aa" / "metrics.jsonl", range(10, 101, 10), smoothed_loss=9.0)
    os.utime(old, (time.time() - 60, time.time() - 60))
    new = write_log(tmp_path / "1" / "state" / "bb" / "metrics.jsonl", range(10, 51, 10))
    new.write_text(new.read_text() + '{"step": 60, "smoo')
    page, code = compare(tmp_path / "1", reference, capsys)
    assert (page.splitlines()[-1], code) == ("on the expected trajectory, up to step 50", 0)


def test_a_log_without_gradient_norms_is_compared_by_the_rest(tmp_path, capsys):
    """The logs of earlier versions are such."""
    log = write_log(tmp_path / "log.jsonl", range(10, 101, 10), dev_bleu=20.0)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    log.write_text(
        "".join(json.dumps({k: v for k, v in line.items() if k != "gradient_norm"}) + "\n" for line in lines)
    )
    page, code = compare(log, log, capsys)
    assert code == 0
    assert page.splitlines()[0].split("  ")[-1].strip() == "dev BLEU"
    assert page.splitlines()[-1] == "on the expected trajectory, up to step 100"


def test_each_measure_that_is_off_is_named_where_it_is_furthest_off(tmp_path, capsys):
    steps = range(50, 251, 50)
    losses = {50: 5.0, 100: 5.0, 150: 5.0, 200: 6.0, 250: 7.0}
    ours, theirs = (dict(zip(steps, bleu, strict=True)) for bleu in ((0, 0, 5, 1, 2), (0, 0, 20, 30, 30.5)))
    run = write_log(tmp_path / "a.jsonl", steps, smoothed_loss=losses.get, dev_perplexity=100.0, dev_bleu=ours.get)
    reference = write_log(tmp_path / "b.jsonl", steps, dev_perplexity=100.0, dev_bleu=theirs.get)
    page, code = compare(run, reference, capsys)
    assert code == 1
    assert page.splitlines()[-5:] == [
        "off the expected trajectory from step 200",
        "smoothed loss: 1.4 times the reference's at step 250, 7.000 (5.000)",
        "dev BLEU: -29.0 points at step 200, 1.0 (30.0)",
        "",
        "no runs of Table 5's rows to compare its curve with: `snakemake results/{scale}/tables/table5.md` trains them",
    ]
    assert [line.split()[0] for line in page.splitlines() if "!" in line] == ["200", "250", "reference"]


def error(*argv):
    """Return the one line that bad input ends with."""
    with pytest.raises(SystemExit) as exit:
        __main__.main(["compare", *map(str, argv)])
    message = exit.value.code
    assert "\n" not in message
    return message.removeprefix("transformer compare: error: ")


def test_logs_without_a_common_step_are_named_with_their_ranges(tmp_path):
    run, reference = write_log(tmp_path / "a.jsonl", range(5, 25, 5)), write_log(tmp_path / "b.jsonl", (30, 60))
    assert error(run, reference) == f"no common steps: steps 5 to 20 in {run}, steps 30 to 60 in {reference}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"step": 1, "dev_bleu": 0.0}\n', ": expected the log of a training, found no smoothed_loss"),
        ('{"step": 1, "smoothed_loss": 5.0}\n', ": expected the log of a training, found no perplexity"),
        ('{"step": 1}\n{"loss": 5}\n', ", line 2: missing key 'step'"),
        ("step 1\n", ", line 1: cannot be read as JSON: Expecting value: line 1 column 1 (char 0)"),
        ('{"step": 1, "smoothed_loss": "low"}\n', ", line 1, smoothed_loss: expected float, found 'low'"),
    ],
    ids=["scores alone", "loss alone", "no step", "not JSON", "not a number"],
)
def test_a_bad_log_is_named(tmp_path, content, message):
    good, bad = write_log(tmp_path / "good.jsonl", (1, 2)), tmp_path / "bad.jsonl"
    bad.write_text(content)
    assert error(bad, good) == f"{bad}{message}"
    assert error(good, bad) == f"{bad}{message}"


def test_a_bad_experiment_and_a_missing_log_are_named(tmp_path):
    log = write_log(tmp_path / "run" / "metrics.jsonl", (1, 2))
    (tmp_path / "run" / "experiment.yaml").write_text("scale")
    assert error(tmp_path / "run", log) == f"{tmp_path}/run/experiment.yaml: expected a mapping, found str"
    assert error(log.rename(tmp_path / "log"), tmp_path / "none").startswith(f"{tmp_path}/none: cannot be read: ")
    assert error(tmp_path / "run", log) == f"{tmp_path}/run: no metrics.jsonl, neither here nor in state/*/"
