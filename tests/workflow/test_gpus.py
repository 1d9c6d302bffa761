"""Commands that share a machine's GPUs (workflow/scripts/gpus): real processes with imaginary GPUs."""

import os
import select
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

GPUS = Path(__file__).parents[2] / "workflow/scripts/gpus"
SHOW = ("sh", "-c", 'echo "${CUDA_VISIBLE_DEVICES-unset}"')
HOLD = ("sh", "-c", 'echo "$CUDA_VISIBLE_DEVICES"; exec sleep 60')
SURELY = 0.7  # seconds; a command that does not wait has started by then


@pytest.fixture
def start(tmp_path: Path):
    """Return a function that starts a command with `gpus` and these GPUs. Running commands are ended afterwards."""
    processes = []

    def start(launch: str, count: int, *command: str, there: str = "0,1,2", **env: str) -> subprocess.Popen:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "TRANSFORMER_"))}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
        env = kept | {"TMPDIR": str(tmp_path), "CUDA_VISIBLE_DEVICES": there} | env
        processes.append(subprocess.Popen([GPUS, launch, str(count), "1", *command], env=env, **pipes))
        return processes[-1]

    yield start
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def devices(process: subprocess.Popen) -> list[str]:
    """Wait until the command has GPUs. Return them."""
    assert select.select([process.stdout], [], [], 20)[0]
    return process.stdout.readline().strip().split(",")


def is_waiting(process: subprocess.Popen) -> bool:
    return not select.select([process.stdout], [], [], SURELY)[0]


def ended(process: subprocess.Popen) -> tuple[int, str, str]:
    """Return exit code, output and errors."""
    out, err = process.communicate(timeout=20)
    return process.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["TERM", "KILL"])
def test_no_two_commands_have_one_gpu(start, number):
    """Commands with one and two GPUs use all three. Another command for two GPUs waits until one ends in any way."""
    first, second = start("here", 1, *HOLD), start("here", 2, *HOLD)
    single, pair = devices(first), devices(second)
    assert sorted(single + pair) == ["0", "1", "2"]
    assert (len(single), len(pair)) == (1, 2)
    third = start("here", 2, *HOLD)
    assert is_waiting(third)
    second.send_signal(number)
    assert second.wait(20) == -number  # the signal reaches the command directly, so that it can save and exit
    assert sorted(devices(third)) == sorted(pair)
    assert first.poll() is None


def test_a_gpu_is_free_when_all_of_a_command_has_ended(start):
    """A training's processes may outlive the process that started them."""
    parent = start("here", 3, "sh", "-c", "sleep 60 & echo $!; wait")
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait(20)
    next_one = start("here", 1, *HOLD)
    assert is_waiting(next_one)
    os.kill(child, signal.SIGKILL)
    assert devices(next_one) == ["0"]


def test_gpus_of_another_job_have_other_locks(start):
    """Slurm numbers each job's visible GPUs from 0, so equal names may mean different GPUs."""
    assert len(devices(start("here", 3, *HOLD, SLURM_JOB_ID="7"))) == 3
    assert ended(start("here", 3, *SHOW, SLURM_JOB_ID="8")) == (0, "0,1,2\n", "")


@pytest.mark.parametrize(
    ("count", "there", "expected"),
    [
        (2, "GPU-1f, MIG-2e,-1,3", (0, "GPU-1f,MIG-2e\n", "")),
        (4, "0,1,2", (1, "", "gpus: expected 4 GPUs, found 3: 0, 1, 2\n")),
        *(
            (2, there, (0, f"{there}\n", "gpus: no GPU found, using the processor\n"))
            for there in ("", "-1", "NoDevFiles")
        ),
    ],
)
def test_how_many_gpus_there_are(start, count, there, expected):
    assert ended(start("here", count, *SHOW, there=there)) == expected


@pytest.mark.parametrize(("launch", "count"), [("job", 2), ("job", 4), ("here", 0), ("step", 0)])
def test_a_command_that_needs_none_of_these_does_not_wait(start, launch, count):
    """It starts even if all GPUs are taken: a separate job has its own GPUs, and a command without GPUs never waits.

    Nor does a command that TRANSFORMER_DEVICE=cpu keeps on the processor.
    """
    assert len(devices(start("here", 3, *HOLD))) == 3
    assert ended(start(launch, count, *SHOW)) == (0, "0,1,2\n", "")
    assert ended(start("here", 1, *SHOW, TRANSFORMER_DEVICE="cpu"))[0] == 0


def test_arguments_and_exit_code_are_the_commands(start):
    script = 'printf "%s|" "$@"; exit 7'
    assert ended(start("here", 1, "sh", "-c", script, "sh", "a b", "", "*")) == (7, "a b||*|", "")


@pytest.mark.parametrize("kind", ["another's", "a link", "a file"])
def test_the_folder_of_locks_is_ones_own(start, tmp_path, kind):
    place = tmp_path / f"gpus-{os.getuid()}-here"
    if kind == "another's":
        if os.getuid():
            pytest.skip("only root can make a folder of another user")
        place.mkdir(mode=0o777)
        os.chown(place, 12345, 12345)
    elif kind == "a link":
        place.symlink_to(tmp_path)
    else:
        place.touch()
    code, _, err = ended(start("here", 1, *SHOW))
    assert code == 1
    assert err.startswith("gpus: ")
    assert err.count("\n") == 1
    assert str(place) in err
