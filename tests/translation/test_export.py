"""Exported runs are complete or absent, usable anywhere, and described by a model card."""

import json
import os
import re
import shutil
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.commands import do, error
from support.toy import forge, random_lines, write_text

import transformer
from transformer.commands.serve import MANIFEST
from transformer.config.experiment import Decoding, load, save
from transformer.model import weights as checkpoints
from transformer.storage.files import sha256

pytestmark = pytest.mark.usefixtures("on_the_processor")

ROOT = Path(__file__).parents[2]
PLAIN = {"average.safetensors", "decoding.yaml", "experiment.yaml", "run.json", "vocabulary.model"}
MARIAN = {"config.json", "generation_config.json", "model.safetensors", "tokenizer_config.json", "vocab.json"}
MARIAN |= {"README.md", "source.spm", "target.spm"}
UNSEEN = ["", *random_lines(99, 60)]


def translations(run, folder):
    source = write_text(folder / "source", UNSEEN)
    do("translate", "--run", run, "--threads", "1", "--input", source, "--output", folder / "target")
    return (folder / "target").read_text(encoding="utf-8")


@pytest.mark.parametrize("form", ["safetensors", "marian"])
def test_an_export_translates_wherever_it_is_put(run, tmp_path, monkeypatch, form):
    do("export", "--run", run, "--to", tmp_path / "made here" / "1", "--format", form)
    shutil.move(tmp_path / "made here" / "1", tmp_path / "moved")
    assert list((tmp_path / "made here").iterdir()) == []
    assert not any(str(tmp_path).encode() in file.read_bytes() for file in (tmp_path / "moved").iterdir())
    expected = translations(run, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert translations(Path("moved"), tmp_path) == expected


def test_an_export_is_replaced_as_a_whole_and_lists_its_files(run, tmp_path):
    """An older export can be exported in another format."""
    folder, manifest = tmp_path / "1", tmp_path / "1" / MANIFEST
    do("export", "--run", run, "--to", folder)
    for form, names in (("marian", PLAIN | MARIAN), ("safetensors", PLAIN)):
        do("export", "--run", folder, "--to", folder, "--format", form)
        entries = json.loads(manifest.read_text())
        assert entries["sha256"] == {path.name: sha256(path) for path in folder.iterdir() if path != manifest}
        assert set(entries["sha256"]) == names
        digest = json.loads((run / "run.json").read_text())["digest"]
        assert entries["weights"] == {"digest": digest, "steps": [390, 395, 400]}
    assert os.listdir(tmp_path) == ["1"]


def test_export_leaves_an_old_export_and_refuses_to_replace_anything_else(run, tmp_path):
    copy, folder = tmp_path / "run", tmp_path / "1"
    (tmp_path / "mine").mkdir()
    mine = write_text(tmp_path / "mine/thesis.txt", ["years of work"])
    for to in (mine, mine.parent):
        message = error("export", "--run", run, "--to", to)
        assert message == f"{to}: expected a new folder or an older export, found no export.json; change --to"
    (mine.parent / MANIFEST).write_text("{}")
    assert error("export", "--run", run, "--to", mine.parent) == f"{mine.parent}/{MANIFEST}: missing key 'sha256'"
    assert mine.read_text() == "years of work\n"
    do("export", "--run", run, "--to", folder)
    for name, make in (("NOTES.md", Path.touch), (".git", Path.mkdir), ("link", lambda path: path.symlink_to(mine))):
        make(folder / name)
        lost = f"{folder}/{name}: refusing to delete a file without its SHA-256 in export.json; move it elsewhere"
        assert error("export", "--run", run, "--to", folder) == lost
        (folder / name).rmdir() if name == ".git" else (folder / name).unlink()
    card = (folder / "run.json").read_text()
    (folder / "run.json").write_text("changed")
    assert error("export", "--run", run, "--to", folder).startswith(f"{folder}/run.json: refusing to delete a file ")
    (folder / "run.json").write_text(card)
    before = {path.name: sha256(path) for path in folder.iterdir()}
    shutil.copytree(run, copy)
    tensors, about = checkpoints.load_tensors(run / "average.safetensors")
    checkpoints.save_tensors(copy / "average.safetensors", tensors, about | {"digest": "0123"})
    message = error("export", "--run", copy, "--to", folder)
    assert message == f"{copy}/average.safetensors: expected weights of the training {about['digest']}, found 0123"
    shutil.copy(run / "average.safetensors", copy)
    (copy / "decoding.yaml").unlink()
    assert error("export", "--run", copy, "--to", folder).startswith(f"{copy}/decoding.yaml: ")
    assert {path.name: sha256(path) for path in folder.iterdir()} == before
    assert sorted(os.listdir(tmp_path)) == ["1", "mine", "run"]


@pytest.mark.slow
@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    ("page", "changes"),
    [
        ("docs", {"decapitalize": True}),
        ("card", {}),
        ("card", {"normalize_punctuation": False, "escape": False}),
        ("card", {"decapitalize": True}),
        ("card", {"lowercase": True}),
        ("card", {"tokenizer": "none"}),
    ],
)
def test_examples_translate_as_the_run_does(run, tmp_path, monkeypatch, page, changes):
    """The sentence needs normalised punctuation, escapes, and detokenised punctuation. The search is greedy."""
    copy, example = tmp_path / "run", '"Two dogs play in the snow."'
    shutil.copytree(run, copy)
    save(replace(load(run / "decoding.yaml", Decoding), beam_size=1), copy / "decoding.yaml")
    experiment = load(run / "experiment.yaml")
    forge(copy, replace(experiment, preprocessing=replace(experiment.preprocessing, **changes)))
    do("export", "--run", copy, "--to", tmp_path / "en-de", "--format", "marian")
    text = {"decapitalize": "Ab cd’s “ef”", "lowercase": "aB Cd’s “EF”"}.get(next(iter(changes), ""), "ab cd’s “ef”")
    path = ROOT / "docs/export.md" if page == "docs" else tmp_path / "en-de/README.md"
    (code,) = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    assert code.count(example) == (page == "docs")
    monkeypatch.chdir(tmp_path if page == "docs" else tmp_path / "en-de")
    monkeypatch.setattr("builtins.input", lambda: text)
    with redirect_stdout(StringIO()) as printed:
        exec(code.replace(example, repr(text)), {})
    assert printed.getvalue() == transformer.load(copy).translate([text])[0].text + "\n"


