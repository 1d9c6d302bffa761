"""Averages of the last checkpoints against the stages: average, translate, score; and the evaluation of a training."""

import pytest
import torch
from msgspec.structs import replace
from support.probing import STEPS, by_stages, measured, options

from transformer import __main__
from transformer.commands import average
from transformer.commands.train import open_text
from transformer.config.experiment import load, save
from transformer.model import weights
from transformer.runtime.distributed import World
from transformer.training.evaluation import Evaluation

pytestmark = pytest.mark.usefixtures("on_the_processor")


@pytest.fixture(scope="module")
def averages(place):
    return measured(place, "averaging", "--checkpoints", 1, 2, 3, 4)["averages"]


def dev_perplexity(place, file) -> float:
    """Return the perplexity of the encoded dev set, as a training measures it."""
    experiment = load(place / "run" / "experiment.yaml")
    dev = open_text(place / "data", "dev", experiment)
    evaluation = Evaluation(dev, None, (600, 600), 0, World(0, 1, torch.device("cpu")))
    return evaluation.perplexity(weights.load_model(file, experiment.model), torch.float32)


def test_only_checkpoints_that_were_kept_are_averaged(averages):
    assert [entry["checkpoints"] for entry in averages] == [1, 2, 3]
    assert [entry["steps"] for entry in averages] == [
        [STEPS],
        [STEPS - 10, STEPS],
        [STEPS - 20, STEPS - 10, STEPS],
    ]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_average_is_that_of_the_stages(averages, own, tmp_path, count):
    run = own / "run"
    for path in sorted((run / "checkpoints").iterdir())[:-count]:
        path.unlink()
    experiment = load(run / "experiment.yaml")
    training = replace(experiment.training, averaged_checkpoints=count)
    save(replace(experiment, training=training), run / "experiment.yaml")
    average.main(["--run", str(run)])
    lines = (own / "dev.en").read_text().splitlines()
    entry = averages[count - 1]
    expected = by_stages(run, (lines, lines), tmp_path)
    assert {key: entry[key] for key in expected} == expected
    assert 0 < entry["bleu"] < 100
    assert entry["perplexity"] == pytest.approx(dev_perplexity(own, run / "average.safetensors"))


def test_the_last_checkpoint_has_the_perplexity_of_the_training(averages, place):
    last = dev_perplexity(place, place / "run" / "last.safetensors")
    assert averages[0]["perplexity"] == pytest.approx(last)
    assert len({entry["perplexity"] for entry in averages}) == 3


@pytest.mark.parametrize(("left", "asked"), [(0, 1), (1, 2)])
def test_missing_checkpoints_are_refused(own, left, asked):
    paths = sorted((own / "run" / "checkpoints").iterdir())
    for path in paths[: len(paths) - left]:
        path.unlink()
    with pytest.raises(SystemExit, match=f"/checkpoints: expected {asked} checkpoints at least, found {left}$"):
        __main__.main(["probe", *options(own, "averaging", "--checkpoints", asked, 10)])


def test_checkpoints_of_another_training_are_refused(own):
    tensors, header = weights.load(own / "run" / "last.safetensors")
    weights.save(own / "run" / "checkpoints" / "00000001.safetensors", tensors, header | {"digest": "another"})
    message = r"/00000001\.safetensors: expected weights of the training \w+, found another$"
    with pytest.raises(SystemExit, match=message):
        __main__.main(["probe", *options(own, "averaging", "--checkpoints", "1")])
