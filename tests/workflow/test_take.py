"""Files made elsewhere: taken byte for byte where sums, settings and data are the expected ones, else one line."""

import hashlib
import json
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import asdict
from support.page import about_run, score
from support.toy import DECODING, make_data, make_experiment, make_run, random_lines

from transformer import __main__
from transformer.config.experiment import UNTRAINED, Decoding, load, save
from transformer.evaluation.scores import describe
from transformer.files import sha256
from transformer.model import weights as checkpoints
from transformer.report.page.cards import run_cards, run_facts

RUN = "results/toy/runs/en-de/base/1"


def make_elsewhere(folder: Path, **changes) -> Path:
    """A folder with what a run left that was trained elsewhere; `changes` are of its run.json."""
    make_run(folder, make_experiment())
    about = about_run() | {"digest": make_experiment().digest("d" * 64), "data_sha256": "d" * 64, "commit": "c0ffee"}
    (folder / "run.json").write_text(json.dumps(about | changes))
    (folder / "test.hyp").write_text("ab cd\n")
    return folder


@pytest.fixture
def elsewhere(tmp_path) -> Path:
    return make_elsewhere(tmp_path / "elsewhere")


@pytest.fixture
def run(tmp_path) -> Path:
    """A run that has its settings, and is not trained."""
    return make_run(tmp_path / RUN, make_experiment())


def sums(folder: Path) -> dict[str, str]:
    """The sums of a folder's files by another program."""
    files = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    lines = subprocess.run(["sha256sum", *files], cwd=folder, text=True, capture_output=True, check=True).stdout
    return {name: sum for sum, name in (line.split() for line in lines.splitlines())}


def take(folder: Path, to: Path, *names: str, listed: dict[str, str] | None = None) -> None:
    """Run the stage; `listed` are sums that were made before."""
    listed = listed or sums(folder)
    files = [word for name in names for word in ("--file", listed[name], name)]
    __main__.main(["take", "--from", str(folder), "--to", str(to), *files])


def refused(*arguments, **options) -> str:
    """The one line that the stage ends with."""
    with pytest.raises(SystemExit) as error:
        take(*arguments, **options)
    line = str(error.value)
    assert line.startswith("transformer take: error: ")
    assert "\n" not in line
    return line


def test_a_file_is_a_copy_of_its_own(elsewhere, run):
    content = hashlib.sha512(b"seed").digest() * 50_000  # longer than what is read at once
    (elsewhere / "checkpoints").mkdir()
    (elsewhere / "checkpoints/00000002.safetensors").write_bytes(content)
    take(elsewhere, run, "decoding.yaml", "test.hyp", "checkpoints/00000002.safetensors")
    assert (run / "checkpoints/00000002.safetensors").read_bytes() == content
    assert (run / "test.hyp").read_bytes() == b"ab cd\n"
    assert not (run / "test.hyp").samefile(elsewhere / "test.hyp")


@pytest.mark.parametrize("name", ["test.hyp", "run.json", "decoding.yaml", "experiment.yaml"])
def test_one_byte_changed(elsewhere, run, name):
    listed = sums(elsewhere)
    content = bytearray((elsewhere / name).read_bytes())
    content[0] ^= 1
    (elsewhere / name).write_bytes(content)
    before = sorted(run.iterdir())
    line = refused(elsewhere, run, name, listed=listed)
    found = hashlib.sha256(content).hexdigest()
    assert f"{elsewhere / name}: expected SHA-256 {listed[name]}, found {found}" in line
    assert sorted(run.iterdir()) == before


def test_a_missing_file(elsewhere, run):
    listed = sums(elsewhere)
    (elsewhere / "test.hyp").unlink()
    assert str(elsewhere / "test.hyp") in refused(elsewhere, run, "test.hyp", listed=listed)


def test_a_run_says_where_it_came_from(elsewhere, run):
    before = json.loads((elsewhere / "run.json").read_text())
    take(elsewhere, run, "experiment.yaml", "run.json")
    taken = {"from": str(elsewhere), "sha256": sums(elsewhere)["run.json"]}
    assert json.loads((run / "run.json").read_text()) == before | {"taken": taken}


def test_a_run_of_other_settings(elsewhere, run):
    """Named by their keys where the folder tells them; else by digest alone."""
    save(make_experiment(steps=9, seed=2, model={"P_drop": 0.3}), run / "experiment.yaml")
    line = refused(elsewhere, run, "experiment.yaml", "run.json")
    assert line.endswith("found others in seed, model.P_drop, training.steps")
    line = refused(elsewhere, run, "run.json")
    for digest in (load(run / "experiment.yaml").digest("d" * 64), make_experiment().digest("d" * 64)):
        assert digest in line
    assert not (run / "run.json").exists()


