"""An HTTP server on this machine that misbehaves as it is told."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """A handler that answers each request for a path with the next function of the server's script, or its last one."""

    def do_GET(self):
        self.server.requests.append((self.path, self.headers["Range"]))
        script = self.server.script[self.path]
        (script.pop(0) if len(script) > 1 else script[0])(self)

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in ({"Content_Length": len(body)} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.send(body)

    def send(self, body):
        self.wfile.write(body)
        self.server.sent += len(body)

    def start(self):
        """Return the first byte that the client asked for."""
        return int((self.headers["Range"] or "bytes=0-")[len("bytes=") : -1])

    def log_message(self, *args):
        pass


Answer = Callable[[Handler], None]


def serve(data: bytes, length: int | None = None) -> Answer:
    """Serve from the range's start on, but hang up after `length` bytes."""

    def answer(handler):
        start = handler.start()
        headers = {"Content_Length": len(data) - start}
        if handler.headers["Range"]:
            headers["Content_Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        handler.reply(206 if "Content_Range" in headers else 200, data[start:][:length], **headers)

    return answer


def without_ranges(data: bytes, length: int | None = None) -> Answer:
    """Serve from the beginning, whatever was asked for, but hang up after `length` bytes."""
    return lambda handler: handler.reply(200, data[:length], Content_Length=len(data))


def status(code: int, **headers: str) -> Answer:
    """Answer with this status and a page that is not the file."""
    return lambda handler: handler.reply(code, b"<html>Sorry</html>", **headers)


def half(data: bytes) -> Answer:
    """Serve half of what was asked for, then nothing until the test is over."""

    def answer(handler):
        serve(data, len(data) // 2)(handler)
        handler.server.over.wait()

    return answer


def chunked(*pieces: bytes) -> Answer:
    """Serve a body without its length; it is whole if the last piece is empty."""

    def answer(handler):
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for piece in pieces:
            handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        handler.close_connection = True

    return answer


@contextmanager
def serving() -> Iterator[ThreadingHTTPServer]:
    """Run a server with an `address`, a `script` of answers by path, and the `requests` that it got."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.script, server.requests, server.sent, server.over = {}, [], 0, threading.Event()
    server.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
