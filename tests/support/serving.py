"""The server of the page to try a model, started like users start it or in this process, and requests to it."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from support.toy import PROCESSOR, heed_signals, make_experiment, make_run, make_vocabulary, random_model
from transformer.model import weights
from transformer.report.live import listening, server

PATIENCE = 120  # seconds for an answer of a busy machine


def make_trial(run: Path) -> Path:
    """Make the folder of an untrained run with different translations for different sentences."""
    make_vocabulary(make_run(run, make_experiment()) / "vocabulary.model")
    weights.save_tensors(run / "average.safetensors", random_model(1).state_dict(), {})
    return run


@contextmanager
def served(run: Path, *options: str) -> Iterator[tuple[subprocess.Popen, str]]:
    """Start `serve`, wait for its address, and end it afterwards."""
    command = [sys.executable, "-m", "transformer", "serve", "--run", run, "--port", "0", *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=PROCESSOR, preexec_fn=heed_signals, **pipes) as process:
        try:
            line = process.stdout.readline()
            assert line.endswith(" until Ctrl-C\n"), process.stderr.read()
            yield process, line.split()[0]
        finally:
            process.kill()


@contextmanager
def answering(answer: Callable[[str], dict], page: str = "") -> Iterator[str]:
    """Run a server in this process that answers each text with the function `answer`. Yield its address."""
    with listening(0) as listener:
        own = server(page, {}, lambda texts, attention: list(map(answer, texts)))
        thread = threading.Thread(target=own.run, args=[[listener]])
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            own.should_exit = True
            thread.join()


def ask(address: str, path: str = "translate", body: bytes | None = b'{"text": "ab"}', method=None, **headers):
    """Send a request like the page's, except for the given arguments. Return status, headers and content."""
    request = Request(address + path, body, {"Content-Type": "application/json"} | headers, method=method)
    try:
        response = urlopen(request, timeout=PATIENCE)
    except HTTPError as error:
        response = error
    with response:
        return response.status, response.headers, response.read()


def question(address: str, text: str | list[str], **asked) -> dict:
    """Return the answer to a text or to several."""
    return json.loads(ask(address, body=json.dumps({"text": text} | asked).encode())[2])
