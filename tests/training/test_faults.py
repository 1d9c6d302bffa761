"""Real trainings that are killed, signalled or run out of disk end soon, lose nothing, and can be resumed."""

import json
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch
from support.commands import do
from support.project import ROOT
from support.toy import PROCESSOR, TORCHRUN, heed_signals, make_data, make_experiment, make_run, metrics, random_lines

from transformer.model import weights as checkpoints
from transformer.process import EXIT_INTERRUPTED, STOPPING

PROGRAM = ["-m", "transformer", "train"]
FAULTY = [str(ROOT / "tests/training/faulty.py")]
SOON = 60  # seconds, to end after a signal or a fault
LONG = 600  # seconds, for whole trainings on a busy machine
slow = pytest.mark.slow


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_data(tmp_path_factory.mktemp("task") / "en-de", random_lines(1, 2000), random_lines(2, 50))


def new_run(folder: Path, steps: int, save_every: int = 10, tokens: int = 400) -> Path:
    logging = {"log_every": 1, "evaluate_every": 50, "save_every": save_every}
    sizes = {"source_tokens": tokens, "target_tokens": tokens, "checkpoint_every": 5}
    return make_run(folder / "1", make_experiment(steps=steps, logging=logging, **sizes))


class Training(subprocess.Popen):
    """A real training, by torchrun if it has several processes. It prints to a file: a full pipe would block it."""

    def __init__(self, run: Path, data: Path, program: list[str] = PROGRAM, processes: int = 1):
        starter = [*TORCHRUN, str(processes)] if processes > 1 else [sys.executable]
        command = [*starter, *program, str(run), "--data", str(data), "--threads", "1"]
        self.messages = run.parent / f"{time.time_ns()}.err"
        with self.messages.open("w") as err:
            super().__init__(command, cwd=ROOT, env=PROCESSOR, stderr=err, preexec_fn=heed_signals)

    @property
    def err(self) -> str:
        return self.messages.read_text()

    def wait_for(self, true: Callable[[], object]) -> None:
        """Wait until `true()`. Fail if the process ends earlier or the wait takes too long."""
        late = time.time() + LONG
        while not true():
            assert self.poll() is None, self.err
            assert time.time() < late
            time.sleep(0.01)


def states(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(run.glob("state/*/state/*.safetensors"))}


def steps_done(run: Path) -> int:
    """Return the last step in the metrics of a run in progress."""
    lines = [line for path in run.glob("state/*/metrics.jsonl") for line in path.read_text().split("\n")[:-1]]
    return json.loads(lines[-1])["step"] if lines else 0


@pytest.fixture(scope="module")
def straight(tmp_path_factory, data, on_the_processor) -> Path:
    """Train 100 steps without a fault. A state is saved every third step, so that some runs are killed while saving."""
    run = new_run(tmp_path_factory.mktemp("straight"), 100, save_every=3, tokens=60)
    do("train", run, "--data", data, "--threads", 1)
    return run


@pytest.mark.usefixtures("on_the_processor")
def test_killed_at_any_moment_it_ends_with_the_same_bits(tmp_path, data, straight):
    """The kill comes at a random time after a random step: within a step, while saving, or within a line of metrics."""
    run = new_run(tmp_path, 100, save_every=3, tokens=60)
    chance = random.Random(0)
    step = chance.randint(2, 50)
    training = Training(run, data)
    training.wait_for(lambda: steps_done(run) >= step)
    time.sleep(chance.random() / 50)
    training.kill()
    assert training.wait() == -signal.SIGKILL
    do("train", run, "--data", data, "--threads", 1)
    assert metrics(run) == metrics(straight)
    for name in ("last.safetensors", "state/*/state/00000100.safetensors", "checkpoints/00000095.safetensors"):
        (resumed,), (expected,) = run.glob(name), straight.glob(name)
        resumed, expected = (checkpoints.load_tensors(path)[0] for path in (resumed, expected))
        assert resumed.keys() == expected.keys()
        assert all(torch.equal(resumed[tensor], expected[tensor]) for tensor in expected)


def test_a_signal_saves_once_and_exits_with_75(tmp_path, data):
    run = new_run(tmp_path, steps=100_000)
    training = Training(run, data)
    training.wait_for(lambda: steps_done(run) > 25)
    training.send_signal(STOPPING[0])
    assert training.wait(SOON) == EXIT_INTERRUPTED == 75
    (step,) = re.findall(rf"transformer train: interrupted by {STOPPING[0].name}: saved at step (\d+);", training.err)
    assert max(states(run)) == f"{int(step):08}.safetensors"
    assert steps_done(run) == int(step)


