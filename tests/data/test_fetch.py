"""Fetching, from servers that misbehave."""

import gzip
import hashlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.commands import error
from support.server import chunked, half, serve, serving, status, without_ranges

from transformer import __main__
from transformer.data import download, response

DATA = random.Random(1).randbytes(300_007)
SUM = hashlib.sha256(DATA).hexdigest()
SUMS = ("--sha256", SUM, "--size", str(len(DATA)))
OTHER = random.Random(2).randbytes(200_003)  # bytes that serve as well, such as the same members packed differently
OTHER_SUM = hashlib.sha256(OTHER).hexdigest()
URL = "https://www.example.org/wmt/corpus.tgz"

part, stalled = serve(DATA), half(DATA)


def cut(length):
    return serve(DATA, length)


def rangeless(length=None):
    return without_ranges(DATA, length)


@pytest.fixture
def server():
    with serving() as running:
        yield running


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(download, "PAUSE_SECONDS", 0.001)
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def output(tmp_path):
    return tmp_path / "downloads" / "corpus.tgz"


@pytest.fixture
def partial(output):
    """Leave the given bytes as an earlier run would have."""

    def partial(content):
        output.parent.mkdir()
        part_of(output).write_bytes(content)

    return partial


def part_of(output):
    return output.with_name(f"corpus.tgz.{SUM[:8]}.part")


def arguments(urls, output, *options, sums=SUMS):
    urls = [word for url in urls for word in ("--url", url)]
    return ["fetch", *urls, *sums, "--output", str(output), *map(str, options)]


@pytest.fixture
def succeed(server, output):
    """Fetch from the server's paths, or other addresses; check the file and that nothing else is left."""

    def succeed(*urls, options=(), expected=DATA, **changes):
        urls = [server.address + url if url.startswith("/") else url for url in urls]
        __main__.main(arguments(urls, output, *options, **changes))
        assert output.read_bytes() == expected
        assert list(output.parent.iterdir()) == [output]

    return succeed


@pytest.fixture
def fail(server, output):
    """Return the error's text, after checking that it is one line and that there is no output."""

    def fail(*urls, options=(), **changes):
        urls = [server.address + url if url.startswith("/") else url for url in urls]
        message = error(*arguments(urls, output, *options, **changes))
        assert not output.exists()
        assert message.startswith("corpus.tgz: ")
        return message

    return fail


