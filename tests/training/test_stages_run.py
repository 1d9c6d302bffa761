"""The stages of a run (train, average, translate), called by argv as the workflow calls them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace
from support.commands import do
from support.toy import PROCESSOR, make_data, make_experiment, make_run, random_lines

from transformer import __main__
from transformer.commands import average, train
from transformer.config.experiment import Decoding, load, save
from transformer.model import weights as checkpoints
from transformer.model.transformer import Transformer

ROOT = Path(__file__).parents[2]
VERBS = {path.stem for folder in ("stages", "tools") for path in (ROOT / "transformer" / folder).glob("[!_]*.py")}
PROGRAM = (sys.executable, "-m", "transformer")
UNSEEN = random_lines(99, 40)


pytestmark = pytest.mark.usefixtures("on_the_processor")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_data(tmp_path_factory.mktemp("task") / "en-de", random_lines(1, 2000), random_lines(2, 50))


@pytest.fixture(scope="module")
def trained(tmp_path_factory, data):
    """Train a run that learns to copy, and average it."""
    model = {"N": 1, "d_model": 32, "d_ff": 64, "d_k": 16, "d_v": 16, "P_drop": 0.0}
    sizes = {"source_tokens": 400, "target_tokens": 400, "steps": 300, "warmup_steps": 100, "checkpoint_every": 5}
    running = {"log_every": 100, "evaluate_every": 100, "save_every": 100}
    run = make_run(tmp_path_factory.mktemp("run") / "1", make_experiment(model=model, running=running, **sizes))
    do_train(run, data)
    average.main(["--run", str(run)])
    return run


def do_train(run, data):
    train.main([str(run), "--data", str(data), "--threads", "1"])


def do_translate(run, lines, folder, *options):
    (folder / "input.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    files = {"--input": folder / "input.txt", "--output": folder / "output" / "test.hyp"}
    paths = [str(arg) for pair in files.items() for arg in pair]
    do("translate", "--run", run, "--threads", 1, *paths, *options)
    return files["--output"].read_text(encoding="utf-8")


def entries(path):
    """Return the objects in run.json or metrics.jsonl, without what differs from one start to the next."""
    varying = ("seconds", "target_tokens_per_second", "starts", "finished", "commit", "hardware")
    lines = [path.read_text()] if path.suffix == ".json" else path.read_text().removesuffix("\n").split("\n")
    return [{key: value for key, value in json.loads(line).items() if key not in varying} for line in lines]


def test_train_leaves_what_later_stages_read(trained, data):
    assert sorted(path.name for path in trained.iterdir()) == [
        "average.safetensors",
        "checkpoints",
        "decoding.yaml",
        "experiment.yaml",
        "last.safetensors",
        "metrics.jsonl",
        "run.json",
        "state",
        "vocabulary.model",
    ]
    names = [path.name for path in sorted((trained / "checkpoints").iterdir())]
    assert names == ["00000290.safetensors", "00000295.safetensors", "00000300.safetensors"]
    assert (trained / "vocabulary.model").read_bytes() == (data / "vocabulary.model").read_bytes()
    assert (trained / "last.safetensors").read_bytes() == (trained / "checkpoints" / names[-1]).read_bytes()
    assert entries(trained / "metrics.jsonl")[-1]["step"] == 300


def test_run_json(trained, data):
    entry = json.loads((trained / "run.json").read_text())
    experiment = load(trained / "experiment.yaml")
    checksum = json.loads((data / "data.json").read_text())["sha256"]
    assert entry["data_sha256"] == checksum
    assert entry["digest"] == experiment.digest(checksum)
    assert (entry["task"], entry["experiment"], entry["seed"], entry["steps"]) == ("en-de", "base", 1, 300)
    assert entry["parameters"] == sum(weight.numel() for weight in Transformer(experiment.model).parameters())
    (start,) = entry["starts"]
    assert entry["commit"] == start["commit"]
    assert start["started"] <= entry["finished"]
    assert start["versions"]["torch"] == torch.__version__


def test_average_is_the_mean_of_the_checkpoints(trained):
    tensors, header = checkpoints.load(trained / "average.safetensors")
    parts = [checkpoints.load(path)[0] for path in (trained / "checkpoints").iterdir()]
    for name, tensor in tensors.items():
        torch.testing.assert_close(tensor, torch.stack([part[name] for part in parts]).mean(dim=0))
    assert header["steps"] == [290, 295, 300]
    assert header["digest"] == json.loads((trained / "run.json").read_text())["digest"]


def test_a_trained_run_translates(trained, tmp_path):
    """It has learned to copy: unseen lines come out as they went in, all in their places."""
    lines = ["", *UNSEEN, "", UNSEEN[0]]
    translations = do_translate(trained, lines, tmp_path).split("\n")
    assert translations.pop() == ""
    assert translations[0] == translations[-2] == ""
    right = sum(translation == line for translation, line in zip(translations, lines, strict=True))
    assert right > 0.75 * len(lines)


def untrained_copy(run, to):
    """Copy a run and put beside its weights others that no step has trained; return the copy and them."""
    shutil.copytree(run, to)
    torch.manual_seed(1)
    weights = to / "untrained.safetensors"
    checkpoints.save(weights, Transformer(load(to / "experiment.yaml").model).state_dict(), {})
    return to, weights


def test_translate_takes_the_weights_that_it_is_given(trained, tmp_path):
    """Without any it takes the average."""
    run, untrained = untrained_copy(trained, tmp_path / "1")
    nonsense = do_translate(run, UNSEEN, tmp_path, "--weights", str(untrained))
    assert nonsense != do_translate(run, UNSEEN, tmp_path)
    untrained.replace(run / "average.safetensors")
    assert do_translate(run, UNSEEN, tmp_path) == nonsense


def test_translate_decodes_otherwise_as_it_is_told(trained, tmp_path):
    """--decoding acts like another decoding.yaml; settings that it does not name are the run's.

    Untrained weights are used, as trained ones find the same copy by every search.
    """
    run, untrained = untrained_copy(trained, tmp_path / "1")
    untrained.replace(run / "average.safetensors")
    decoding = load(run / "decoding.yaml", Decoding)
    short = do_translate(run, UNSEEN, tmp_path, "--decoding", '{"beam": 1, "extra_length": 0}')
    assert short != do_translate(run, UNSEEN, tmp_path)
    save(replace(decoding, beam=1, extra_length=0), run / "decoding.yaml")
    assert do_translate(run, UNSEEN, tmp_path) == short


def test_translate_reads_standard_input_and_writes_standard_output(trained, tmp_path):
    text = "\r\n".join([*UNSEEN[:3], "", "naïve Übung"]) + "\n"
    command = [*PROGRAM, "translate", "--run", trained, "--threads", "1"]
    output = subprocess.run(
        command, input=text.encode(), capture_output=True, cwd=ROOT, env=PROCESSOR, check=True
    ).stdout
    assert output == do_translate(trained, text.splitlines(), tmp_path).encode()
    assert output.count(b"\n") == 5


def test_a_finished_run_is_published_again_without_training(trained, data, capsys):
    """A workflow that has deleted its outputs does this."""
    states = {path: path.stat().st_mtime_ns for path in (trained / "state").rglob("*.safetensors")}
    before = {name: entries(trained / name) for name in ("run.json", "metrics.jsonl")}
    weights = (trained / "checkpoints" / "00000295.safetensors").read_bytes()
    shutil.rmtree(trained / "checkpoints")
    for name in (*before, "vocabulary.model"):
        (trained / name).unlink()
    do_train(trained, data)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("trained before: ")
    assert states == {path: path.stat().st_mtime_ns for path in (trained / "state").rglob("*.safetensors")}
    assert before == {name: entries(trained / name) for name in before}
    assert weights == (trained / "checkpoints" / "00000295.safetensors").read_bytes()
    assert (trained / "vocabulary.model").exists()


def test_another_experiment_in_the_folder_has_its_own_state(tmp_path, data, capsys):
    run = make_run(tmp_path / "1", make_experiment(seed=1))
    do_train(run, data)
    (first,) = (run / "state").glob("*/")
    other = make_experiment(seed=2)
    save(other, run / "experiment.yaml")
    capsys.readouterr()
    do_train(run, data)
    assert "resumed" not in capsys.readouterr().out
    assert len(list((run / "state").glob("*/"))) == 2
    assert json.loads((run / "run.json").read_text())["seed"] == 2
    save(make_experiment(seed=1, running={"log_every": 4}), run / "experiment.yaml")  # changes no result
    do_train(run, data)
    assert f"trained before: {first}" in capsys.readouterr().out
    assert json.loads((run / "run.json").read_text())["seed"] == 1


def error(*argv):
    """Return the one line that `python -m transformer` ends with for bad input."""
    with pytest.raises(SystemExit) as exit:
        __main__.main([str(arg) for arg in argv])
    message = exit.value.code
    assert message.startswith(f"transformer {argv[0]}: error: ")
    assert "\n" not in message
    return message.removeprefix(f"transformer {argv[0]}: error: ")


def test_the_program_prints_one_line_and_exits_with_1():
    process = subprocess.run(
        [*PROGRAM, "resolve", "--decoding", '{"beam": "wide"}', "--output", "/dev/null"],
        cwd=ROOT,
        env=PROCESSOR,
        capture_output=True,
        text=True,
    )
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr == "transformer resolve: error: decoding: beam: expected int, found 'wide'\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["average", "--run", "NONE"], "NONE/experiment.yaml: no such file"),
        (["translate", "--run", "NONE", "--input", os.devnull, "--threads", "1"], "NONE/experiment.yaml: no such file"),
        (
            ["translate", "--run", "NONE", "--input", "NONE", "--threads", "1"],
            "NONE: cannot be read: No such file or directory",
        ),
        (["train", "NONE", "--data", "DATA", "--threads", "1"], "NONE/experiment.yaml: no such file"),
        (
            ["train", "RUN", "--data", "NONE", "--threads", "1"],
            "NONE/data.json: cannot be read: No such file or directory",
        ),
    ],
    ids=" ".join,
)
def test_missing_folders_are_named(data, trained, tmp_path, argv, message):
    names = {"NONE": str(tmp_path / "none"), "DATA": str(data), "RUN": str(trained)}
    assert error(*(names.get(arg, arg) for arg in argv)) == message.replace("NONE", names["NONE"])


def test_train_refuses_ids_without_a_row(tmp_path, data):
    run = make_run(tmp_path / "1", make_experiment(model={"embedding_rows": 20}))
    message = error("train", run, "--data", data, "--threads", "1")
    assert message == f"{data}: token id 27, but embedding_rows is 20"


def test_average_wants_exactly_its_checkpoints(tmp_path, trained):
    run = tmp_path / "1"
    shutil.copytree(trained, run)
    (run / "average.safetensors").unlink()
    (run / "checkpoints" / "00000290.safetensors").unlink()
    assert error("average", "--run", run) == f"{run}/checkpoints: expected 3 checkpoints, found 2"
    assert not (run / "average.safetensors").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("average.safetensors", "truncated, or not a checkpoint of this project"),
        ("vocabulary.model", "not a SentencePiece model"),
        ("decoding.yaml", "expected a mapping, found str"),
    ],
)
def test_translate_names_a_damaged_file(tmp_path, trained, name, message):
    run = tmp_path / "1"
    shutil.copytree(trained, run)
    (run / name).write_bytes(b"damaged")
    assert error("translate", "--run", run, "--input", os.devnull, "--threads", 1).startswith(
        f"{run / name}: {message}"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"ab\ncd \xff\n", "INPUT, line 2: expected UTF-8"),
        (b"ab\n\n" + b"ab " * 2000, "INPUT: line 3: 2001 subwords, at most"),
    ],
    ids=["not UTF-8", "too long"],
)
def test_translate_names_a_bad_line_and_leaves_the_old_output(tmp_path, trained, content, message):
    input, output = tmp_path / "input.txt", tmp_path / "output.txt"
    input.write_bytes(content)
    output.write_text("old")
    line = error("translate", "--run", trained, "--input", input, "--output", output, "--threads", 1)
    assert line.startswith(message.replace("INPUT", str(input)))
    assert output.read_text() == "old"


def test_a_bad_command_line_exits_with_2(capsys):
    with pytest.raises(SystemExit) as exit:
        __main__.main(["train", "--threads", "1"])
    assert exit.value.code == 2
    assert "required: RUN, --data" in capsys.readouterr().err


def test_an_unknown_verb_is_answered_with_the_known_ones():
    with pytest.raises(SystemExit, match=r"^transformer: no verb 'trian'; the verbs are .*, train, translate"):
        __main__.main(["trian"])


@pytest.mark.parametrize("argv", [[], ["--help"]], ids=str)
def test_overview_has_a_line_for_each_verb(capsys, argv):
    __main__.main(argv)
    usage, _, verbs = capsys.readouterr().out.split("\n\n")
    assert usage.splitlines()[-1].endswith(" python -m transformer --version")
    lines = verbs.splitlines()
    assert [line.split()[0] for line in lines] == sorted(VERBS)
    assert all(len(line.split()) > 3 for line in lines)