@slow
def test_a_signal_to_one_process_saves_once_and_ends_all(tmp_path, data):
    run = new_run(tmp_path, steps=100_000)
    training = Training(run, data, processes=2)
    training.wait_for(lambda: steps_done(run) > 25)
    (second,) = [p for p in psutil.Process(training.pid).children() if p.environ().get("RANK") == "1"]
    second.send_signal(signal.SIGUSR1)
    assert training.wait(SOON) not in (0, EXIT_INTERRUPTED)  # torchrun's code
    messages = re.findall(r"interrupted by (.*): saved at step (\d+);", training.err)
    assert {step for _, step in messages} == {str(int(max(states(run)).split(".")[0]))}
    assert "SIGUSR1" in {by for by, _ in messages}


@slow
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("out_of_memory", "RuntimeError: .*can't allocate memory"),
        ("killed", None),
    ],
)
def test_a_fault_in_one_process_ends_all_and_names_step_and_batch(tmp_path, data, fault, error):
    """Afterwards, the same command resumes from the last state, in one process."""
    run = new_run(tmp_path, steps=60)
    training = Training(run, data, [*FAULTY, fault, "1", "25"], processes=2)
    training.wait(LONG)
    assert time.time() - float(re.search(r"fault at (.*)", training.err)[1]) < SOON
    assert training.returncode not in (0, EXIT_INTERRUPTED)
    where = r"step 26 \(epoch 0, batch 25: \d+ source \+ \d+ target tokens in \d+ pairs; the longest is pair \d+\)"
    last = re.escape(f"{run}/state/") + r"\w+/state/00000020.safetensors"
    if error:
        assert re.search(rf"transformer train: error: {where}: {error}.*; last state: {last}", training.err)
    assert re.search(rf"error: {where}: ConnectionError: another process of this training has ended", training.err)
    assert list(states(run)) == ["00000010.safetensors", "00000020.safetensors"]
    do("train", run, "--data", data, "--threads", 1)
    summary = json.loads((run / "run.json").read_text())
    assert summary["steps"] == 60
    assert [(start["step"], start["processes"]) for start in summary["starts"]] == [(0, 2), (20, 1)]


def test_a_signal_does_not_silence_an_error(tmp_path, data):
    """torchrun sends TERM to the other processes as soon as one ends, while they report their errors."""
    run = new_run(tmp_path, steps=60)
    training = Training(run, data, [*FAULTY, "exception_and_signal", "0", "25"])
    assert training.wait(SOON) == 1
    assert "transformer train: error: step 26 (epoch 0, batch 25: " in training.err


@slow
@pytest.mark.parametrize(("fault", "step"), [("disk_full", 30), ("disk_full_for_logs", 26)])
def test_a_full_disk_leaves_the_last_state_and_the_run_resumes(tmp_path, data, fault, step, on_the_processor):
    run, whole = new_run(tmp_path / "full", steps=60), new_run(tmp_path / "whole", steps=60)
    training = Training(run, data, [*FAULTY, fault, "0", "25"])
    assert training.wait(LONG) == 1
    assert re.search(rf"transformer train: error: step {step} \(.*\): OSError: .*File too large", training.err)
    assert list(states(run)) == ["00000010.safetensors", "00000020.safetensors"]
    assert not list(run.rglob("*.part"))
    assert all(checkpoints.load_tensors(path) for path in run.glob("state/*/state/*.safetensors"))
    for folder in (run, whole):
        do("train", folder, "--data", data, "--threads", 1)
    assert (run / "last.safetensors").read_bytes() == (whole / "last.safetensors").read_bytes()


@slow
def test_a_second_training_of_a_run_waits_for_the_first(tmp_path, data):
    """This happens when Snakemake is restarted and its old job survives. A third training is stopped while waiting."""
    run = new_run(tmp_path, steps=300)
    first = Training(run, data)
    first.wait_for(lambda: steps_done(run) > 5)
    second, third = Training(run, data), Training(run, data)
    for waiting in (second, third):
        waiting.wait_for(lambda waiting=waiting: "\n" in waiting.err)
        assert waiting.err.startswith(f"waiting: {run}/state is locked by process {first.pid} on ")
    third.terminate()
    assert third.wait(SOON) == EXIT_INTERRUPTED
    assert first.wait(LONG) == second.wait(LONG) == 0
    assert "already trained" in second.err
    assert len(json.loads((run / "run.json").read_text())["starts"]) == 1
