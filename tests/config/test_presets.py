"""The named readings: pinned, complete, carried into a run, and shown."""

import dataclasses
import re
from pathlib import Path

import pytest
import yaml

from transformer.__main__ import main
from transformer.common.files import InputError
from transformer.config.experiment import Model
from transformer.config.fidelity import PRESETS, Preset, differences, preset

ROOT = Path(__file__).parents[2]


def test_a_name_never_changes_its_meaning():
    """Frozen here: a run of another reading needs a preset of another name."""
    assert {name: dataclasses.asdict(values) for name, values in PRESETS.items()} == {
        "paper-text": {"sinusoids": "interleaved", "target_spaces": 0},
        "paper-code": {"sinusoids": "concatenated", "target_spaces": 32},
    }


def test_presets_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        preset("paper-text").target_spaces = 32
    with pytest.raises(TypeError):
        PRESETS["paper-text"] = preset("paper-code")


def test_every_setting_is_one_of_the_models_and_says_what_it_means_and_where_it_is_from():
    types = {field.name: field.type for field in dataclasses.fields(Model)}
    for field in dataclasses.fields(Preset):
        assert types[field.name] is field.type
        assert re.fullmatch(r"[A-Z](?!.*\. ).*\.", field.metadata["meaning"])
        assert field.metadata["source"]


def test_config_yaml_may_name_any_preset_and_no_other():
    schema = yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text("utf-8"))
    assert schema["properties"]["fidelity"]["enum"] == list(PRESETS)


def test_differences():
    found = differences("paper-code", "paper-text")
    assert [row[:3] for row in found] == [("sinusoids", "concatenated", "interleaved"), ("target_spaces", 32, 0)]
    assert differences("paper-text", "paper-text") == []


@pytest.mark.parametrize("names", [("paper-test", "paper-code"), ("paper-code", "paper-test")])
def test_an_unknown_preset_is_named(names):
    with pytest.raises(InputError, match=r"^fidelity: expected paper-text or paper-code, found 'paper-test'$"):
        differences(*names)


# The stage.


def test_the_list_has_each_preset_with_each_setting(capsys):
    main(["presets"])
    paragraphs = {text.split("\n")[0]: text.split("\n")[1:] for text in capsys.readouterr().out.split("\n\n")}
    for name, values in PRESETS.items():
        assert [line.split() for line in paragraphs[name]] == [
            [key, str(value)] for key, value in dataclasses.asdict(values).items()
        ]
    assert len(paragraphs) == len(PRESETS) + 2  # what both have of the code, and what neither has
    assert all(len(line) <= 120 for lines in paragraphs.values() for line in lines)


def test_the_difference_has_both_values_the_meaning_and_the_source(capsys):
    main(["presets", "--diff", "paper-text", "paper-code"])
    head, _, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["setting", "paper-text", "paper-code", "meaning", "source"]
    assert [line.split()[:3] for line in lines if not line.startswith(" ")] == [
        ["sinusoids", "interleaved", "concatenated"],
        ["target_spaces", "0", "32"],
    ]
    words = " ".join(" ".join(lines).split())
    assert "Sine and cosine" in words
    assert "§3.5" in words


def test_no_difference_is_said(capsys):
    main(["presets", "--diff", "paper-code", "paper-code"])
    assert capsys.readouterr().out == "paper-code and paper-code have the same settings\n"


def test_an_unknown_preset_ends_the_stage_with_one_line():
    with pytest.raises(SystemExit, match=r"^transformer presets: error: fidelity: expected .*, found 'x'$"):
        main(["presets", "--diff", "paper-text", "x"])
