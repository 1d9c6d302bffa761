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
from support.server import chunked, half, serve, serving, status, without_ranges

from transformer import __main__
from transformer.data import download

DATA = random.Random(1).randbytes(300_007)
SUM = hashlib.sha256(DATA).hexdigest()


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


def arguments(urls, output, *options):
    urls = [word for url in urls for word in ("--url", url)]
    return ["fetch", *urls, "--sha256", SUM, "--size", str(len(DATA)), "--output", str(output), *options]


def succeed(urls, output, *options):
    __main__.main(arguments(urls, output, *options))
    assert output.read_bytes() == DATA
    assert list(output.parent.iterdir()) == [output]


def fail(urls, output, *options):
    """The error's text, after checking that it is one line and that there is no output."""
    with pytest.raises(SystemExit) as error:
        __main__.main(arguments(urls, output, *options))
    assert not output.exists()
    message = error.value.code
    assert message.startswith("transformer fetch: error: corpus.tgz: ")
    assert "\n" not in message
    return message


def dead():
    """An address on which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/a"


def test_whole(server, output):
    server.script["/a"] = [part]
    succeed([f"{server.address}/a"], output)
    assert server.requests == [("/a", None)]


def test_nothing_is_asked_for_a_file_that_is_there(server, output):
    output.parent.mkdir()
    output.write_bytes(DATA)
    succeed([f"{server.address}/a"], output)
    assert server.requests == []


@pytest.mark.parametrize("old", [b"", DATA[:-1], DATA[:-1] + b"!"], ids=["empty", "short", "changed"])
def test_a_wrong_output_is_replaced(server, output, old):
    output.parent.mkdir()
    output.write_bytes(old)
    server.script["/a"] = [part]
    succeed([f"{server.address}/a"], output)


def test_a_dead_address_then_a_good_one(server, output):
    server.script["/a"] = [part]
    succeed([dead(), f"{server.address}/a"], output)


def test_not_found_is_not_asked_again(server, output):
    server.script = {"/a": [status(404)], "/b": [part]}
    succeed([f"{server.address}/a", f"{server.address}/b"], output)
    assert [path for path, _ in server.requests] == ["/a", "/b"]


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(server, output, code):
    server.script["/a"] = [status(code), status(code), part]
    succeed([f"{server.address}/a"], output)


def test_a_cut_connection_is_resumed(server, output):
    server.script["/a"] = [cut(100_001), cut(0), cut(50_000), part]
    succeed([f"{server.address}/a"], output)
    assert [start for _, start in server.requests] == [None, "bytes=100001-", "bytes=100001-", "bytes=150001-"]
    assert server.sent == len(DATA)


def test_as_many_attempts_as_bring_something_new(server, output):
    server.script["/a"] = [cut(20_000)]
    succeed([f"{server.address}/a"], output)
    assert len(server.requests) == 16 > download.ATTEMPTS


def test_a_cut_connection_is_resumed_at_the_next_address(server, output):
    server.script = {"/a": [cut(1000), status(404)], "/b": [part]}
    succeed([f"{server.address}/a", f"{server.address}/b"], output)
    assert server.requests[-1] == ("/b", "bytes=1000-")


def test_a_server_without_ranges_starts_over(server, output):
    server.script["/a"] = [cut(1000), rangeless()]
    succeed([f"{server.address}/a"], output)


def test_a_server_without_ranges_that_always_hangs_up(server, output):
    server.script["/a"] = [rangeless(1000)]
    message = fail([f"{server.address}/a"], output)
    assert re.search(r"/a: .*1000 bytes.*, 5 times", message)
    assert len(server.requests) == download.ATTEMPTS == 5


def test_less_than_before_is_nothing_new(server, output):
    server.script["/a"] = [rangeless(1000), rangeless(500)] * 5 + [part]
    assert ", 5 times" in fail([f"{server.address}/a"], output)
    assert len(server.requests) == 5


@pytest.mark.parametrize(
    "answer",
    [status(416, Content_Range="bytes */1"), status(206, Content_Range="bytes 7-24/25"), status(206)],
    ids=["416", "another", "none"],
)
def test_an_unusable_range_starts_over(server, output, partial, answer):
    partial(DATA[:1000])
    server.script["/a"] = [answer, part]
    succeed([f"{server.address}/a"], output)
    assert server.requests == [("/a", "bytes=1000-"), ("/a", None)]


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_keep_the_range(server, output, partial, code):
    partial(DATA[:1000])
    server.script = {"/a": [status(code, Location="/b")], "/b": [part]}
    succeed([f"{server.address}/a"], output)
    assert server.requests == [("/a", "bytes=1000-"), ("/b", "bytes=1000-")]


def test_endless_redirects(server, output):
    server.script["/a"] = [status(302, Location="/a")]
    assert "/a: TooManyRedirects" in fail([f"{server.address}/a"], output)


def test_a_stalled_server_is_left(server, output, monkeypatch):
    monkeypatch.setattr(download, "READ_SECONDS", 0.5)
    server.script["/a"] = [stalled, part]
    succeed([f"{server.address}/a"], output)
    assert server.requests == [("/a", None), ("/a", f"bytes={len(DATA) // 2}-")]


def drip(handler):
    """At most 10 kB a second."""
    serve(DATA, 1)(handler)
    while not handler.server.over.wait(0.01):
        handler.send(b"?" * 100)


def test_a_server_that_drips_is_left(server, output, monkeypatch, capsys):
    """Though each attempt brings something new."""
    monkeypatch.setattr(download, "ATTEMPTS", 2)
    monkeypatch.setattr(download, "RATE_SECONDS", 0.5)
    monkeypatch.setattr(download, "LEAST_RATE", 50_000)
    server.script = {"/a": [drip], "/b": [part]}
    succeed([f"{server.address}/a", f"{server.address}/b"], output)
    assert [path for path, _ in server.requests][:2] == ["/a", "/a"]
    assert re.search(r"/a: Slow: only \d+ bytes a second, 2 times", capsys.readouterr().err)


def test_a_server_that_never_answers(server, output, monkeypatch):
    monkeypatch.setattr(download, "READ_SECONDS", 0.05)
    server.script["/a"] = [lambda handler: handler.server.over.wait()]
    assert "/a: TimeoutError: timed out, 5 times" in fail([f"{server.address}/a"], output)


def test_wrong_bytes_are_named_and_removed(server, output):
    wrong = DATA[:-1] + b"!"
    server.script["/a"] = [serve(wrong)]
    url = f"{server.address}/a"
    message = fail([url], output)
    assert f"corpus.tgz: no address gave it: {url}: expected SHA-256 {SUM}, found " in message
    assert message.endswith(hashlib.sha256(wrong).hexdigest())
    assert list(output.parent.iterdir()) == []
    assert len(server.requests) == 1


def test_wrong_bytes_then_a_good_address(server, output, capsys):
    server.script = {"/a": [serve(DATA[::-1])], "/b": [part]}
    succeed([f"{server.address}/a", f"{server.address}/b"], output)
    assert server.requests == [("/a", None), ("/b", None)]
    assert f"corpus.tgz: {server.address}/a: expected SHA-256 {SUM}" in capsys.readouterr().err


@pytest.mark.parametrize("length", [18, len(DATA) + 1])
def test_another_length_is_refused_before_it_is_read(server, output, partial, length):
    """And what other addresses gave is kept."""
    partial(DATA[:1000])
    server.script["/a"] = [lambda handler: handler.reply(200, b"<html>Sorry</html>", Content_Length=length)]
    assert f"/a: expected {len(DATA)} bytes, found {length}" in fail([f"{server.address}/a"], output)
    assert part_of(output).read_bytes() == DATA[:1000]


def test_a_file_that_grew_is_refused_when_resumed(server, output, partial):
    partial(DATA[:1000])
    server.script["/a"] = [serve(DATA + b"more")]
    assert f"/a: expected {len(DATA)} bytes, found {len(DATA) + 4}" in fail([f"{server.address}/a"], output)


def test_a_body_of_unknown_length(server, output):
    server.script["/a"] = [chunked(DATA[:1000], DATA[1000:], b"")]
    succeed([f"{server.address}/a"], output)


def test_a_short_body_of_unknown_length(server, output):
    server.script["/a"] = [chunked(DATA[:1000], b""), part]
    succeed([f"{server.address}/a"], output)
    assert server.requests[1] == ("/a", "bytes=1000-")


def test_a_body_of_unknown_length_that_is_always_short(server, output):
    server.script["/a"] = [chunked(DATA[:1000], b"")] * 10 + [part]
    assert f"/a: ConnectionError: ended after 1000 of {len(DATA)} bytes, 5 times" in fail(
        [f"{server.address}/a"], output
    )


def test_an_endless_body_is_left(server, output):
    """Only a little more than the file is taken of it."""
    server.script["/a"] = [chunked(*[b"x" * (1 << 20)] * 8, b"")]
    message = fail([f"{server.address}/a"], output)
    found = re.search(rf"/a: expected {len(DATA)} bytes, found (\d+)", message)
    assert len(DATA) < int(found[1]) < 3 << 20
    assert list(output.parent.iterdir()) == []


def test_an_error_page_of_unknown_length_is_not_kept(server, output):
    """Its bytes are blamed on no other address."""
    server.script = {"/a": [chunked(b"<html>Sorry</html>", b""), status(404)], "/b": [part]}
    succeed([f"{server.address}/a", f"{server.address}/b"], output)
    assert server.requests[2:] == [("/b", "bytes=18-"), ("/b", None)]


def test_a_gz_file_is_not_decoded(server, output):
    """Some servers say of a .tgz that its encoding is gzip, and clients take that away."""
    server.script["/a"] = [lambda handler: handler.reply(200, DATA, Content_Encoding="x-gzip")]
    succeed([f"{server.address}/a"], output)


def test_a_server_that_likes_to_compress_is_told_not_to(server, output):
    def answer(handler):
        if "gzip" in handler.headers["Accept-Encoding"]:
            handler.reply(200, gzip.compress(DATA), Content_Encoding="gzip")
        else:
            part(handler)

    server.script["/a"] = [answer]
    succeed([f"{server.address}/a"], output)


def test_a_partial_file_of_an_earlier_run_is_resumed(server, output, partial):
    partial(DATA[:123_456])
    server.script["/a"] = [part]
    succeed([f"{server.address}/a"], output)
    assert server.requests == [("/a", "bytes=123456-")]
    assert server.sent == len(DATA) - 123_456


def test_a_partial_file_that_is_whole_needs_no_request(server, output, partial):
    partial(DATA)
    succeed([f"{server.address}/a"], output)
    assert server.requests == []


@pytest.mark.parametrize("stale", [b"?" * 1000, b"?" * len(DATA), DATA + b"?"], ids=["short", "full", "long"])
def test_a_wrong_partial_file_is_not_the_fault_of_the_address(server, output, partial, stale):
    partial(stale)
    server.script["/a"] = [part]
    succeed([f"{server.address}/a"], output)
    assert server.requests[-1] == ("/a", None)


def test_every_address_is_named_with_its_reason(server, output):
    server.script = {"/a": [status(404)], "/b": [status(503)], "/c": [rangeless(0)]}
    urls = [f"{server.address}/a", f"{server.address}/b", f"{server.address}/c", dead(), "ftp://host/d"]
    message = fail(urls, output)
    for url, reason in zip(
        urls,
        ["HTTP 404 Not Found", ".*HTTP 503 .*, 5 times", "IncompleteRead", "ConnectionRefusedError", "InvalidSchema"],
        strict=True,
    ):
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


def mirrored(mirror, content, path="www.example.org/wmt/corpus.tgz"):
    file = mirror / path
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    return file


URL = "https://www.example.org/wmt/corpus.tgz"


def test_mirror(tmp_path, output):
    file = mirrored(tmp_path / "mirror", DATA)
    before = file.stat()
    succeed([URL], output, "--mirror", str(tmp_path / "mirror"))
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert file.read_bytes() == DATA
    assert not file.samefile(output)


def test_mirror_has_the_second_address(tmp_path, output):
    mirrored(tmp_path, DATA)
    succeed(["http://old.example.org/corpus.tgz", URL], output, "--mirror", str(tmp_path))


def test_mirror_ignores_a_partial_file(tmp_path, output, partial):
    partial(b"?" * 1000)
    mirrored(tmp_path / "mirror", DATA)
    succeed([URL], output, "--mirror", str(tmp_path / "mirror"))


def test_mirror_without_the_file_names_the_paths_and_asks_nobody(server, tmp_path, output):
    server.script["/a"] = [part]
    message = fail([f"{server.address}/a", URL], output, "--mirror", str(tmp_path))
    assert f"{tmp_path}/127.0.0.1:{server.server_port}/a: no such file" in message
    assert f"{tmp_path}/www.example.org/wmt/corpus.tgz: no such file" in message
    assert server.requests == []


def test_mirror_with_wrong_bytes(tmp_path, output):
    file = mirrored(tmp_path / "mirror", DATA[::-1])
    found = hashlib.sha256(DATA[::-1]).hexdigest()
    message = fail([URL], output, "--mirror", str(tmp_path / "mirror"))
    assert message.endswith(f"{file}: expected SHA-256 {SUM}, found {found}")
    assert list(output.parent.iterdir()) == []


def test_mirror_with_a_partial_file(tmp_path, output):
    file = mirrored(tmp_path / "mirror", DATA[:1000])
    message = fail([URL], output, "--mirror", str(tmp_path / "mirror"))
    assert message.endswith(f"{file}: expected {len(DATA)} bytes, found 1000")


# An archive that its host packs anew has no size and no sum to compare with.


def fetch_repacked(url, output, *options):
    __main__.main(["fetch", "--url", url, "--output", str(output), *options])


@pytest.mark.parametrize("answer", [part, chunked(DATA[:9], DATA[9:], b"")], ids=["length", "chunked"])
def test_repacked_is_taken_as_it_comes(server, output, partial, answer):
    """From its beginning: what an earlier try left may be of another packing."""
    partial(b"left")
    server.script["/a"] = [answer]
    fetch_repacked(f"{server.address}/a", output)
    assert output.read_bytes() == DATA
    assert server.requests == [("/a", None)]


@pytest.mark.parametrize("broken", [cut(1000), chunked(DATA[:1000])], ids=["length", "chunked"])
def test_repacked_that_breaks_off_is_asked_for_again(server, output, broken):
    server.script["/a"] = [broken, broken, part]
    fetch_repacked(f"{server.address}/a", output)
    assert output.read_bytes() == DATA
    assert server.requests == [("/a", None)] * 3


def test_repacked_from_a_mirror_or_not_at_all(server, output, tmp_path):
    mirrored = tmp_path / "mirror" / "host" / "a"
    mirrored.parent.mkdir(parents=True)
    mirrored.write_bytes(b"")
    with pytest.raises(SystemExit, match="found an empty file"):
        fetch_repacked("http://host/a", output, "--mirror", str(tmp_path / "mirror"))
    assert not output.exists()
    mirrored.write_bytes(DATA)
    fetch_repacked("http://host/a", output, "--mirror", str(tmp_path / "mirror"))
    assert output.read_bytes() == DATA


def test_a_size_without_a_sum_is_refused(output, capsys):
    with pytest.raises(SystemExit):
        fetch_repacked("http://host/a", output, "--size", "9")
    assert "--size goes with --sha256 or --md5" in capsys.readouterr().err


# Other bytes that do as well, as the same members packed otherwise.

OTHER = random.Random(2).randbytes(200_003)
OTHER_SUM = hashlib.sha256(OTHER).hexdigest()


def other(*urls, **about):
    return ["--or", json.dumps({"urls": urls} | (about or {"sha256": OTHER_SUM, "size": len(OTHER)}))]


def succeed_with(data, urls, output, *options):
    __main__.main(arguments(urls, output, *options))
    assert output.read_bytes() == data
    assert list(output.parent.iterdir()) == [output]


def test_other_bytes_are_not_asked_for_where_the_first_are_to_be_had(server, output):
    server.script = {"/a": [status(404)], "/b": [part], "/c": [serve(OTHER)]}
    succeed_with(DATA, [f"{server.address}/a", f"{server.address}/b"], output, *other(f"{server.address}/c"))
    assert [path for path, _ in server.requests] == ["/a", "/b"]


def test_other_bytes_in_turn(server, output, capsys):
    server.script = {"/a": [serve(OTHER)], "/b": [serve(DATA)], "/c": [status(503)], "/d": [serve(OTHER)]}
    options = [*other(f"{server.address}/b"), *other(f"{server.address}/c", f"{server.address}/d")]
    succeed_with(OTHER, [dead(), f"{server.address}/a"], output, *options)
    told = capsys.readouterr().err
    assert f"/a: expected {len(DATA)} bytes, found {len(OTHER)}" in told
    assert f"/b: expected {len(OTHER)} bytes, found {len(DATA)}" in told


@pytest.mark.parametrize("data", [DATA, OTHER], ids=["first", "other"])
def test_nothing_is_asked_for_if_any_of_them_is_there(server, output, data):
    output.parent.mkdir()
    output.write_bytes(data)
    succeed_with(data, [f"{server.address}/a"], output, *other(f"{server.address}/b"))
    assert server.requests == []


def test_neither_bytes_go_on_with_the_other_ones_part(server, output):
    """And each with its own, in the next run; what is then of no use goes."""
    server.script = {"/a": [cut(1000), status(404), part], "/b": [serve(OTHER, 500), status(404), serve(OTHER)]}
    urls, options = [f"{server.address}/a"], other(f"{server.address}/b")
    fail(urls, output, *options)
    server.script["/a"] = [status(404)]
    succeed_with(OTHER, urls, output, *options)
    assert server.requests == [
        ("/a", None),
        ("/a", "bytes=1000-"),
        ("/b", None),
        ("/b", "bytes=500-"),
        ("/a", "bytes=1000-"),
        ("/b", "bytes=500-"),
    ]


def test_each_bytes_own_reason(server, output):
    server.script = {"/a": [serve(DATA[::-1])], "/b": [serve(OTHER[::-1])], "/c": [serve(OTHER[::-1])]}
    options = [*other(f"{server.address}/b"), *other(f"{server.address}/c", md5="0" * 32)]
    message = fail([f"{server.address}/a"], output, *options)
    assert f"/a: expected SHA-256 {SUM}, found {hashlib.sha256(DATA[::-1]).hexdigest()}" in message
    assert f"/b: expected SHA-256 {OTHER_SUM}, found {hashlib.sha256(OTHER[::-1]).hexdigest()}" in message
    assert f"/c: expected MD5 {'0' * 32}, found {hashlib.md5(OTHER[::-1]).hexdigest()}" in message
    assert list(output.parent.iterdir()) == []


def test_a_mirror_has_other_bytes(tmp_path, output):
    mirrored(tmp_path, OTHER, "zips.example.org/main/corpus.zip")
    options = [*other("https://zips.example.org/main/corpus.zip"), "--mirror", str(tmp_path)]
    succeed_with(OTHER, [URL], output, *options)


@pytest.mark.parametrize("size", [[], ["--size", str(len(DATA))]], ids=["no size", "size"])
def test_an_md5(server, output, size):
    """Where the size is not known either, the file is fetched from its beginning."""
    server.script = {"/a": [serve(DATA[::-1])], "/b": [cut(1000), part]}
    urls = [word for path in ("a", "b") for word in ("--url", f"{server.address}/{path}")]
    md5 = hashlib.md5(DATA).hexdigest()
    __main__.main(["fetch", *urls, "--md5", md5, *size, "--output", str(output)])
    assert output.read_bytes() == DATA
    assert list(output.parent.iterdir()) == [output]
    start = "bytes=1000-" if size else None
    assert server.requests == [("/a", None), ("/b", None), ("/b", start)]


@pytest.mark.parametrize(
    "about", [{"urls": ["http://h/a"]}, {"urls": ["http://h/a"], "sha1": "0"}, {"sha256": SUM, "size": 9}]
)
def test_other_bytes_without_what_they_are(output, capsys, about):
    with pytest.raises(SystemExit):
        __main__.main(arguments(["http://h/a"], output, "--or", json.dumps(about)))
    assert "argument --or: expected urls, sha256 or md5, and size, found " in capsys.readouterr().err
