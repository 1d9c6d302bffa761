"""The data of the paper's scale by real Snakemake, from servers that misbehave: complete, or refused with a reason.

The archives are small; their members have the paths of WMT's.
"""

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
import zipfile
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from support.project import copy_project, snakemake
from support.server import chunked, half, serve, serving, status, without_ranges

LINES, FILTERED = 7, 5  # of a corpus, and of a test set's shorter edition


def sentences(name: str, count: int = LINES) -> list[str]:
    """Make text that is found nowhere else, with a character that other programs take for the end of a line."""
    return [f"Sentence {number} of {name},\u2028no & more." for number in range(1, count + 1)]


def plain(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def sgm(kind: str, lines: list[str]) -> bytes:
    """Write WMT's test format, two sentences a document."""
    documents = []
    for start in range(0, len(lines), 2):
        text = [line.replace("&", "&amp;") for line in lines[start : start + 2]]
        segments = [f'<seg id="{number}">{line}</seg>' for number, line in enumerate(text, start=1)]
        documents.append("\n".join([f'<doc sysid="x" docid="{start}-paper" genre="news">', *segments, "</doc>\n"]))
    return f'<{kind}set setid="newstest2014" srclang="any">\n{"".join(documents)}</{kind}set>\n'.encode()


def both(path: str, *languages: str) -> dict[str, bytes]:
    """Return an archive's members for these languages, by their paths."""
    return {f"{path}.{language}": plain(sentences(f"{path}.{language}")) for language in languages}


def newstest2014(folder: str, source: str, target: str, count: int) -> dict[str, bytes]:
    """Return both sides of a test set, its first `count` sentences."""
    name, text = f"{folder}/newstest2014-{target}{source}", f"newstest2014.{target}-{source}"
    return {
        f"{name}-src.{source}.sgm": sgm("src", sentences(f"{text}.{source}")[:count]),
        f"{name}-ref.{target}.sgm": sgm("ref", sentences(f"{text}.{target}")[:count]),
    }


GIGA = "giga-fren.release2.fixed"
MEMBERS = {
    "training-parallel-europarl-v7.tgz": both("training/europarl-v7.de-en", "de", "en")
    | both("training/europarl-v7.fr-en", "fr", "en"),
    "training-parallel-commoncrawl.tgz": both("commoncrawl.de-en", "de", "en") | both("commoncrawl.fr-en", "fr", "en"),
    "training-parallel-nc-v9.tgz": both("training/news-commentary-v9.de-en", "de", "en")
    | both("training/news-commentary-v9.fr-en", "fr", "en"),
    "training-parallel-un.tgz": both("un/undoc.2000.fr-en", "fr", "en"),
    "training-giga-fren.tar": {
        f"{GIGA}.{language}.gz": gzip.compress(plain(sentences(f"{GIGA}.{language}"))) for language in ("en", "fr")
    },
    "wmt17-dev.tgz": both("dev/newstest2013", "en", "de", "fr")
    | newstest2014("dev", "en", "de", LINES)
    | newstest2014("dev", "en", "fr", LINES),
    "wmt14-test-filtered.tgz": newstest2014("test", "en", "de", FILTERED),
}
CORPORA = {
    "europarl-v7.de-en": ("training/europarl-v7.de-en", ["en", "de"]),
    "europarl-v7.fr-en": ("training/europarl-v7.fr-en", ["en", "fr"]),
    "commoncrawl.de-en": ("commoncrawl.de-en", ["en", "de"]),
    "commoncrawl.fr-en": ("commoncrawl.fr-en", ["en", "fr"]),
    "news-commentary-v9.de-en": ("training/news-commentary-v9.de-en", ["en", "de"]),
    "news-commentary-v9.fr-en": ("training/news-commentary-v9.fr-en", ["en", "fr"]),
    "undoc.2000.fr-en": ("un/undoc.2000.fr-en", ["en", "fr"]),
    "giga-fren": (GIGA, ["en", "fr"]),
    "newstest2013": ("dev/newstest2013", ["en", "de", "fr"]),
    "newstest2014.de-en": ("newstest2014.de-en", ["en", "de"]),
    "newstest2014.fr-en": ("newstest2014.fr-en", ["en", "fr"]),
}  # what their sentences name, and their languages


def packed(name: str, members: dict[str, bytes]) -> bytes:
    """Pack a .tar or a .tgz, as its name says."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w" if name.endswith(".tar") else "w:gz") as archive:
        for path, content in members.items():
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in members.items():
            archive.writestr(path, content)
    return buffer.getvalue()


ARCHIVES = {name: packed(name, members) for name, members in MEMBERS.items()}


def about(data: bytes, *urls: str, alternatives: tuple | list = ()) -> dict:
    """Return a download's entry in config.yaml."""
    entry = {"urls": [*urls], "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    return entry | ({"alternatives": [*alternatives]} if alternatives else {})


@pytest.fixture
def server():
    """Serve all downloads, by their names, without a fault."""
    with serving() as server:
        server.script = {f"/{name}": [serve(data)] for name, data in ARCHIVES.items()}
        yield server


@pytest.fixture
def project(tmp_path):
    """Copy the project, with shorter waits for servers."""
    project = copy_project(tmp_path)
    module = project / "transformer/data/download.py"
    text = module.read_text("utf-8")
    for constant, shorter in (
        ("TIMEOUTS = (20, 60)", "TIMEOUTS = (20, 1)"),
        ("PAUSE_SECONDS = 1.0", "PAUSE_SECONDS = 0.01"),
    ):
        assert constant in text
        text = text.replace(constant, shorter)
    module.write_text(text, encoding="utf-8")
    return project


def run(project: Path, server: ThreadingHTTPServer, downloads: dict, *arguments: str) -> subprocess.CompletedProcess:
    """Run Snakemake with these downloads, and the others from the server."""
    lines = {name: {"lines": LINES} for name in CORPORA} | {"newstest2014-filtered.de-en": {"lines": FILTERED}}
    config = yaml.safe_load((project / "config.yaml").read_text("utf-8"))
    config["downloads"] |= {name: about(data, f"{server.address}/{name}") for name, data in ARCHIVES.items()}
    config["downloads"] |= downloads
    for name, corpus in lines.items():
        config["corpora"][name] |= corpus
    (project / "all.yaml").write_text(yaml.safe_dump(config | {"scale": "paper"}), encoding="utf-8")
    return snakemake(project, *arguments, "--replace-workflow-config", "--configfile", "all.yaml")


def test_from_servers_that_misbehave(project, server):
    """Servers that are dead, wrong, slow, busy or moved, or send no ranges or lengths: all data become tokens."""
    data = dict(ARCHIVES)
    europarl, commoncrawl, nc, un, giga, dev, filtered = MEMBERS
    at = server.address

    archive = data[europarl] = zipped(MEMBERS[europarl])  # the one that is left
    dead = "http://127.0.0.1:9/europarl.tgz"  # a port where nobody listens
    server.script |= {f"/{europarl}": [status(404)], "/zip": [serve(archive, 1000), half(archive), serve(archive)]}
    downloads = {
        europarl: about(ARCHIVES[europarl], dead, f"{at}/{europarl}", alternatives=[about(archive, f"{at}/zip")])
    }

    server.script[f"/{commoncrawl}"] = [
        serve(data[commoncrawl], 100),
        without_ranges(data[commoncrawl], 50),
        without_ranges(data[commoncrawl]),
    ]

    server.script |= {f"/{nc}": [serve(data[nc][::-1])], "/nc": [status(302, Location="/moved")]}
    server.script["/moved"] = [serve(data[nc])]
    downloads[nc] = about(data[nc], f"{at}/{nc}", f"{at}/nc")

    server.script[f"/{un}"] = [status(503), half(data[un]), serve(data[un])]
    server.script[f"/{giga}"] = [chunked(data[giga][:2000]), chunked(data[giga][:999], b""), serve(data[giga])]

    edition = data[dev] = packed(dev, {"dev/README": b"of another year\n"} | MEMBERS[dev])
    server.script |= {f"/{dev}": [status(404)], "/edition": [serve(edition)]}
    downloads[dev] = about(ARCHIVES[dev], f"{at}/{dev}", alternatives=[about(edition, f"{at}/edition")])
    downloads[filtered] = {"urls": [f"{at}/{filtered}"], "md5": hashlib.md5(data[filtered]).hexdigest()}

    made = "results/paper/data"
    splits = [f"{made}/{task}/{split}.json" for task in ("en-de", "en-fr") for split in ("train", "dev", "test")]
    result = run(project, server, downloads, *splits, f"{made}/en-de/test.subsets.json")
    assert result.returncode == 0, result.stderr
    assert {path.name: path.read_bytes() for path in (project / "resources/downloads").iterdir()} == data
    for corpus, (text, languages) in CORPORA.items():
        for language in languages:
            content = (project / f"resources/corpora/{corpus}.{language}").read_bytes()
            assert content == plain(sentences(f"{text}.{language}"))
    assert [json.loads((project / split).read_text())["kept"] for split in splits] == [21, 7, 7, 35, 7, 7]
    subsets = json.loads((project / made / "en-de/test.subsets.json").read_text())["subsets"]
    assert subsets["filtered"]["sentences"] == FILTERED

    for change, consequence in (({"urls": [dead]}, "Nothing to be done"), ({"sha256": 64 * "0"}, "rule fetch:")):
        result = run(project, server, downloads | {un: about(data[un], f"{at}/{un}") | change}, "--dry-run", *splits)
        assert consequence in result.stdout + result.stderr


def test_what_cannot_be_had_is_named_and_nothing_wrong_keeps_its_name(project, server):
    """The same command goes on where a server broke off."""
    europarl, commoncrawl, at = "training-parallel-europarl-v7.tgz", "training-parallel-commoncrawl.tgz", server.address
    right, wrong, cut = ARCHIVES[europarl], ARCHIVES[europarl][::-1], ARCHIVES[commoncrawl]
    server.script |= {f"/{europarl}": [serve(wrong)], f"/{commoncrawl}": [serve(cut, 100), status(503)]}
    targets = [f"resources/corpora/{name}" for name in ("europarl-v7.de-en.de", "commoncrawl.de-en.de")]
    result = run(project, server, {}, *targets)
    assert result.returncode == 1
    sums = [hashlib.sha256(content).hexdigest() for content in (right, wrong, cut)]
    problem = f"{at}/{europarl}: expected SHA-256 {sums[0]}, found {sums[1]}"
    assert f"{europarl}: no address gave it: {problem}" in result.stderr
    assert f"{commoncrawl}: no address gave it: {at}/{commoncrawl}: ConnectionError: HTTP 503 " in result.stderr
    assert not any((project / target).exists() for target in targets)
    left = {path.name for path in (project / "resources/downloads").iterdir()}
    assert left == {f"{commoncrawl}.{sums[2][:8]}.part"}

    server.script[f"/{commoncrawl}"] = [serve(cut)]
    result = run(project, server, {}, targets[1])
    assert result.returncode == 0, result.stderr
    assert server.requests[-1] == (f"/{commoncrawl}", "bytes=100-")
    assert (project / targets[1]).read_bytes() == plain(sentences("commoncrawl.de-en.de"))
