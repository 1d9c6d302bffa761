"""An answer to one request to the server of the page (server.py), or its refusal in one line of JSON."""

import io
import json
import socket
import time
from concurrent.futures import CancelledError
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TypedDict

from transformer.files import InputError
from transformer.records import parse_json
from transformer.text import printable, reason

PATHS = {"/": "GET", "/translate": "POST"}
BODY = 10_000  # bytes of a question at most
PATIENCE = 10.0  # seconds that a client has to send a request, and to take the answer
UNREAD = 2**20  # bytes of a refused request that are read, so that the client reads the refusal
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Question(TypedDict):
    """The content of a POST."""

    text: str


class Refusal(Exception):
    """A request that is answered by an error."""

    def __init__(self, status: HTTPStatus, message: object, **headers: str):
        super().__init__(printable(message))
        self.status, self.headers = status, headers


class Incoming(io.RawIOBase):
    """A reader of what a client sends within PATIENCE, however slowly; after that reading raises TimeoutError."""

    def __init__(self, client: socket.socket):
        self.client, self.end = client, time.monotonic() + PATIENCE

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        self.client.settimeout(max(self.end - time.monotonic(), 1e-3))
        return self.client.recv_into(buffer)


class Handler(BaseHTTPRequestHandler):
    """An answer to one request."""

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(Incoming(self.connection))

    def handle(self) -> None:
        with suppress(ConnectionError, TimeoutError):  # the client has left, or will not listen
            super().handle()
            self.wait_for_end()

    def wait_for_end(self) -> None:
        """Read what a client still sends: if the connection ended before, it might not read its answer."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            left = UNREAD
            while left > 0 and (read := self.rfile.read1()):
                left -= len(read)

    def do_GET(self) -> None:
        try:
            self.check()
            if self.command == "GET":
                content, policy = self.server.page
                self.reply(HTTPStatus.OK, content, "text/html", {"Content-Security-Policy": policy})
            else:
                self.reply(HTTPStatus.OK, self.answer())
        except Refusal as refusal:
            self.refuse(refusal)

    do_POST = do_GET

    def check(self) -> None:
        """Raise Refusal unless the request is for one of PATHS of this very server, and from one of its pages."""
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self.server.hosts:  # a foreign name may lead to this machine
            expected = " or ".join(self.server.hosts)
            raise Refusal(HTTPStatus.FORBIDDEN, f"Host: expected {expected}, found {', '.join(hosts) or 'none'}")
        if (method := PATHS.get(self.path)) is None:
            raise Refusal(HTTPStatus.NOT_FOUND, f"expected the path {' or '.join(PATHS)}, found {self.path}")
        if self.command != method:
            problem = f"{self.path}: expected {method}, found {self.command}"
            raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, problem, Allow=method)
        for origin in self.headers.get_all("Origin", []):
            if origin.lower() not in [f"http://{host}" for host in self.server.hosts]:
                raise Refusal(HTTPStatus.FORBIDDEN, f"Origin: expected a page of this server, found {origin}")

    def answer(self) -> str:
        """Return the answer to a question, in JSON, when its turn has come. Raises Refusal."""
        promised = self.server.ask(self.question(), self.connection)
        try:
            return json.dumps(promised.result(), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        except InputError as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, error) from None
        except CancelledError:
            raise ConnectionAbortedError from None
        except Exception as error:
            self.refuse(Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, reason(error)))
            raise  # whoever started the server sees why

    def question(self) -> str:
        """Return the text in the body. Raises Refusal, or TimeoutError."""
        if (kind := self.headers.get_content_type()) != "application/json":  # forms of other sites cannot send it
            problem = f"Content-Type: expected application/json, found {kind}"
            raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, problem)
        length = self.headers.get("Content-Length", "none")
        if not (length.isascii() and length.isdecimal()):
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, f"Content-Length: expected a number of bytes, found {length}")
        if len(length) > len(str(BODY)) or int(length) > BODY:
            problem = f"expected at most {BODY:,} bytes, found {length}"
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, problem)
        try:
            body = self.rfile.read(int(length))
        except TimeoutError:
            problem = f"expected {length} bytes within {PATIENCE:g} seconds, found fewer"
            raise Refusal(HTTPStatus.REQUEST_TIMEOUT, problem) from None
        if len(body) < int(length):
            raise Refusal(HTTPStatus.BAD_REQUEST, f"expected {length} bytes, found {len(body)}")
        try:
            return parse_json(body, Question, "the request")["text"]
        except InputError as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, error) from None

    def refuse(self, refusal: Refusal) -> None:
        self.reply(refusal.status, json.dumps({"error": str(refusal)}), headers=refusal.headers)

    def reply(
        self, status: HTTPStatus, content: str, kind: str = "application/json", headers: dict[str, str] | None = None
    ) -> None:
        """Send an answer; to HEAD without its content."""
        body = content.encode()
        self.connection.settimeout(PATIENCE)
        self.send_response(status)
        own = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}
        for name, value in (own | HEADERS | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what BaseHTTPRequestHandler refuses: a method or a version that it does not know, bad headers."""
        status, headers = HTTPStatus(code), {}
        if status == HTTPStatus.NOT_IMPLEMENTED:
            status, headers = HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": ", ".join(PATHS.values())}
        self.refuse(Refusal(status, message or status.phrase, **headers))

    def version_string(self) -> str:
        return "transformer"

    def log_message(self, *args) -> None:
        """Say nothing of requests: texts are the user's own."""
