"""Doctor finds what a scale needs from elsewhere and cannot have."""

import itertools
import time
from contextlib import suppress
from pathlib import Path

import pytest
from support.project import own_corpus
from support.server import Handler, serving, status

from transformer.config import settings
from transformer.doctor import downloads

DEAD = "http://127.0.0.1:9"  # no server


@pytest.fixture
def server(monkeypatch):
    """Yield the address of a server that has /a, lacks /gone, and never answers for /slow."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(Handler, "do_HEAD", Handler.do_GET, raising=False)
    with serving() as server:
        server.script = {"/a": [status(200)], "/gone": [status(404)], "/slow": [lambda _: server.over.wait()]}
        yield server.address


def levels(findings) -> list[str]:
    return [finding.level for finding in findings]


@pytest.mark.parametrize(
    ("path", "problem"), [("a", None), ("gone", "HTTP 404 Not Found for"), ("slow", "no answer within 0.3 s")]
)
def test_a_server_that_answers_or_does_not(server, monkeypatch, path, problem):
    monkeypatch.setattr(downloads, "ANSWER_SECONDS", 0.3)
    (finding,) = downloads.reachable({"a.gz": {"urls": [f"{server}/{path}"]}})
    assert finding.level == ("error" if problem else "ok")
    if problem:
        assert (problem in finding.message, "a.gz" in finding.message) == (True, True)
        assert "--config mirror=<DIR>" in finding.fix


def test_a_server_that_only_says_continue(server, monkeypatch):
    """It is no answer, and the other server's counts."""
    monkeypatch.setattr(downloads, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(downloads, "GRACE_SECONDS", 0.3)
    with serving() as endless:
        endless.script = {"/a": [forever]}
        started = time.monotonic()
        hosts = {"endless": f"{endless.address}/a", "good": f"{server}/a"}
        assert downloads.silences(hosts) == {"endless": "no answer within 0.3 s", "good": None}
        assert time.monotonic() - started < 3


def forever(handler: Handler) -> None:
    """Say `100 Continue`, again and again, until nobody listens."""
    with suppress(OSError):
        while not handler.server.over.is_set():
            handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            time.sleep(0.01)


def test_a_dead_server_matters_where_no_other_has_its_files(server):
    both = {"urls": [f"{DEAD}/a"], "alternatives": [{"urls": [f"{server}/a"], "size": 5}]}
    assert levels(downloads.reachable({"a": both})) == ["note", "ok"]
    lost, live = downloads.reachable({"a": both, "b": {"urls": [f"{DEAD}/b"]}})
    assert (lost.level, "refused" in lost.message, "needed for b" in lost.message) == ("error", True, True)
    assert live.level == "ok"


def test_a_mirror_with_a_short_file(tmp_path: Path):
    needed = {
        name: {"urls": [f"https://host/{name}"], "size": 5, "alternatives": [{"urls": [f"https://other/{name}"]}]}
        for name in ("whole", "short", "absent", "elsewhere")
    }
    for host, name, content in (("host", "whole", b"12345"), ("host", "short", b"123"), ("other", "elsewhere", b"1")):
        (tmp_path / host).mkdir(exist_ok=True)
        (tmp_path / host / name).write_bytes(content)
    short, absent = downloads.mirrored(needed, tmp_path)
    assert (short.level, f"short: {tmp_path}/host/short has 3 bytes, not 5" in short.message) == ("error", True)
    assert (absent.level, f"absent: no file {tmp_path}/host/absent" in absent.message) == ("error", True)
    assert levels(downloads.mirrored({"whole": needed["whole"]}, tmp_path)) == ["ok"]


def test_what_a_scale_needs(project: Path):
    """Multi30k needs its nine files and GUM unless they are here.

    The treebank that must be bought is a note.
    """
    config = settings.read([], ["scale=multi30k"])
    files = itertools.product(("train", "val", "test_2016_flickr"), ("en", "de", "fr"))
    names = {f"multi30k-{split}.{language}.gz" for split, language in files}
    assert set(downloads.missing(config)) == {*names, "gum.tar.gz"}
    downloads.DOWNLOADS.mkdir(parents=True)
    (downloads.DOWNLOADS / "gum.tar.gz").write_bytes(b"here")
    assert set(downloads.missing(config)) == names
    paper = settings.read([], ["scale=paper"])
    assert {"training-giga-fren.tar", "wmt14-test-filtered.tgz"} <= set(downloads.missing(paper))
    assert levels(downloads.own_files(paper)) == ["note"]


def test_corpora_of_ones_own(project: Path):
    file = own_corpus(project)
    (project / "train.cs").unlink()
    findings = list(downloads.own_files(settings.read([str(file)], ["scale=mine"])))
    assert levels(findings) == ["ok", "error", "ok", "ok"]
    assert findings[1].message == "no file train.cs"