@pytest.mark.usefixtures("library")
def test_a_card_has_only_the_scores_of_these_weights(run, tmp_path):
    from huggingface_hub import ModelCard

    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    forge(copy)
    for name, lines in (("hyp", ["ab cd ef gh ij kl", "mn"]), ("ref", ["ab cd ef gh ij", "mn op"])):
        write_text(copy / f"test.{name}", lines)
    files = ["--hyp", copy / "test.hyp", "--ref", copy / "test.ref", "--json", copy / "test.json"]
    do("score", *files, "--lang", "de", "--run", copy)
    expected = json.loads((copy / "test.json").read_text())["scores"]
    for weights, with_scores in (("average", True), ("last", False)):
        shutil.copy(run / f"{weights}.safetensors", copy / "average.safetensors")
        do("export", "--run", copy, "--to", tmp_path / weights, "--format", "marian")
        front = ModelCard.load(tmp_path / weights / "README.md").data
        assert (front.language, front.pipeline_tag, front.license) == (["en", "de"], "translation", None)
        found = {result.metric_name.split(" (")[0]: result for result in front.eval_results or []}
        assert found.keys() == (expected.keys() - {"paper"} if with_scores else set())
        for name, result in found.items():
            assert result.metric_value == expected[name]["score"]
            assert result.metric_name == f"{name} ({expected[name]['signature']})"
        assert {result.metric_type for result in found.values()} == ({"bleu", "chrf", "ter"} if with_scores else set())
        text = (tmp_path / weights / "README.md").read_text(encoding="utf-8")
        assert (f"| sacrebleu | {expected['sacrebleu']['score']:.1f} |" in text) == with_scores
        assert ("These weights have no scores." in text) != with_scores
