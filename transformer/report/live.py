"""The interactive page and its server. POST /translate translates sentences and returns JSON.

By default, the server listens only on 127.0.0.1. It refuses requests that pages of other sites cause.
"""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from msgspec import Meta
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
from transformer.storage.reading import Section
from transformer.storage.records import parse_json, read_summed
from transformer.translation.translator import open_translator

HOST = "127.0.0.1"
_LONGEST = 128  # maximum tokens in a sentence, including EOS, because attention weights grow quadratically
_SENTENCES = 100  # maximum number in a request
_BODY = 50_000  # maximum bytes in a request's body
Answer = Callable[[list[str], bool], list[dict[str, Any]]]  # (sentences, whether to add their attention)


class _Question(Section):
    text: str | Annotated[list[str], Meta(min_length=1, max_length=_SENTENCES)]
    attention: bool = False


class Trial:
    """The averaged model of a run, or an exported model."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.translator = open_translator(folder)
        self.experiment = self.translator.experiment

    def answer(self, texts: list[str], attention: bool) -> list[dict[str, Any]]:
        """Return each sentence's `translations` with scores, best first, and `attention` of the best if requested."""
        translator, how = self.translator, self.experiment.preprocessing
        lines = [text.replace("\r", " ").replace("\n", " ") for text in texts]
        for line in lines:
            words, most = translator.source.count_words(translator.source.tokenize(line)), how.max_words
            if not 0 < words <= most:
                problem = f"of 1 to {most:,} words, as the tokeniser cuts them, found {words:,}"
                raise InputError(f"expected a sentence {problem}")
            if (tokens := len(translator.encode([line])[0])) > _LONGEST:
                raise InputError(f"expected a sentence of up to {_LONGEST} subwords, found {tokens:,}")
        found = translator.translate(lines, n_best=translator.decoding.beam_size)
        answers = [{"translations": best.ranked()} for best in found]
        if attention:
            for answer, line, best in zip(answers, lines, found, strict=True):
                answer["attention"] = weights_in(translator, [({"title": line}, line, best)])
        return answers

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

    def about(self) -> dict[str, str]:
        """Return the run's name and languages."""
        known = self.experiment
        return {"run": known.name, "source": known.source, "target": known.target}

    def page(self) -> str:
        template = environment().get_template("serve.html")
        return template.render(
            experiment=self.experiment,
            example=self.example(),
            words=self.experiment.preprocessing.max_words,
            settings={"target": self.experiment.target, "bytes": _BODY},
            colors=COLORS,
        )


def server(page: str, about: dict[str, str], answer: Answer, host: str = HOST) -> uvicorn.Server:
    """Make the page's server. It logs only errors, because texts are private. about: the content of /health."""
    turn = asyncio.Lock()

    async def show(request: Request) -> Response:
        return HTMLResponse(page)

    async def health(request: Request) -> Response:
        return JSONResponse(about)

    async def translate(request: Request) -> Response:
        origin = request.headers.get("Origin")  # browsers send this header with every POST
        if origin not in (None, f"http://{request.headers['Host']}"):
            raise HTTPException(403, f"Origin: expected a page of this server, found {origin}")
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _BODY:
                raise HTTPException(413, f"expected up to {_BODY:,} bytes, found more")
        asked = parse_json(body, _Question, "the request")
        one = isinstance(asked.text, str)
        async with turn:
            if await request.is_disconnected():  # the page disconnects when it requests a newer text
                return Response()
            answers = await run_in_threadpool(answer, [asked.text] if one else asked.text, asked.attention)
            return JSONResponse(answers[0] if one else {"sentences": answers})

    async def refuse(request: Request, error: Exception) -> Response:
        status = 400 if isinstance(error, InputError) else getattr(error, "status_code", 500)
        problem = reason(getattr(error, "detail", error))
        if status in (404, 405):
            problem = f"expected GET /, GET /health or POST /translate, found {request.method} {request.url.path}"
        return JSONResponse({"error": problem}, status)

    known = [HOST, "localhost"] if host == HOST else ["*"]  # the name of a reachable machine is unknown
    app = Starlette(
        routes=[Route("/", show), Route("/health", health), Route("/translate", translate, methods=["POST"])],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=known, www_redirect=False)],
        exception_handlers=dict.fromkeys((InputError, HTTPException, ClientDisconnect, Exception), refuse),
    )
    quiet = {"log_config": None, "log_level": "error", "access_log": False, "server_header": False}
    plain = {"loop": "asyncio", "http": "h11", "ws": "none", "lifespan": "off", "timeout_graceful_shutdown": 1}
    own = uvicorn.Server(uvicorn.Config(app, **plain, **quiet))
    logging.getLogger("uvicorn.error").addFilter(lambda _: not own.should_exit)  # for interrupted requests
    return own


def listening(port: int, host: str = HOST) -> socket.socket:
    """Open a socket. Port 0 means any free port. Raises InputError."""
    try:
        return socket.create_server((host, port))
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise InputError(f"--host: expected an address of this machine, found {host}") from None
        problem = f"port {port}: cannot be listened on: {os.strerror(error.errno)}; --port 0 takes one that is free"
        raise InputError(problem) from None
