"""A server of one page for the programs of this machine: GET / is the page, POST /translate answers a text in JSON.

It listens on 127.0.0.1 alone, and refuses what pages of other sites make a browser send. Each connection has a thread
and carries one request. Answers are worked out where `Server.work` is called, one at a time.
"""

import queue
import select
import socket
import socketserver
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

from transformer.files import InputError
from transformer.report.page.request import Handler

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")  # by which a browser on this machine may call it
CONNECTIONS = 32  # at once; others wait
HEED_SIGNALS_EVERY = 0.5  # seconds: Python hears one that came just before a wait only when the wait ends


class Page(NamedTuple):
    """A page in HTML, and its Content-Security-Policy."""

    html: str
    policy: str


class Waiting(NamedTuple):
    """A text that waits for its answer."""

    text: str
    client: socket.socket
    answer: Future


class Server(socketserver.ThreadingTCPServer):
    """The server. Raises InputError where the port cannot be had; port 0 is any that is free."""

    allow_reuse_address = True  # another process may have used the port a minute ago
    daemon_threads = True  # no client holds up the end
    request_queue_size = CONNECTIONS

    def __init__(self, port: int):
        self.questions: queue.SimpleQueue[Waiting] = queue.SimpleQueue()
        self.slots = threading.Semaphore(CONNECTIONS)
        try:
            super().__init__((HOST, port), Handler)
        except OSError as error:
            problem = f"port {port}: cannot be listened on: {error.strerror}; --port 0 takes one that is free"
            raise InputError(problem) from None
        self.port = self.server_address[1]
        ending = "" if self.port == 80 else f":{self.port}"
        self.hosts = [name + ending for name in NAMES]
        self.address = f"http://{self.hosts[0]}/"

    def work(self, page: Page, answer: Callable[[str], dict[str, Any]]) -> None:
        """Serve the page for ever, and give texts to `answer` in the order in which they came.

        A text whose client has left, as a page does that asks for a newer one, is not given to it. What `answer` says
        in an InputError is told to the client; after any other error the server goes on, too.
        """
        self.page = page
        threading.Thread(target=self.serve_forever, daemon=True).start()
        while True:
            try:
                text, client, promised = self.questions.get(timeout=HEED_SIGNALS_EVERY)
            except queue.Empty:  # a signal that came has been answered by now
                continue
            if has_left(client):
                promised.cancel()
                continue
            try:
                promised.set_result(answer(text))
            except Exception as error:
                promised.set_exception(error)  # raised again in the thread of the request

    def ask(self, text: str, client: socket.socket) -> Future:
        """Return what will hold the answer to a client's text when its turn has come; cancelled if it left before."""
        self.questions.put(waiting := Waiting(text, client, Future()))
        return waiting.answer

    def process_request(self, request, client_address) -> None:
        self.slots.acquire()
        super().process_request(request, client_address)

    def shutdown_request(self, request) -> None:
        super().shutdown_request(request)
        self.slots.release()


def has_left(client: socket.socket) -> bool:
    """Return whether a client has closed its connection, or its sending side: the two look alike from here."""
    poll = select.poll()
    poll.register(client, select.POLLRDHUP)  # a broken connection is told of unasked
    return bool(poll.poll(0))
