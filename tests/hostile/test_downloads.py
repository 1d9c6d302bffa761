"""Hostile servers: each ends in one line that says why, and the next address is tried."""

import gzip
import hashlib
import random
import re
import time
from contextlib import suppress

import pytest
import requests
from support.server import chunked, raw, serve, serving, status

from transformer.data import response

DATA = random.Random(1).randbytes(100_003)
SUMS = ("--sha256", hashlib.sha256(DATA).hexdigest(), "--size", len(DATA))
HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
CHUNK = b"1\r\n?\r\n"
BOMB = gzip.compress(bytes(1 << 26))
IMPATIENT = {
    "transformer.data.response.ANSWER_SECONDS": 0.5,
    "transformer.data.download.PAUSE_SECONDS": 0.001,
    "transformer.data.download.ATTEMPTS": 2,
    "transformer.data.download.MOST": 1 << 20,
}
LATE = "Timeout: nothing whole within 0.5 s, 2 times"
UNKNOWN = "of unknown size: "  # at the beginning of a name: neither sum nor size are given


def headers(*lines: bytes, body: bytes = DATA):
    """Answer with these headers and the file."""
    return raw(HEAD + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body)


def redirect(location: bytes, body: bytes = b"", then: bytes = b""):
    return raw(b"HTTP/1.1 302 Found\r\nLocation: " + location + b"\r\n\r\n" + body, then)


REFUSED = {  # an address's answer, and what is said of it
    "a redirect to itself": (redirect(b"/a"), "expected at most 10 redirects, found more"),
    "a redirect to itself, and on": (redirect(b"/a", then=b"x" * 65536), "expected at most 10 redirects, found more"),
    "a redirect to a file": (redirect(b"file:///etc/passwd"), "expected a redirect to http or https, found file:///"),
    "a redirect to FTP": (redirect(b"ftp://host/a"), "expected a redirect to http or https, found ftp://host/a"),
    "a redirect to no address": (redirect(b"http://[a"), r"expected a redirect to http or https, found http://\[a"),
    "a redirect to no text": (redirect(b"/\xff\xfe"), "expected a redirect to http or https, found /"),
    "a redirect to no port": (redirect(b"http://127.0.0.1:99999/a"), "InvalidURL: .*99999"),
    "a redirect to a host of dots": (redirect(b"http://" + b"a" * 70 + b".b../a"), "[A-Za-z]*: .*label"),
    "a redirect that moves the cursor": (redirect(b"x:\x1b[2J\x9b"), r"expected .* found x:\\x1b\[2J\\x9b"),
    "a reason that moves the cursor": (raw(b"HTTP/1.1 404 \x1b]0;owned\x07\x9b2J\r\n\r\n"), r"HTTP 404 \\x1b\]0;owned"),
    "a reason of 60 kB": (raw(b"HTTP/1.1 404 " + b"x" * 60_000 + b"\r\n\r\n"), r"HTTP 404 x+ \.\.\. x+$"),
    "a length in words": (headers(b"Content-Length: many"), "expected a number .* as Content-Length, found many"),
    "a length below zero": (headers(b"Content-Length: -5"), "expected a number .* as Content-Length, found -5"),
    "a length of many digits": (headers(b"Content-Length: " + b"9" * 5000), "expected a number .*, found 999"),
    "two lengths": (headers(b"Content-Length: 5", b"Content-Length: 7"), r".*Content-Length.*\(5, 7\)"),
    "no status line": (raw(b"hello\r\n\r\n"), "BadStatusLine: hello"),
    "a status in words": (raw(b"HTTP/1.1 fine OK\r\n\r\n"), "BadStatusLine: HTTP/1.1 fine OK"),
    "another protocol": (raw(b"HTTP/9.9 200 OK\r\n\r\n"), "UnknownProtocol: HTTP/9.9"),
    "nothing": (raw(b""), "RemoteDisconnected: "),
    "an endless status line": (raw(b"HTTP/1.1 200 ", b"x" * 4096), "LineTooLong: "),
    "an endless header": (raw(HEAD + b"X: ", b"x" * 4096), "LineTooLong: "),
    "endless headers": (raw(HEAD, b"X: y\r\n"), "HTTPException: got more than 100 headers"),
    "headers byte by byte": (raw(HEAD, b"x", 0.01), LATE),
    "endless leave to continue": (raw(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 99), LATE),
    "leave to continue now and then": (raw(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.01), LATE),
    "endless early hints": (raw(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 99), "HTTP 103 Early Hints"),
    "a chunk's size in words": (raw(CHUNKED + b"many\r\n"), "IncompleteRead"),
    "a chunk's size below zero": (raw(CHUNKED + b"-5\r\nabcde\r\n"), "IncompleteRead"),
    "a chunk of many digits": (raw(CHUNKED + b"f" * 999 + b"\r\n" + DATA[:-1]), "IncompleteRead"),
    "a chunk's size byte by byte": (raw(CHUNKED, b"0", 0.01), LATE),
    "endless chunks": (raw(CHUNKED, b"fff\r\n" + b"x" * 0xFFF + b"\r\n"), f"expected {len(DATA)} bytes, found"),
    "endless trailers": (raw(CHUNKED + CHUNK + b"0\r\n", b"X: y\r\n" * 999), "Timeout: nothing whole|IncompleteRead"),
    "an endless body": (raw(HEAD + b"\r\n", b"x" * 65536), f"expected {len(DATA)} bytes, found {len(DATA) + 1}"),
    "an endless page of an error": (raw(b"HTTP/1.1 404 No\r\n\r\n", b"x" * 65536), "HTTP 404 No"),
    "another encoding": (headers(b"Content-Encoding: gzip", body=gzip.compress(DATA)), f"expected {len(DATA)} bytes"),
    "a bomb": (headers(b"Content-Encoding: gzip", body=BOMB), "expected SHA-256|expected .* bytes, found|ended after"),
    "a byte at a time": (serve(DATA, 1), "IncompleteRead"),
    f"{UNKNOWN}an endless body": (raw(HEAD + b"\r\n", b"x" * 65536), f"expected at most {1 << 20} bytes, found more"),
    f"{UNKNOWN}a length beyond all": (headers(b"Content-Length: 99999999999"), f"expected at most {1 << 20} bytes"),
    f"{UNKNOWN}no bytes": (headers(b"Content-Length: 0", body=b""), "found an empty file"),
    f"{UNKNOWN}half of it": (headers(b"Content-Length: 200000"), "IncompleteRead|ended after"),
}
LONG_WAY = {f"/{number}": [redirect(b"/%d" % (number + 1))] for number in range(1, 10)}  # nine redirects
FETCHED = {  # the scripts of all paths of a server that is no worse than odd
    "a redirect with an endless body": {"/a": [redirect(b"/b", then=b"x" * 65536)], "/b": [serve(DATA)]},
    "a redirect with a bomb": {"/a": [redirect(b"/b\r\nContent-Encoding: gzip", BOMB)], "/b": [serve(DATA)]},
    "ten redirects": {"/a": [redirect(b"/1")], "/10": [serve(DATA)]} | LONG_WAY,
    "an address of its own kind": {"/a": [redirect(b"?b")], "/a?b": [serve(DATA)]},
    "leave to continue": {"/a": [raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 9 + HEAD + b"\r\n" + DATA)]},
    "an unknown encoding": {"/a": [headers(b"Content-Encoding: x-made-up, gzip, \xff")]},
    "the same length twice": {"/a": [headers(b"Content-Length: 100003")]},
    "a chunk each byte": {"/a": [chunked(*[b"?"] * 99, b""), status(404)], "/b": [serve(DATA)]},
    "headers without a colon": {"/a": [headers(b"no header", b": none", b"X\x00Y: \xff")]},
}


