"""A run's settings: resolved, read and named. config.yaml's runs at scale paper are compared with the printed rows."""

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
import yaml
from msgspec import structs

from transformer.config import settings
from transformer.config.experiment import Experiment, load, save
from transformer.config.scales import RunName, ScaleSettings
from transformer.report.tables.cells import read_printed
from transformer.storage.files import InputError

ROOT = Path(__file__).parents[2]
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))


def configured(scale: str, task: str, experiment: str, **changes: dict) -> Experiment:
    """Return a run of config.yaml with changed sections: base, the experiment, changes of scale and task."""
    config = settings.accept(CONFIG | {key: CONFIG[key] | value for key, value in changes.items()})
    return ScaleSettings(config, scale).experiment(RunName(task, experiment, 1))


# Later rows override earlier ones, and the result is divided.


def test_a_later_row_wins_and_is_divided():
    """Base, the scale's base, the row, the scale's row and the task's, divided by the width 4 and the depth 2."""
    scale = CONFIG["scales"]["multi30k"]
    task = scale["tasks"]["en-de"] | {"experiments": {"big": {"d_v": 24}}}
    changed = scale | {"base": {"N": 4, "h": 2}, "experiments": {"big": {"h": 3, "steps": 17000, "d_k": 16}}}
    changed |= {"tasks": scale["tasks"] | {"en-de": task}}
    run = configured("multi30k", "en-de", "big", scales={"multi30k": changed})
    expected = {"N": 2, "d_model": 256, "d_ff": 1024, "h": 3, "d_k": 4, "d_v": 6}
    assert run.model == structs.replace(configured("multi30k", "en-de", "big").model, **expected, P_drop=0.3)
    assert run.training.steps == 17000


# Files


@pytest.fixture
def file(tmp_path, experiment) -> Path:
    save(experiment, tmp_path / "experiment.yaml")
    return tmp_path / "experiment.yaml"


def edit(file: Path, path: Iterable[str], change: dict) -> None:
    data = mapping = yaml.safe_load(file.read_text("utf-8"))
    for key in path:
        mapping = mapping[key]
    mapping.update(change)
    file.write_text(yaml.safe_dump(data), encoding="utf-8")


def test_a_run_there_and_back_in_the_order_of_the_class(file, experiment):
    assert load(file) == experiment
    assert list(yaml.safe_load(file.read_text("utf-8"))) == list(Experiment.__struct_encode_fields__)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (
            "seed",
            True,
            "seed: expected a whole number from 0 to 4,294,967,295, found True",
        ),  # in Python a bool is an int
        ("model", 3, "model: expected a mapping, found 3"),
        ("model.norm", "pst", "model.norm: expected batch or post or pre, found 'pst'; did you mean 'post'?"),
        ("training.steps", 4, "training.steps: expected at least 5 for 3 checkpoints, found 4"),
        ("preparation.whole_words", True, "preparation: unknown key 'whole_words'; did you mean 'tokenizer'?"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_place(file, key, value, words):
    edit(file, ["training"], {"checkpoint_every": 2, "averaged_checkpoints": 3})
    *path, last = key.split(".")
    edit(file, path, {last: value})
    with pytest.raises(InputError) as refused:
        load(file)
    assert str(refused.value) == f"{file}: {words}"


# The digest

OTHER = {"positions": "learned", "sinusoids": "concatenated", "target_spaces": 32, "norm": "pre", "max_ratio": 2.5}
OTHER |= {"attention": "additive", "tokenizer": "none", "initial_weights": "x", "max_piece_length": 9}
OTHER |= {"max_length": 9, "patience": 9}


def other(key, value):
    if key in OTHER:
        return OTHER[key]
    if isinstance(value, float):
        return (value + 1) / 3  # still a probability
    return not value if isinstance(value, bool) else value + ("x" if isinstance(value, str) else 1)


def test_what_changes_a_training_changes_its_digest_and_nothing_else_does(experiment, file):
    whole = msgspec.to_builtins(experiment)
    sections = {(key,): value for key, value in whole.items() if isinstance(value, dict)} | {(): whole}
    for path, section in sections.items():
        for key, value in section.items():
            if not isinstance(value, dict) and key != "architecture":  # other architectures have other sizes
                save(experiment, file)
                edit(file, path, {key: other(key, value)})
                same = load(file).digest("data") == experiment.digest("data")
                assert same is ((*path, key)[0] in ("label", "running")), (path, key)
    assert experiment.digest("data") != experiment.digest("other data")


# config.yaml

# Table 3 as printed in the paper (§6.2), without entries that are not symbols, such as "positional embedding".
PRINTED = read_printed(ROOT / "workflow/paper/table3.csv").set_index("experiment")
TABLE_3 = {
    name: {symbol: float(value) for symbol, value in re.findall(r"(\w+)=([\d.]+)", changed)}
    for name, changed in PRINTED["changed"].items()
}


@pytest.mark.parametrize("name", CONFIG["experiments"] | TABLE_3)
def test_at_paper_scale_an_experiment_is_its_row_of_table_3(name):
    run = configured("paper", "en-de", name)
    row = structs.asdict(run.model) | structs.asdict(run.training)
    printed = TABLE_3["base"] | TABLE_3[name]
    assert {symbol: row[symbol] for symbol in printed} == printed
    assert f"{row['steps'] / 1000:g}K" == (PRINTED["steps"][name] or PRINTED["steps"]["base"])
    assert row["positions"] == ("learned" if name == "learned-positions" else "sinusoid")  # row E
    assert row["P_drop_attention"] == 0
    # §5.1, §5.3, §6.1: equal for all rows, except the interval and the number of big's averaged checkpoints.
    assert (row["source_tokens"], row["target_tokens"], row["warmup_steps"]) == (25_000, 25_000, 4000)
    assert (row["beta1"], row["beta2"], row["epsilon"]) == (0.9, 0.98, 1e-9)
    checkpoints = (600, 20) if name == "big" else (1500, 5)
    assert (row["checkpoint_every"], row["averaged_checkpoints"]) == checkpoints
