"""An HTTP server on this machine with scripted faults."""

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
            if value is not None:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


Answer = Callable[[Handler], None]


def serve(data: bytes, length: int | None = None) -> Answer:
    """Serve from the start of the range, but hang up after `length` bytes."""

    def answer(handler):
        asked = handler.headers["Range"]
        start = int(asked[len("bytes=") : -1]) if asked else 0
        range = {"Content_Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if asked else {}
        handler.reply(206 if asked else 200, data[start:][:length], Content_Length=len(data) - start, **range)

    return answer


def without_ranges(data: bytes, length: int | None = None) -> Answer:
    """Serve from the beginning, ignoring the range, but hang up after `length` bytes."""
    return lambda handler: handler.reply(200, data[:length], Content_Length=len(data))


def status(code: int, **headers: str) -> Answer:
    """Answer with this status and a page that is not the file."""
    return lambda handler: handler.reply(code, b"<html>Sorry</html>", **headers)


def half(data: bytes) -> Answer:
    """Serve half of the requested bytes, then nothing until the test is over."""
    return lambda handler: (serve(data, len(data) // 2)(handler), handler.server.over.wait())


def chunked(*pieces: bytes) -> Answer:
    """Serve a body without its length. The body is complete if the last piece is empty."""

    def answer(handler):
        handler.protocol_version = "HTTP/1.1"
        body = b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces)
        handler.reply(200, body, Content_Length=None, Transfer_Encoding="chunked")
        handler.close_connection = True

    return answer


@contextmanager
def serving() -> Iterator[ThreadingHTTPServer]:
    """Run a server with an `address`, a `script` of answers by path, and a list of received `requests`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.script, server.requests, server.over = {}, [], threading.Event()
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
