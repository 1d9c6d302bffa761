"""The server of the page to try a model: started as users start it or in this process, and requests to it."""

import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support.toy import PROCESSOR, heed_signals, make_experiment, make_run, make_vocabulary, random_model
from transformer.model import weights
from transformer.report.page.server import Page, Server

PROGRAM = [sys.executable, "-m", "transformer"]
PATIENCE = 120  # seconds for an answer of a busy machine


def make_trial(run: Path) -> Path:
    """Make the folder of a run that has learned nothing, whose translations differ from each other."""
    make_run(run, make_experiment())
    make_vocabulary(run / "vocabulary.model")
    weights.save(run / "average.safetensors", random_model(1).state_dict(), {})
    return run


def wait_until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until `condition` returns what is true, and fail if it does not in so many seconds."""
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.01)
    assert found, f"waited {seconds} seconds in vain"


@contextmanager
def served(run: Path) -> Iterator[tuple[subprocess.Popen, str]]:
    """Start `serve` and wait for its address; end it."""
    command = [*PROGRAM, "serve", "--run", run, "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=PROCESSOR, preexec_fn=heed_signals, **pipes) as process:
        try:
            line = process.stdout.readline()
            assert line.endswith(" until Ctrl-C\n"), process.stderr.read()
            yield process, line.split()[0]
        finally:
            process.kill()


@contextmanager
def answering(answer: Callable[[str], dict], page: Page = Page("", "")) -> Iterator[Server]:  # noqa: B008
    """Run a server in this process, whose answers `answer` gives."""
    with Server(0) as server:
        threading.Thread(target=server.work, args=[page, answer], daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


class Live:
    """Answers that wait until they may go, and what was asked for."""

    def __init__(self):
        self.asked, self.begun, self.go = [], threading.Event(), threading.Event()

    def answer(self, text: str) -> dict:
        self.asked.append(text)
        self.begun.set()
        self.go.wait(PATIENCE)
        return {"text": text}


def post(
    port: int, method: str = "POST", path: str = "/translate", body: bytes = b"", end: bool = False, **headers: str
) -> tuple[bytes, bool]:
    """Return a question as a page sends it, but for what is given; headers that are None are left out."""
    own = {"Host": f"127.0.0.1:{port}", "Content-Type": "application/json", "Content-Length": str(len(body))} | headers
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in own.items() if value is not None)]
    return "\r\n".join([*lines, "", ""]).replace("{port}", str(port)).encode("latin-1") + body, end


def exchange(
    port: int, request: bytes, end: bool = False, head: bool = False
) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Send bytes and, if `end`, their end; return status, headers and content of what comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as client:
        client.sendall(request)
        if end:
            client.shutdown(socket.SHUT_WR)
        response = http.client.HTTPResponse(client, method="HEAD" if head else None)
        response.begin()
        return response.status, response.headers, response.read()


def question(port: int, text: str) -> dict:
    """Return the answer to a text."""
    status, _, content = exchange(port, *post(port, body=json.dumps({"text": text}).encode()))
    assert status == 200, content
    return json.loads(content)
