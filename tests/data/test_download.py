"""Downloads from faulty servers."""

import gzip
import hashlib
import json
import random
import re
import socket

import pytest
from support.commands import do, error
from support.server import chunked, half, serve, serving, status, without_ranges

from transformer.data import download

DATA = random.Random(1).randbytes(300_007)
SUM = hashlib.sha256(DATA).hexdigest()
SUMS = ("--sha256", SUM, "--size", str(len(DATA)))
OTHER = random.Random(2).randbytes(200_003)  # equivalent bytes, such as the same members in another archive
OTHERS = {"sha256": hashlib.sha256(OTHER).hexdigest(), "size": len(OTHER)}
URL = "https://www.example.org/wmt/corpus.tgz"

part = serve(DATA)


@pytest.fixture
def server():
    with serving() as running:
        yield running


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(download, "_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(download, "_TIMEOUTS", (5, 0.5))
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def output(tmp_path):
    (tmp_path / "downloads").mkdir()
    return tmp_path / "downloads" / "corpus.tgz"


def part_of(output):
    return output.with_name(f"corpus.tgz.{SUM[:8]}.part")


@pytest.fixture
def arguments(server, output):

    def arguments(*urls, options=(), sums=SUMS):
        urls = [server.address + url if url.startswith("/") else url for url in urls]
        return ["fetch", "--url", *urls, *sums, "--output", output, *options]

    return arguments


@pytest.fixture
def succeed(arguments, output):

    def succeed(*urls, expected=DATA, **changes):
        do(*arguments(*urls, **changes))
        assert output.read_bytes() == expected
        assert list(output.parent.iterdir()) == [output]

    return succeed


@pytest.fixture
def fail(arguments, output):

    def fail(*urls, **changes):
        message = error(*arguments(*urls, **changes))
        assert not output.exists()
        return message

    return fail


def compress(handler):
    """Compress unless the request forbids it, and declare gzip as the encoding of a .tgz, like some servers."""
    if "gzip" in handler.headers["Accept-Encoding"]:
        handler.reply(200, gzip.compress(DATA), Content_Encoding="gzip")
    else:
        handler.reply(200, DATA, Content_Encoding="x-gzip")


BEGUN = DATA[:1000]  # the partial file of an earlier run
PAGE = b"<html>Sorry</html>"
FETCHED = {  # existing files, each URL's answers, and the expected requests
    "a busy server is asked again": (b"", {"/a": [*map(status, (408, 429, 500, 503)), part]}, ["/a"] * 5),
    "a cut connection is resumed": (
        b"",
        {"/a": [serve(DATA, 100_001), serve(DATA, 0), serve(DATA, 50_000), part]},
        ["/a", "/a bytes=100001-", "/a bytes=100001-", "/a bytes=150001-"],
    ),
    "at the next address": (
        b"",
        {"/a": [serve(DATA, 1000), status(404)], "/b": [part]},
        ["/a", "/a bytes=1000-", "/b bytes=1000-"],
    ),
    "what a killed process left is resumed": (BEGUN, {"/a": [part]}, ["/a bytes=1000-"]),
    "without ranges": (b"", {"/a": [serve(DATA, 1000), without_ranges(DATA)]}, ["/a", "/a bytes=1000-"]),
    "416": (BEGUN, {"/a": [status(416), part]}, ["/a bytes=1000-", "/a"]),
    "of unknown length": (b"", {"/a": [chunked(BEGUN, DATA[1000:], b"")]}, ["/a"]),
    "an error page of unknown length": (  # the next URL does not get the blame for these bytes
        b"",
        {"/a": [chunked(PAGE, b""), status(404)], "/b": [part]},
        ["/a", "/a bytes=18-", "/b bytes=18-", "/b"],
    ),
    "stalled": (b"", {"/a": [half(DATA), part]}, ["/a", f"/a bytes={len(DATA) // 2}-"]),
    "not decoded": (b"", {"/a": [compress]}, ["/a"]),
    # A wrong partial file, for example after a change on the server, is not the fault of the URL.
    "a full stale part": (b"?" * len(DATA), {"/a": [part]}, ["/a"]),
}


@pytest.mark.parametrize(("begun", "script", "requests"), FETCHED.values(), ids=FETCHED)
def test_fetched(server, succeed, output, begun, script, requests):
    part_of(output).write_bytes(begun)
    server.script = {path: [*answers] for path, answers in script.items()}
    succeed(*script)
    assert [f"{path} {start or ''}".rstrip() for path, start in server.requests] == requests


def announced(length):
    return lambda handler: handler.reply(200, PAGE, Content_Length=length)


def by_bytes(head):
    """Send this beginning of an answer, then one byte at a time without end."""

    def answer(handler):
        handler.wfile.write(b"HTTP/1.0 200 OK\r\n" + head)
        while not handler.server.over.wait(0.05):
            handler.wfile.write(b"x")

    return answer


REFUSED = {  # the answers, the number of answers that are used, and the message
    "without ranges": ([without_ranges(DATA, 1000), without_ranges(DATA, 500)] * 5, 5, ".*1000 bytes.*, 5 times"),
    "always short": ([chunked(BEGUN, b"")], 5, f"ConnectionError: ended after 1000 of {len(DATA)} bytes, 5 times"),
    "a page instead": ([announced(18)], 1, f"expected {len(DATA)} bytes, found 18"),
    "never an answer": ([lambda handler: handler.server.over.wait()], 5, ".*[Tt]imed out.*, 5 times"),
    "a header without end": (
        [by_bytes(b"X-Slow: ")],
        5,
        "ConnectionError: expected an answer within 0.7 s, found none",
    ),
    "a slow body": ([by_bytes(b"Content-Length: 300007\r\n\r\n")], 5, "SlowServer: expected 100 bytes per second"),
    "a wrong redirect": ([status(302, Location="http://[")], 1, "ValueError: Invalid IPv6 URL$"),
    "redirects in a circle": ([status(302, Location="/a")], 31, "TooManyRedirects: Exceeded 30 redirects.$"),
    "an endless body": ([chunked(*[b"x" * (1 << 20)] * 8, b"")], 1, rf"expected {len(DATA)} bytes, found \d{{6,7}}$"),
}


@pytest.mark.parametrize(("answers", "count", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(server, fail, monkeypatch, answers, count, message):
    """An attempt that yields fewer bytes than the previous attempt makes no progress."""
    monkeypatch.setattr(download, "_ANSWER_SECONDS", 0.7)
    server.script["/a"] = [*answers]
    assert re.search(rf"/a: {message}", fail("/a"))
    assert len(server.requests) == count


def test_every_address_is_named_with_its_reason(server, fail):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{free.getsockname()[1]}/a"  # no server listens at this address
    server.script = {"/a": [status(404)], "/b": [status(503)], "/c": [without_ranges(DATA, 0)]}
    reasons = {
        "/a": "HTTP 404 Not Found",
        "/b": ".*HTTP 503 .*, 5 times",
        "/c": ".*IncompleteRead",
        dead: ".*Connection refused",
        "ftp://host/d": "InvalidSchema",
    }
    message = fail(*reasons)
    for url, reason in reasons.items():
        assert re.search(rf"{re.escape(url)}: {reason}", message)


@pytest.fixture
def mirror(tmp_path):
    (tmp_path / "mirror/www.example.org/wmt").mkdir(parents=True)
    return tmp_path / "mirror"


def test_a_mirror_may_have_only_the_second_url(mirror, succeed, output):
    file = mirror / "www.example.org/wmt/corpus.tgz"
    file.write_bytes(DATA)
    succeed("http://old.example.org/corpus.tgz", URL, options=["--mirror", mirror])
    assert not file.samefile(output)


@pytest.mark.parametrize(
    ("content", "problem"),
    [(DATA[::-1], f"expected SHA-256 {SUM}, found {hashlib.sha256(DATA[::-1]).hexdigest()}"), (None, "no such file")],
    ids=["wrong", "missing"],
)
def test_a_mirror_without_the_bytes(server, mirror, fail, content, problem):
    server.script["/a"] = [part]
    file = mirror / "www.example.org/wmt/corpus.tgz"
    if content is not None:
        file.write_bytes(content)
    message = fail("/a", URL, options=["--mirror", mirror])
    assert message.endswith(f"{mirror}/127.0.0.1:{server.server_port}/a: no such file; {file}: {problem}")
    assert server.requests == []


def test_a_repacked_archive_is_downloaded_from_the_beginning(server, output, succeed):
    """An archive that its host repacks for each request has no known size or checksum."""
    output.with_name("corpus.tgz.unknown.part").write_bytes(b"left, perhaps packed differently")
    server.script["/a"] = [serve(DATA, 1000), chunked(DATA[:1000]), part]
    succeed("/a", sums=())
    assert server.requests == [("/a", None)] * 3


def test_other_bytes_in_turn(server, succeed):
    """The first URL has wrong bytes for the second version. An existing file stays."""
    server.script = {"/a": [serve(OTHER)], "/b": [serve(DATA)], "/c": [serve(OTHER)]}
    version = OTHERS | {"urls": [server.address + path for path in ("/b", "/c")]}
    for _ in range(2):
        succeed("/a", options=["--or", json.dumps(version)], expected=OTHER)
        assert len(server.requests) == 3


def test_an_md5(server, succeed):
    """If the size is also unknown, the file is downloaded from the beginning."""
    server.script = {"/a": [serve(DATA[::-1])], "/b": [serve(DATA, 1000), part]}
    succeed("/a", "/b", sums=("--md5", hashlib.md5(DATA).hexdigest()))
    assert server.requests == [("/a", None), ("/b", None), ("/b", None)]
