"""A training that ends when its dev perplexity stops improving, and a training with another run's weights."""

import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from support.toy import (
    ALONE,
    CPU,
    PROCESSOR,
    TORCHRUN,
    interrupt,
    make_data,
    make_experiment,
    make_run,
    model_config,
    random_lines,
    start,
    train,
)
from torch.testing import assert_close

from transformer import cli
from transformer.layout import Data, Run
from transformer.model import weights
from transformer.model.transformer import Transformer
from transformer.training.distributed import World, joined
from transformer.training.loop import TrainingError, TrainingRun
from transformer.training.states import best, dev_perplexities, publish
from transformer.training.validation import Evaluation

pytestmark = pytest.mark.usefixtures("on_the_processor")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return make_data(tmp_path_factory.mktemp("task") / "data", random_lines(1, 60), random_lines(2, 10))


EARLY = {"steps": 60, "learning_rate_scale": 3.0, "patience": 2, "averaged_checkpoints": 2}


def test_the_best_step_is_the_first_of_equal_steps():
    assert best({6: 2.0, 2: 3.0, 4: 2.0}) == 4
    assert best({}) == 0


def test_a_training_ends_early_with_the_checkpoints_up_to_the_best(tmp_path, monkeypatch):
    """Dev perplexities by hand: 4, 3, 2, 5, 6 at steps 2 to 10. An interruption at step 7 changes nothing."""
    monkeypatch.setattr(Evaluation, "perplexity", Evaluation.perplexity)  # so that pytest restores it afterwards
    for name, stops in (("whole", []), ("interrupted", [7])):
        for stop in [*stops, None]:
            run = train_up_to(stop, tmp_path / name)
        run.record("data")
    whole, interrupted = (Run(tmp_path / name) for name in ("whole", "interrupted"))
    assert dev_perplexities(whole) == dev_perplexities(interrupted) == {4: 3.0, 6: 2.0, 8: 5.0, 10: 6.0}
    record = json.loads(whole.record.read_text())
    assert (record["steps"], record["planned_steps"], record["dev_perplexity"]) == (10, 60, 2.0)
    for run in (whole, interrupted):
        published = Run(run.folder / "published")
        published.folder.mkdir()
        run.vocabulary.touch()
        publish(published, run, make_experiment(**EARLY), Data(run.folder), CPU)
        assert sorted(int(path.stem) for path in published.checkpoints.iterdir()) == [4, 6]
        assert weights.load_tensors(published.average)[1]["steps"] == [4, 6]
        assert weights.load_tensors(published.last)[1]["step"] == 6
    assert Run(whole.folder / "published").average.read_bytes() == published.average.read_bytes()


def test_a_checkpoint_stays_until_no_saved_state_may_need_it(tmp_path, monkeypatch):
    """Step 6 is the best until the training is killed at step 8. After the restart from step 5, it is not the best."""
    killed, again = {2: 4.0, 4: 3.0, 6: 2.0}, {6: 3.5, 8: 3.6}
    for given in (killed, again):
        run = start(tmp_path, make_experiment(logging={"evaluate_every": 1000, "save_every": 5}, **EARLY))
        monkeypatch.setattr(Evaluation, "perplexity", lambda *_, run=run, given=given: given[run.progress.step])
        with pytest.raises(TrainingError, match="KeyError: 8") if given is killed else nullcontext():
            train(run)
    assert (run.progress.step, dev_perplexities(Run(tmp_path))) == (8, {2: 4.0, 4: 3.0, 6: 3.5, 8: 3.6})


@pytest.mark.slow
def test_several_processes_end_at_the_same_step(tmp_path):
    """This also holds after an interruption. Only one process writes the perplexities, and all processes get them."""
    subprocess.run([str(word) for word in (*TORCHRUN, 2, __file__, tmp_path)], env=PROCESSOR, check=True)
    expected = {"step": 10, "perplexities": {"4": 3.0, "6": 2.0, "8": 5.0, "10": 6.0}}
    assert [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)] == [expected, expected]


def train_up_to(stop: int | None, folder: Path, world: World = ALONE) -> TrainingRun:
    """Train with the perplexities of the first test, to the end or up to an interruption at a step."""
    run = start(folder, make_experiment(logging={"evaluate_every": 1000}, **EARLY), world=world)
    given = dict(zip(range(2, 61, 2), [4.0, 3.0, 2.0, 5.0, 6.0, *[1.0] * 25], strict=True))
    Evaluation.perplexity = lambda *_: given[run.progress.step]
    interrupt(run, stop) if stop else train(run)
    return run


