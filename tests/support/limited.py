"""Stages in processes that may have 1.5 GiB of memory and some seconds. As a program, it forks one for each request.

Importing takes a second, forking none; this program imports no torch, whose libraries alone need more memory.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

MEMORY = 3 << 29  # bytes: 1.5 GiB
SECONDS = 10.0
MUTATIONS = int(os.environ.get("TRANSFORMER_FUZZ", "300"))  # that each fuzzer tries
ROOT = Path(__file__).parents[2]


class Result(NamedTuple):
    """How a stage ended: its exit status, None where it had to be killed, and all that it printed."""

    status: int | None
    printed: str

    @property
    def last_line(self) -> str:
        return self.printed.splitlines()[-1]


class Limited:
    """The program, and how to ask it to run a stage."""

    def __init__(self, process: subprocess.Popen, folder: Path):
        self.process, self.printed = process, folder / "printed"

    def run(self, *argv: object, constants: dict[str, object] | None = None) -> Result:
        """Run `python -m transformer` with these words, after setting `constants`, by their modules' full names."""
        request = {"argv": list(map(str, argv)), "constants": constants or {}, "printed": str(self.printed)}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        status = json.loads(self.process.stdout.readline())
        return Result(status, self.printed.read_bytes().decode("utf-8", "surrogateescape"))


@contextmanager
def limited(folder: Path) -> Iterator[Limited]:
    """Start the program; `folder` is for its own files."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "no_proxy": "*"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, __file__], env=environment, **pipes) as process:
        yield Limited(process, folder)
        process.stdin.close()


def serve() -> None:
    """Answer each request, a line of JSON, with the status of the stage."""
    for name in ("fetch", "unpack", "treebank"):
        import_module(f"transformer.commands.{name}")
    for line in sys.stdin:
        request = json.loads(line)
        if not (child := os.fork()):
            work(**request)
        print(json.dumps(status_of(child)), flush=True)


def status_of(child: int) -> int | None:
    """Wait for a process. Returns None where it has not ended in time; it is killed then."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def work(argv: list[str], constants: dict[str, object], printed: str) -> None:
    """Run a stage as a process of its own would, and end this process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for name, value in constants.items():
        module, _, constant = name.rpartition(".")
        assert hasattr(import_module(module), constant)
        setattr(import_module(module), constant, value)
    file = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    status = 0
    try:
        import_module("transformer.__main__").main(argv)
    except SystemExit as end:  # as Python itself ends
        status = end.code if isinstance(end.code, int) else 1
        print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    serve()