@pytest.fixture
def server():
    with serving() as running:
        yield running


@pytest.fixture
def fetch(run, server, tmp_path):
    """Fetch from these paths of the server into tmp_path/file; return the result."""

    def fetch(*paths, sums=SUMS, constants=IMPATIENT):
        urls = [word for path in paths for word in ("--url", server.address + path)]
        return run("fetch", *urls, *sums, "--output", tmp_path / "file", constants=constants)

    return fetch


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_server_is_one_refused_address(name, server, fetch, tmp_path):
    """Without another address this is the error; with another, that one's file is taken."""
    answer, reason = REFUSED[name]
    server.script = {"/a": [answer], "/good": [serve(DATA)]}
    sums = () if name.startswith(UNKNOWN) else SUMS
    result = fetch("/a", sums=sums)
    assert result.status == 1
    expected = rf"transformer fetch: error: file: no address gave it: {server.address}/a: .*({reason})"
    assert re.match(expected if "60 kB" not in name else r"transformer fetch: error: .* \.\.\. x+$", result.last_line)
    assert not (tmp_path / "file").exists()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1 << 20
    assert fetch("/a", "/good", sums=sums).status == 0
    assert (tmp_path / "file").read_bytes() == DATA


def test_a_deadline_is_not_swallowed(monkeypatch):
    """As urllib3 does where it connects: what is raised is one address's failure, and it tries the next."""
    monkeypatch.setattr(response, "ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(response, "AGAIN_SECONDS", 0.05)

    def connect() -> None:
        with suppress(OSError):
            time.sleep(5)
        time.sleep(5)

    started = time.monotonic()
    with pytest.raises(requests.Timeout, match="nothing whole within"), response.within():
        connect()
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("name", FETCHED)
def test_an_odd_server_gives_the_file(name, server, fetch, tmp_path):
    server.script = FETCHED[name]
    result = fetch("/a", *(["/b"] if "/b" in server.script else []), constants={})
    assert (result.status, (tmp_path / "file").read_bytes()) == (0, DATA), result.printed
