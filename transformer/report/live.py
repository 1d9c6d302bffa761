"""The interactive page and its server. GET / returns the page, POST /translate translates a text and returns JSON.

The server listens only on 127.0.0.1, and refuses requests that pages of other sites cause.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import uvicorn
from msgspec.structs import asdict
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from transformer.config.experiment import load
from transformer.evaluation.attention import Attention, weights_in
from transformer.layout import Results
from transformer.report import environment
from transformer.report.figures import COLORS
from transformer.storage.files import InputError, reason
from transformer.storage.records import parse_json, read_summed, run_name
from transformer.translation.translator import open_translator

HOST = "127.0.0.1"
_LONGEST = 128  # maximum tokens in a sentence, including EOS, because attention weights grow quadratically
_BODY = 10_000  # maximum bytes in a request's body


class _Question(TypedDict):
    text: str


class Trial:
    """The averaged model of a run, or an exported model."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.translator = open_translator(folder)
        self.experiment = self.translator.experiment

    def answer(self, text: str) -> dict[str, Any]:
        """Return `translations` with their scores, best first, and the `attention` of the best as in attention.json."""
        translator, how = self.translator, self.experiment.preprocessing
        line = text.replace("\r", " ").replace("\n", " ")
        words, most = translator.source.count_words(translator.source.tokenize(line)), how.max_words
        if not 0 < words <= most:
            raise InputError(f"expected a sentence of 1 to {most:,} words, as the tokeniser cuts them, found {words:,}")
        if (tokens := len(translator.encode([line])[0])) > _LONGEST:
            raise InputError(f"expected a sentence of up to {_LONGEST} subwords, found {tokens:,}")
        (best,) = translator.translate([line], n_best=translator.decoding.beam_size)
        return {"translations": best.ranked(), "attention": weights_in(translator, [({"title": text}, line, best)])}

    def example(self) -> str:
        """Return the shortest sentence on the page of the run's scale, or ""."""
        scale = Results(self.folder / "../../../..")
        try:
            shown = read_summed(scale.attention, Attention)
            task, experiment, seed = shown["run"].split("/")
            other = load(scale.run(task, experiment, seed).experiment)
        except (InputError, OSError, ValueError):  # an export, a run without a page, or an unusual folder name
            return ""
        sentences = shown["sentences"] if other.source == self.experiment.source else []
        return min((one.get("text", one["title"]) for one in sentences), key=len, default="")

    def page(self) -> str:
        template = environment().get_template("serve.html")
        return template.render(
            experiment=self.experiment,
            run=run_name(asdict(self.experiment)),
            example=self.example(),
            words=self.experiment.preprocessing.max_words,
            settings={"target": self.experiment.target, "bytes": _BODY},
            colors=COLORS,
        )


def server(page: str, answer: Callable[[str], dict[str, Any]]) -> uvicorn.Server:
    """Make the page's server. `answer` translates texts. It logs only errors, because texts are private."""
    turn = asyncio.Lock()

    async def show(request: Request) -> Response:
        return HTMLResponse(page)

    async def translate(request: Request) -> Response:
        origin = request.headers.get("Origin")  # browsers send this header with every POST
        if origin not in (None, f"http://{request.headers['Host']}"):
            raise HTTPException(403, f"Origin: expected a page of this server, found {origin}")
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _BODY:
                raise HTTPException(413, f"expected up to {_BODY:,} bytes, found more")
        text = parse_json(body, _Question, "the request")["text"]
        async with turn:
            if await request.is_disconnected():  # the page disconnects when it requests a newer text
                return Response()
            return JSONResponse(await run_in_threadpool(answer, text))

    async def refuse(request: Request, error: Exception) -> Response:
        status = 400 if isinstance(error, InputError) else getattr(error, "status_code", 500)
        problem = reason(getattr(error, "detail", error))
        if status in (404, 405):
            problem = f"expected GET / or POST /translate, found {request.method} {request.url.path}"
        return JSONResponse({"error": problem}, status)

    app = Starlette(
        routes=[Route("/", show), Route("/translate", translate, methods=["POST"])],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"], www_redirect=False)],
        exception_handlers=dict.fromkeys((InputError, HTTPException, ClientDisconnect, Exception), refuse),
    )
    quiet = {"log_config": None, "log_level": "error", "access_log": False, "server_header": False}
    plain = {"loop": "asyncio", "http": "h11", "ws": "none", "lifespan": "off", "timeout_graceful_shutdown": 1}
    own = uvicorn.Server(uvicorn.Config(app, **plain, **quiet))
    logging.getLogger("uvicorn.error").addFilter(lambda _: not own.should_exit)  # for interrupted requests
    return own


def listening(port: int) -> socket.socket:
    """Open a socket on HOST. Port 0 means any free port. Raises InputError."""
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        problem = f"port {port}: cannot be listened on: {os.strerror(error.errno)}; --port 0 takes one that is free"
        raise InputError(problem) from None
