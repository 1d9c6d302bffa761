"""A server's answer up to its body: redirects followed by hand, and a deadline for all of it.

requests reads the body of each redirect whole before it follows it, and its time-outs are for a single piece: a server
that sends a byte a minute, or only ever says `100 Continue`, is within them.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn
from urllib.parse import urljoin, urlsplit

import requests

CONNECT_SECONDS = 20  # long enough for a packet to be lost three times and sent again
READ_SECONDS = 60  # between two pieces, not for the file: the old servers stall, and their large files take hours
ANSWER_SECONDS = CONNECT_SECONDS + READ_SECONDS  # until the head is whole, or a piece of the body has come
AGAIN_SECONDS = 1.0  # urllib3 takes what is raised while it connects for a failure of one address, and tries the next
REDIRECTS = 10


class Refused(Exception):
    """An address does not have the file; the message is the reason. Asking again is of no use."""


class Slow(requests.ConnectionError):
    """A server sends too little in a long time."""


class Session(requests.Session):
    """A session that follows no redirect: even when told not to, requests reads the body of the first."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        return None

    def target(self, response: requests.Response) -> str | None:
        """Return where a response redirects to, None if it does not. Raises Refused where that is no address."""
        try:
            location = super().get_redirect_target(response)
            url = location and urljoin(response.url, location)
            known = url is None or urlsplit(url).scheme in ("http", "https")
        except ValueError:  # not UTF-8, or brackets that do not match
            known = False
        if not known:
            raise Refused(f"expected a redirect to http or https, found {response.headers['Location']}")
        return url


@contextmanager
def ask(url: str, start: int) -> Iterator[requests.Response]:
    """Yield the answer of `url`, or of where it redirects to, when its head has come; nothing of its body is read.

    start: the first byte that is asked for. Raises Refused, and what requests raises.
    """
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    with Session() as session:
        with within():
            response = follow(session, url, headers)
        with response:
            yield response


def follow(session: Session, url: str, headers: dict[str, str]) -> requests.Response:
    """Return the first response that is no redirect. Raises Refused after REDIRECTS of them."""
    for _ in range(REDIRECTS + 1):
        try:
            response = session.get(url, headers=headers, stream=True, timeout=(CONNECT_SECONDS, READ_SECONDS))
        except ValueError as error:  # no address, or headers that contradict each other
            raise Refused(f"{type(error).__name__}: {error}") from error
        if (target := session.target(response)) is None:
            return response
        response.close()
        url = target
    raise Refused(f"expected at most {REDIRECTS} redirects, found more")


@contextmanager
def within() -> Iterator[None]:
    """Raise Timeout in the block after ANSWER_SECONDS, whatever it waits for. For a process's first thread."""

    def expire(number: int, frame: FrameType | None) -> NoReturn:
        raise requests.Timeout(f"nothing whole within {ANSWER_SECONDS:g} s")

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, ANSWER_SECONDS, AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