def test_settings_that_train_nothing_else_may_differ(elsewhere, run):
    save(make_experiment(running={"log_every": 7}), run / "experiment.yaml")
    assert "running" in UNTRAINED
    take(elsewhere, run, "experiment.yaml", "run.json")


def test_a_run_without_a_digest(tmp_path, elsewhere, run):
    about = json.loads((elsewhere / "run.json").read_text())
    (elsewhere / "run.json").write_text(json.dumps({key: about[key] for key in about if key != "digest"}))
    assert refused(elsewhere, run, "run.json").endswith("run.json: missing key 'digest'")


def test_translations_by_another_search(elsewhere, run):
    save(Decoding.read(asdict(DECODING) | {"beam": 7}, "test"), run / "decoding.yaml")
    line = refused(elsewhere, run, "decoding.yaml", "test.hyp")
    assert line.endswith(f"expected the settings of {run / 'decoding.yaml'}, found others in beam")
    assert not (run / "test.hyp").exists()


def test_a_run_of_other_data(elsewhere, run):
    """Than those that are here."""
    data = run.parents[3] / "data/en-de/data.json"
    data.parent.mkdir(parents=True)
    data.write_text(json.dumps({"files": {"a": "b"}, "splits": {}, "sha256": "e" * 64}))
    assert f"expected data_sha256 {'e' * 64}, as {data} says, found {'d' * 64}" in refused(elsewhere, run, "run.json")
    data.write_text(json.dumps({"files": {"a": "b"}, "splits": {}, "sha256": "d" * 64}))
    take(elsewhere, run, "run.json")


def test_data(tmp_path):
    """With the arrays that data.json tells of, and not with others."""
    made, data = make_data(tmp_path / "made", random_lines(1, 9), random_lines(2, 3)), tmp_path / "data"
    arrays = list(json.loads((made / "data.json").read_text())["files"])
    take(made, data, *arrays, "data.json")
    assert [sha256(data / name) for name in arrays] == [sha256(made / name) for name in arrays]
    (data / "data.json").unlink()
    (data / "dev.source.ids").write_bytes(b"other")
    assert f"expected a file of {data / 'dev.source.ids'}, SHA-256 " in refused(made, data, "data.json")
    assert not (data / "data.json").exists()


def weights(path: Path, digest: str, **about) -> Path:
    checkpoints.save(path, {}, {"digest": digest} | about)
    return path


def test_weights_of_another_training_are_not_scored(elsewhere, run):
    take(elsewhere, run, "run.json")
    weights(run / "average.safetensors", "other", steps=[4, 6, 8])
    with pytest.raises(Exception, match=r"average.safetensors: expected weights of the training \w{64}, found other"):
        describe(run, None)


def test_a_taken_run_is_scored_without_weights(elsewhere, run):
    """By the steps that its settings average, and without those of an earlier training that lie there still."""
    take(elsewhere, run, "run.json")
    last = run / "last.safetensors"
    digest = make_experiment().digest("d" * 64)
    weights(run / "average.safetensors", digest, steps=[4, 6, 8])
    weights(last, digest, step=8)
    without = [describe(run, None, untaken=True), describe(run, last, untaken=True)]
    assert [about["weights_sha256"] for about in without] == [None, None]
    there = [describe(run, None), describe(run, last)]
    assert [about["averaged_steps"] for about in without] == [about["averaged_steps"] for about in there]
    assert there[1]["weights_sha256"] == sha256(last)


def test_the_page_says_that_a_run_was_taken_and_without_weights(tmp_path):
    taken = {"from": "/data/base-1", "sha256": "f1" * 32}
    assert run_facts(about_run(taken=taken))["Taken from"] == f"/data/base-1, run.json's SHA-256 {'f1' * 32}"
    assert "Taken from" not in run_facts(about_run())
    content = score(about_run())
    for sum, expected in ((None, "step 8 alone, weights not taken with the run"), ("ab", "step 8 alone")):
        about = {"averaged_steps": [8], "weights_sha256": sum, "decoding": {"beam": 4}}
        path = tmp_path / "test.json"
        path.write_text(json.dumps(content | {"run": about_run() | about}))
        assert run_cards({}, [path])[0].scores[0].averaged == expected
