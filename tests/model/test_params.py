"""The counts of Table 3: config.yaml's models, ours and the paper's, and the bad files that are refused."""

import csv
import re
from pathlib import Path

import pytest
import torch
import yaml

from transformer.__main__ import main
from transformer.commands.params import models_of
from transformer.config import settings
from transformer.model.cost import parameters
from transformer.model.packed import POSITIONS
from transformer.model.transformer import Transformer

ROOT = Path(__file__).parents[2]
CONFIG, PAPER = ROOT / "config.yaml", ROOT / "workflow/paper/table3.csv"
with open(PAPER, encoding="utf-8", newline="") as file:
    TABLE_3 = list(csv.DictReader(file))
SETTINGS = yaml.safe_load(CONFIG.read_text("utf-8"))


@pytest.fixture(autouse=True)
def project(monkeypatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture(params=["paper-text", "paper-code"])
def fidelity(request) -> str:
    """Either of config.yaml's, as an entry of the command line."""
    return f"fidelity={request.param}"


# What the paper printed.


def test_table_3_has_a_row_for_every_experiment():
    assert [row["experiment"] for row in TABLE_3] == list(SETTINGS["experiments"])


def test_table_3_says_what_each_experiment_changes():
    """The changes in print are those of config.yaml; of big, those of them that the paper's columns have."""
    for row in TABLE_3:
        differences = SETTINGS["experiments"][row["experiment"]]
        if row["experiment"] == "learned-positions":
            assert row["changed"] == "positional embedding instead of sinusoids"
            continue
        changed = {key: yaml.safe_load(value) for key, value in (c.split("=") for c in row["changed"].split(", "))}
        assert changed.items() <= (SETTINGS["base"] | differences).items()
        assert differences.keys() - {"steps", "checkpoint_every", "averaged_checkpoints"} <= changed.keys()
        assert row["steps"] in ("", f"{(SETTINGS['base'] | differences)['steps'] // 1000}K")


def test_table_3_as_printed():
    """Sums over the columns, worked from the printed page, so that no digit changes unseen."""
    assert "".join(row["row"] for row in TABLE_3) == "AAAABBCCCCCCCDDDDE"
    assert [row["steps"] for row in TABLE_3 if row["steps"]] == ["100K", "300K"]
    assert sum(float(row["perplexity"]) for row in TABLE_3) == pytest.approx(101.87)
    assert sum(float(row["bleu"]) for row in TABLE_3) == pytest.approx(507.7)
    assert [row["parameters"] for row in TABLE_3 if row["parameters"]] == (
        ["65", "58", "60", "36", "50", "80", "28", "168", "53", "90", "213"]
    )
    assert all(len(row["perplexity"].split(".")[1]) == 2 for row in TABLE_3)
    assert all(len(row["bleu"].split(".")[1]) == 1 for row in TABLE_3)


# What is counted.


def test_counts_are_those_of_the_models_themselves(fidelity):
    """Instantiated in full size, without memory. Row E's table of positions is not counted."""
    models = models_of(settings.read([], [fidelity]))
    assert list(models) == list(SETTINGS["experiments"])
    for name, model in models.items():
        with torch.device("meta"):
            own = sum(parameter.numel() for parameter in Transformer(model).parameters())
        positions = POSITIONS * model.d_model if name == "learned-positions" else 0
        assert parameters(model) + positions == own


def test_the_models_are_table_3s_in_full_size():
    models = models_of(settings.read([], []))
    assert {(model.embedding_rows, model.output_rows) for model in models.values()} == {(40960, 40960)}
    assert (models["big"].N, models["big"].d_model, models["d_model-256"].d_model) == (6, 1024, 256)


# What is shown.


def shown(capsys, *arguments: str) -> tuple[dict[str, list[str]], str]:
    """Return the table's cells by experiment, and the text below it."""
    main(["params", *arguments])
    table, *text = capsys.readouterr().out.split("\n\n")
    _, rule, *lines = table.split("\n")
    spans = [match.span() for match in re.finditer("-+", rule)]
    rows = [[line[slice(*span)].strip() for span in spans] for line in lines]
    return {row[1]: [row[0], *row[2:]] for row in rows}, "\n".join(text)


def test_ten_of_eleven_agree(capsys, fidelity):
    """Under either fidelity: the table of target languages is not needed for it."""
    rows, text = shown(capsys, "--config", fidelity)
    assert text.startswith("10 of 11 agree\n")
    for printed in TABLE_3:
        letter, exactly, millions, paper, agree, _ = rows[printed["experiment"]]
        assert (letter, paper) == (printed["row"], printed["parameters"])
        assert millions == f"{int(exactly.replace(',', '')) / 1e6:.0f}"
        assert agree == ("" if not paper else "no" if printed["experiment"] == "big" else "yes")
    assert {rows[name][2] for name in ("base", "heads-1", "dropout-0.2", "learned-positions")} == {"65"}


def test_why_big_cannot_agree(capsys):
    """By hand: d_ff-1024 at 40,960 rows is 14,816 above 52.5 million, which is 28 rows; N-4 102,816 below 50.5."""
    rows, text = shown(capsys)
    assert rows["big"][-1] == "35,296 to 36,272"
    assert "makes all 11 agree: big needs 36,272 at most, d_ff-1024 40,932 at least." in text
    assert "All but big agree with 40,932 to 41,160." in text


def test_numbers_of_rows_that_make_all_agree_are_shown(capsys, tmp_path):
    with open(tmp_path / "table3.csv", "w", encoding="utf-8") as file:
        file.write("row,experiment,parameters\n,base,65\nC,N-2,36\n")
    _, text = shown(capsys, "--paper", str(tmp_path / "table3.csv"))
    assert text.startswith("2 of 2 agree\n")
    assert "All 2 agree with 40,600 to 41,721 embedding rows." in text


# Bad files.


def refusal(*arguments: str) -> str:
    with pytest.raises(SystemExit) as refused:
        main(["params", *arguments])
    message = str(refused.value)
    assert message.startswith("transformer params: error: ")
    assert "\n" not in message
    return message.removeprefix("transformer params: error: ")


def test_a_configuration_without_the_papers_english_german_is_named(monkeypatch, tmp_path):
    """Whose rows of the embedding are counted."""
    scales = {name: scale for name, scale in SETTINGS["scales"].items() if name != "paper"}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(SETTINGS | {"scales": scales}, sort_keys=False))
    monkeypatch.chdir(tmp_path)
    expected = "config.yaml: scales.paper.tasks.en-de: expected its embedding_rows, found no 'paper'"
    assert refusal("--paper", str(PAPER)) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("model,system\na,b\n", "missing column 'experiment'"),
        ("experiment,parameters\nbase,65\n", "missing column 'row'"),
        ("row,experiment,parameters\n,base,65M\n", "cannot be read as Table 3: .*'65M'"),
        ("row,experiment,parameters\n,basis,65\n", r"expected the parameters of experiments of .*, found none"),
        ("", "expected the parameters of experiments of .*, found none"),
    ],
)
def test_a_foreign_table_is_named(tmp_path, content, message):
    path = tmp_path / "table3.csv"
    path.write_text(content, encoding="utf-8")
    assert re.fullmatch(rf"{path}: {message}", refusal("--paper", str(path)))


def test_a_missing_table_is_named(tmp_path):
    assert refusal("--paper", str(tmp_path / "none.csv")).startswith(
        f"{tmp_path}/none.csv: cannot be read as Table 3: "
    )