def test_a_training_begins_with_other_weights(tmp_path):
    torch.manual_seed(7)
    other = Transformer(model_config())
    weights.save_tensors(tmp_path / "other.safetensors", other.state_dict(), {"digest": "d", "step": 1})
    run = start(tmp_path / "run", make_experiment(initial_weights=str(tmp_path / "other.safetensors")))
    for name, tensor in run.learner.model.state_dict().items():
        assert_close(tensor, other.state_dict()[name], rtol=0, atol=0)
    plain = make_experiment(seed=1)
    begun = make_experiment(seed=1, initial_weights="a")
    assert begun.digest("data", "sum") == make_experiment(seed=1, initial_weights="b").digest("data", "sum")
    assert len({plain.digest("data"), begun.digest("data", "sum"), begun.digest("data", "other")}) == 3


def test_a_whole_run_continues_from_another(tmp_path, data):
    """The test uses the command. A vocabulary of other subwords is refused, and weights without a vocabulary."""
    first, second = (tmp_path / name for name in ("first", "second"))
    average = Run(first).average
    for folder, changes in ((first, {}), (second, {"initial_weights": str(average), "learning_rate_scale": 0.5})):
        make_run(folder, make_experiment(**changes))
        cli.main(["train", str(folder), "--data", str(data), "--threads", "1"])
    assert len(json.loads(Run(second).record.read_text())["initial_sha256"]) == 64
    Run(first).vocabulary.write_bytes(b"other")
    make_run(second, make_experiment(initial_weights=str(average), learning_rate_scale=0.6))
    with pytest.raises(SystemExit, match=r"initial_weights: .*: expected the vocabulary .*, found "):
        cli.main(["train", str(second), "--data", str(data), "--threads", "1"])
    Run(first).vocabulary.unlink()
    with pytest.raises(SystemExit, match=r"initial_weights: .* vocabulary\.model in the same folder, found none"):
        cli.main(["train", str(second), "--data", str(data), "--threads", "1"])


@pytest.mark.parametrize(
    ("shorter", "longer", "continues"),
    [
        ({}, {"steps": 20}, True),
        ({}, {"steps": 10}, True),  # two of the three checkpoints are the shorter training's
        ({}, {"steps": 11}, False),  # the shorter training has no checkpoint of step 7
        ({}, {"steps": 20, "learning_rate_scale": 0.5}, False),
        ({}, {"steps": 6}, False),
        (EARLY, EARLY | {"patience": 4}, True),
        (EARLY, EARLY | {"steps": 61, "patience": 4}, False),  # whose checkpoints are those of odd steps
    ],
)
def test_training_longer_continues_and_equals_a_whole_training(tmp_path, data, shorter, longer, continues):
    whole, part = (Run(tmp_path / name) for name in ("whole", "part"))
    for run, changes in ((part, shorter), (part, longer), (whole, longer)):
        make_run(run.folder, make_experiment(**changes))
        cli.main(["train", str(run.folder), "--data", str(data), "--threads", "1"])
    for path in (whole.average, whole.last):
        assert path.read_bytes() == (part.folder / path.name).read_bytes()
    starts = [json.loads(run.record.read_text())["starts"] for run in (whole, part)]
    assert [len(each) for each in starts] == [1, 1 + continues]


def test_a_damaged_shorter_training_is_not_continued(tmp_path, data, caplog):
    """Its older state is whole, but the first file that is copied, a checkpoint, is not."""
    whole, part = (Run(tmp_path / name) for name in ("whole", "part"))
    for run, steps in ((part, 8), (part, 10), (whole, 10)):
        make_run(run.folder, make_experiment(steps=steps))
        cli.main(["train", str(run.folder), "--data", str(data), "--threads", "1"])
        for path in part.state.glob("*/checkpoints/*.safetensors"):
            path.write_bytes(path.read_bytes()[:-1])
    assert "cannot continue the training in " in caplog.text
    assert whole.average.read_bytes() == part.average.read_bytes()


def end_early(out: Path) -> None:
    """Write `out`/{rank}.json: the last step of this process, and its perplexities."""
    with joined() as world:
        for stop in (7, None):
            run = train_up_to(stop, out / "run", world)
        known = {"step": run.progress.step, "perplexities": run.perplexities}
        (out / f"{world.rank}.json").write_text(json.dumps(known))


if __name__ == "__main__":  # started by torchrun
    end_early(Path(sys.argv[1]))