def dead():
    """Return an address on which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/a"


def compress(handler):
    """Compress unless told not to, and say of a .tgz that its encoding is gzip, as some servers do."""
    if "gzip" in handler.headers["Accept-Encoding"]:
        handler.reply(200, gzip.compress(DATA), Content_Encoding="gzip")
    else:
        handler.reply(200, DATA, Content_Encoding="x-gzip")


def announce(length):
    """Answer with a page that is not the file, and say that it has this length."""
    return lambda handler: handler.reply(200, PAGE, Content_Length=length)


BEGUN = DATA[:1000]  # what an earlier run left
PAGE = b"<html>Sorry</html>"
FETCHED = {  # what is there, each address's answers, and the requests
    "whole": (b"", {"/a": [part]}, ["/a"]),
    "a busy server is asked again": (b"", {"/a": [*map(status, (408, 429, 500, 503)), part]}, ["/a"] * 5),
    "a cut connection is resumed": (
        b"",
        {"/a": [cut(100_001), cut(0), cut(50_000), part]},
        ["/a", "/a bytes=100001-", "/a bytes=100001-", "/a bytes=150001-"],
    ),
    "at the next address": (
        b"",
        {"/a": [cut(1000), status(404)], "/b": [part]},
        ["/a", "/a bytes=1000-", "/b bytes=1000-"],
    ),
    "without ranges": (b"", {"/a": [cut(1000), rangeless()]}, ["/a", "/a bytes=1000-"]),
    "416": (BEGUN, {"/a": [status(416, Content_Range="bytes */1"), part]}, ["/a bytes=1000-", "/a"]),
    "another range": (BEGUN, {"/a": [status(206, Content_Range="bytes 7-24/25"), part]}, ["/a bytes=1000-", "/a"]),
    "no range": (BEGUN, {"/a": [status(206), part]}, ["/a bytes=1000-", "/a"]),
    "redirected": (
        BEGUN,
        {"/a": [status(302, Location="/b")], "/b": [part]},
        ["/a bytes=1000-", "/b bytes=1000-"],
    ),
    "wrong bytes first": (b"", {"/a": [serve(DATA[::-1])], "/b": [part]}, ["/a", "/b"]),
    "of unknown length": (b"", {"/a": [chunked(BEGUN, DATA[1000:], b"")]}, ["/a"]),
    "of unknown length and short": (b"", {"/a": [chunked(BEGUN, b""), part]}, ["/a", "/a bytes=1000-"]),
    "an error page of unknown length": (  # no other address is blamed for its bytes
        b"",
        {"/a": [chunked(PAGE, b""), status(404)], "/b": [part]},
        ["/a", "/a bytes=18-", "/b bytes=18-", "/b"],
    ),
    "not decoded": (b"", {"/a": [compress]}, ["/a"]),
    "there already": (DATA, {"/a": []}, []),
    # A wrong partial file is not the fault of the address.
    "a short stale part": (b"?" * 1000, {"/a": [part]}, ["/a bytes=1000-", "/a"]),
    "a full stale part": (b"?" * len(DATA), {"/a": [part]}, ["/a"]),
    "a long stale part": (DATA + b"?", {"/a": [part]}, ["/a"]),
}


@pytest.mark.parametrize(("begun", "script", "requests"), FETCHED.values(), ids=FETCHED)
def test_fetched(server, succeed, partial, begun, script, requests):
    partial(begun)
    server.script = {path: [*answers] for path, answers in script.items()}
    succeed(*script)
    assert [f"{path} {start or ''}".rstrip() for path, start in server.requests] == requests


REFUSED = {  # what is there, the answers, how many are used, and the message
    "without ranges": (b"", [rangeless(1000), rangeless(500)] * 5, 5, ".*1000 bytes.*, 5 times"),
    "endless redirects": (b"", [status(302, Location="/a")], 11, "expected at most 10 redirects, found more"),
    "always short": (b"", [chunked(BEGUN, b"")], 5, f"ConnectionError: ended after 1000 of {len(DATA)} bytes, 5 times"),
    "announced short": (BEGUN, [announce(18)], 1, f"expected {len(DATA)} bytes, found 18"),
    "announced long": (BEGUN, [announce(len(DATA) + 1)], 1, f"expected {len(DATA)} bytes, found {len(DATA) + 1}"),
    "grown": (BEGUN, [serve(DATA + b"more")], 1, f"expected {len(DATA)} bytes, found {len(DATA) + 4}"),
}


@pytest.mark.parametrize(("begun", "answers", "count", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(server, fail, output, partial, begun, answers, count, message):
    """What other addresses gave is kept. An attempt that brings less than the one before brings nothing new."""
    partial(begun)
    server.script["/a"] = [*answers]
    assert re.search(rf"/a: {message}", fail("/a"))
    assert len(server.requests) == count
    assert not begun or part_of(output).read_bytes() == begun


def test_nothing_is_asked_for_a_file_that_is_there(server, succeed, output):
    output.parent.mkdir()
    output.write_bytes(DATA)
    succeed("/a")
    assert server.requests == []


@pytest.mark.parametrize("old", [b"", DATA[:-1] + b"!"], ids=["empty", "changed"])
def test_a_wrong_output_is_replaced(server, succeed, output, old):
    output.parent.mkdir()
    output.write_bytes(old)
    server.script["/a"] = [part]
    succeed("/a")


def test_as_many_attempts_as_bring_something_new(server, succeed):
    server.script["/a"] = [cut(20_000)]
    succeed("/a")
    assert len(server.requests) == 16 > download.ATTEMPTS


def test_a_stalled_server_is_left(server, succeed, monkeypatch):
    monkeypatch.setattr(response, "READ_SECONDS", 0.5)
    server.script["/a"] = [stalled, part]
    succeed("/a")
    assert server.requests == [("/a", None), ("/a", f"bytes={len(DATA) // 2}-")]


def drip(handler):
    """Send at most 10 kB a second."""
    serve(DATA, 1)(handler)
    while not handler.server.over.wait(0.01):
        handler.send(b"?" * 100)


def test_a_server_that_drips_is_left(server, succeed, monkeypatch, capsys):
    """Attempts that are too slow fail, though each brings something new."""
    monkeypatch.setattr(download, "ATTEMPTS", 2)
    monkeypatch.setattr(download, "RATE_SECONDS", 0.5)
    monkeypatch.setattr(download, "LEAST_RATE", 50_000)
    server.script = {"/a": [drip], "/b": [part]}
    succeed("/a", "/b")
    assert [path for path, _ in server.requests][:2] == ["/a", "/a"]
    assert re.search(r"/a: Slow: only \d+ bytes a second, 2 times", capsys.readouterr().err)


def test_a_server_that_never_answers(server, fail, monkeypatch):
    monkeypatch.setattr(response, "READ_SECONDS", 0.05)
    server.script["/a"] = [lambda handler: handler.server.over.wait()]
    assert "/a: TimeoutError: timed out, 5 times" in fail("/a")


def test_an_endless_body_is_left(server, fail, output):
    """Only a byte more than the file is taken of it."""
    server.script["/a"] = [chunked(*[b"x" * (1 << 20)] * 8, b"")]
    assert fail("/a").endswith(f"/a: expected {len(DATA)} bytes, found {len(DATA) + 1}")
    assert list(output.parent.iterdir()) == []


def test_every_address_is_named_with_its_reason(server, fail):
    server.script = {"/a": [status(404)], "/b": [status(503)], "/c": [rangeless(0)]}
    reasons = {
        "/a": "HTTP 404 Not Found",
        "/b": ".*HTTP 503 .*, 5 times",
        "/c": "IncompleteRead",
        dead(): "ConnectionRefusedError",
        "ftp://host/d": "InvalidSchema",
    }
    message = fail(*reasons)
    for url, reason in reasons.items():
        assert re.search(rf"{re.escape(url)}: {reason}", message)


def test_a_killed_process_goes_on_where_it_was(server, output):
    server.script["/a"] = [stalled, part]
    command = [sys.executable, "-m", "transformer", *arguments([f"{server.address}/a"], output)]
    where = {"cwd": Path(__file__).parents[2], "env": os.environ | {"no_proxy": "*"}}
    with subprocess.Popen(command, **where) as process:
        while not download.length(part_of(output)):
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    assert not output.exists()
    got = part_of(output).stat().st_size
    assert 0 < got < len(DATA)
    subprocess.run(command, check=True, **where)
    assert output.read_bytes() == DATA
    assert server.requests == [("/a", None), ("/a", f"bytes={got}-")]


# From a mirror.


def mirrored(mirror, content, path="www.example.org/wmt/corpus.tgz"):
    file = mirror / path
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    return file


def test_mirror(tmp_path, succeed, output, partial):
    """It may have the second address alone; what is left of a download is not used."""
    partial(b"?" * 1000)
    file = mirrored(tmp_path / "mirror", DATA)
    before = file.stat()
    succeed("http://old.example.org/corpus.tgz", URL, options=["--mirror", tmp_path / "mirror"])
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert not file.samefile(output)


def test_mirror_without_the_file_names_the_paths_and_asks_nobody(server, tmp_path, fail):
    server.script["/a"] = [part]
    message = fail("/a", URL, options=["--mirror", tmp_path])
    assert f"{tmp_path}/127.0.0.1:{server.server_port}/a: no such file" in message
    assert f"{tmp_path}/www.example.org/wmt/corpus.tgz: no such file" in message
    assert server.requests == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (DATA[::-1], f"expected SHA-256 {SUM}, found {hashlib.sha256(DATA[::-1]).hexdigest()}"),
        (DATA[:1000], f"expected {len(DATA)} bytes, found 1000"),
    ],
    ids=["wrong", "short"],
)
def test_mirror_with_wrong_bytes(tmp_path, fail, output, content, problem):
    file = mirrored(tmp_path / "mirror", content)
    assert fail(URL, options=["--mirror", tmp_path / "mirror"]).endswith(f"{file}: {problem}")
    assert list(output.parent.iterdir()) == []


# An archive that its host packs again at each request has no size and no sum to compare with.


@pytest.mark.parametrize("answer", [part, chunked(DATA[:9], DATA[9:], b"")], ids=["length", "chunked"])
def test_repacked_is_taken_as_it_comes(server, output, succeed, answer):
    """It is fetched from its beginning: what an earlier try left may be packed differently."""
    output.parent.mkdir()
    output.with_name("corpus.tgz.part").write_bytes(b"left")
    server.script["/a"] = [answer]
    succeed("/a", sums=())
    assert server.requests == [("/a", None)]


@pytest.mark.parametrize("broken", [cut(1000), chunked(DATA[:1000])], ids=["length", "chunked"])
def test_repacked_that_breaks_off_is_asked_for_again(server, succeed, broken):
    server.script["/a"] = [broken, broken, part]
    succeed("/a", sums=())
    assert server.requests == [("/a", None)] * 3


def test_repacked_from_a_mirror_or_not_at_all(succeed, fail, tmp_path):
    file, options = mirrored(tmp_path, b""), ["--mirror", tmp_path]
    assert "found an empty file" in fail(URL, sums=(), options=options)
    file.write_bytes(DATA)
    succeed(URL, sums=(), options=options)


def test_a_size_without_a_sum_is_refused(output, capsys):
    with pytest.raises(SystemExit):
        __main__.main(arguments(["http://host/a"], output, sums=("--size", "9")))
    assert "--size goes with --sha256 or --md5" in capsys.readouterr().err


# Other bytes that serve as well.


@pytest.fixture
def other(server):
    """Return the option that names OTHER at these paths of the server."""

    def other(*paths, **description):
        description = description or {"sha256": OTHER_SUM, "size": len(OTHER)}
        return ["--or", json.dumps({"urls": [server.address + path for path in paths]} | description)]

    return other


def test_other_bytes_are_not_asked_for_where_the_first_are_to_be_had(server, succeed, other):
    server.script = {"/a": [status(404)], "/b": [part], "/c": [serve(OTHER)]}
    succeed("/a", "/b", options=other("/c"))
    assert [path for path, _ in server.requests] == ["/a", "/b"]


def test_other_bytes_in_turn(server, succeed, other, capsys):
    server.script = {"/a": [serve(OTHER)], "/b": [serve(DATA)], "/c": [status(503)], "/d": [serve(OTHER)]}
    succeed(dead(), "/a", options=[*other("/b"), *other("/c", "/d")], expected=OTHER)
    messages = capsys.readouterr().err
    assert f"/a: expected {len(DATA)} bytes, found {len(OTHER)}" in messages
    assert f"/b: expected {len(OTHER)} bytes, found {len(DATA)}" in messages


def test_nothing_is_asked_for_if_any_of_them_is_there(server, succeed, other, output):
    output.parent.mkdir()
    output.write_bytes(OTHER)
    succeed("/a", options=other("/b"), expected=OTHER)
    assert server.requests == []


def test_neither_bytes_go_on_with_the_other_ones_part(server, succeed, fail, other):
    """Each goes on with its own in the next run; what is then of no use is removed."""
    server.script = {"/a": [cut(1000), status(404), part], "/b": [serve(OTHER, 500), status(404), serve(OTHER)]}
    fail("/a", options=other("/b"))
    server.script["/a"] = [status(404)]
    succeed("/a", options=other("/b"), expected=OTHER)
    starts = [None, "bytes=1000-", None, "bytes=500-", "bytes=1000-", "bytes=500-"]
    assert server.requests == list(zip(["/a", "/a", "/b", "/b", "/a", "/b"], starts, strict=True))


def test_each_bytes_own_reason(server, fail, other, output):
    server.script = {"/a": [serve(DATA[::-1])], "/b": [serve(OTHER[::-1])], "/c": [serve(OTHER[::-1])]}
    message = fail("/a", options=[*other("/b"), *other("/c", md5="0" * 32)])
    assert f"corpus.tgz: no address gave it: {server.address}/a: " in message
    assert f"/a: expected SHA-256 {SUM}, found {hashlib.sha256(DATA[::-1]).hexdigest()}" in message
    assert f"/b: expected SHA-256 {OTHER_SUM}, found {hashlib.sha256(OTHER[::-1]).hexdigest()}" in message
    assert f"/c: expected MD5 {'0' * 32}, found {hashlib.md5(OTHER[::-1]).hexdigest()}" in message
    assert list(output.parent.iterdir()) == []


@pytest.mark.parametrize("size", [[], ["--size", str(len(DATA))]], ids=["no size", "size"])
def test_an_md5(server, succeed, size):
    """Where the size is not known either, the file is fetched from its beginning."""
    server.script = {"/a": [serve(DATA[::-1])], "/b": [cut(1000), part]}
    succeed("/a", "/b", sums=("--md5", hashlib.md5(DATA).hexdigest(), *size))
    start = "bytes=1000-" if size else None
    assert server.requests == [("/a", None), ("/b", None), ("/b", start)]


@pytest.mark.parametrize("description", [{"urls": ["http://h/a"], "sha1": "0"}, {"sha256": SUM, "size": 9}])
def test_other_bytes_without_what_they_are(output, capsys, description):
    with pytest.raises(SystemExit):
        __main__.main(arguments(["http://h/a"], output, "--or", json.dumps(description)))
    assert "argument --or: expected urls, sha256 or md5, and size, found " in capsys.readouterr().err
