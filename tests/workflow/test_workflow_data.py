"""The data of the paper's scale by real Snakemake, from a server.

The archives are small; their members have the paths of WMT's. How servers misbehave is tests/data/test_download.py's.
"""

import gzip
import hashlib
import json
import subprocess
from pathlib import Path

import pytest
import yaml
from support.archives import about, packed, plain, sgm, zipped
from support.project import copy_project, snakemake
from support.server import serve, serving, status

LINES, FILTERED = 7, 5  # of a corpus, and of a test set's shorter edition


def sentences(name: str, count: int = LINES) -> list[str]:
    """Make text that is found nowhere else, with a character that other programs take for the end of a line."""
    return [f"Sentence {number} of {name},\u2028no & more." for number in range(1, count + 1)]


def both(path: str, *languages: str, corpus: str = "") -> dict[str, bytes]:
    """Return an archive's members for these languages, by their paths: the sentences name their corpus."""
    corpus = corpus or Path(path).name
    return {f"{path}.{language}": plain(sentences(f"{corpus}.{language}")) for language in languages}


def newstest2014(folder: str, target: str, count: int) -> dict[str, bytes]:
    """Return both sides of a test set from English, its first `count` sentences."""
    name, text = f"{folder}/newstest2014-{target}en", f"newstest2014.{target}-en"
    return {
        f"{name}-src.en.sgm": sgm("src", sentences(f"{text}.en")[:count]),
        f"{name}-ref.{target}.sgm": sgm("ref", sentences(f"{text}.{target}")[:count]),
    }


GERMAN, FRENCH = ("en", "de"), ("en", "fr")
GIGA = both("giga-fren.release2.fixed", *FRENCH, corpus="giga-fren")
MEMBERS = {
    "training-parallel-europarl-v7.tgz": both("training/europarl-v7.de-en", *GERMAN)
    | both("training/europarl-v7.fr-en", *FRENCH),
    "training-parallel-commoncrawl.tgz": both("commoncrawl.de-en", *GERMAN) | both("commoncrawl.fr-en", *FRENCH),
    "training-parallel-nc-v9.tgz": both("training/news-commentary-v9.de-en", *GERMAN)
    | both("training/news-commentary-v9.fr-en", *FRENCH),
    "training-parallel-un.tgz": both("un/undoc.2000.fr-en", *FRENCH),
    "training-giga-fren.tar": {f"{path}.gz": gzip.compress(text) for path, text in GIGA.items()},
    "wmt17-dev.tgz": both("dev/newstest2013", "en", "de", "fr")
    | newstest2014("dev", "de", LINES)
    | newstest2014("dev", "fr", LINES),
    "wmt14-test-filtered.tgz": newstest2014("test", "de", FILTERED),
}


ARCHIVES = {name: packed(name, members) for name, members in MEMBERS.items()}


@pytest.fixture
def server():
    """Serve all downloads, by their names, without a fault."""
    with serving() as server:
        server.script = {f"/{name}": [serve(data)] for name, data in ARCHIVES.items()}
        yield server


def run(project: Path, address: str, downloads: dict, *arguments: str) -> subprocess.CompletedProcess:
    """Run Snakemake with these downloads, and the others from the server."""
    config = yaml.safe_load((project / "config.yaml").read_text("utf-8"))
    config["downloads"] |= {name: about(data, f"{address}/{name}") for name, data in ARCHIVES.items()} | downloads
    for name, corpus in config["corpora"].items():
        corpus |= {"lines": FILTERED if "filtered" in name else LINES} if "files" in corpus else {}
    (project / "all.yaml").write_text(yaml.safe_dump(config | {"scale": "paper"}), encoding="utf-8")
    return snakemake(project, *arguments, "--replace-workflow-config", "--configfile", "all.yaml")


def test_all_data_of_the_paper_become_tokens(tmp_path, server):
    """One archive is left in another form alone, and one is known by its MD5."""
    europarl, un, filtered = "training-parallel-europarl-v7.tgz", "training-parallel-un.tgz", "wmt14-test-filtered.tgz"
    project, at = copy_project(tmp_path), server.address
    data = ARCHIVES | {europarl: zipped(MEMBERS[europarl])}
    server.script |= {f"/{europarl}": [status(404)], "/zip": [serve(data[europarl])]}
    instead = {"alternatives": [about(data[europarl], f"{at}/zip")]}
    downloads = {europarl: about(ARCHIVES[europarl], f"{at}/{europarl}") | instead}
    downloads[filtered] = {"urls": [f"{at}/{filtered}"], "md5": hashlib.md5(data[filtered]).hexdigest()}

    made = "results/paper/data"
    splits = [f"{made}/{task}/{split}.json" for task in ("en-de", "en-fr") for split in ("train", "dev")]
    tests = [f"newstest2014.{pair}.{side}" for pair in ("de-en", "fr-en") for side in pair.split("-")]
    texts = [f"resources/corpora/{name}" for name in (*tests, "newstest2014-filtered.de-en.de")]
    result = run(project, at, downloads, *splits, *texts)
    assert result.returncode == 0, result.stderr
    assert {path.name: path.read_bytes() for path in (project / "resources/downloads").iterdir()} == data
    texts = {path.name: path.read_bytes() for path in (project / "resources/corpora").iterdir()}
    assert len(texts) == 24
    for name, text in texts.items():
        lines = sentences(name.replace("-filtered", ""), FILTERED if "filtered" in name else LINES)
        assert text == plain(lines)
    assert [json.loads((project / split).read_text())["kept"] for split in splits] == [21, 7, 35, 7]

    for change, consequence in (({"urls": [f"{at}/un"]}, "Nothing to be done"), ({"sha256": 64 * "0"}, "rule fetch:")):
        result = run(project, at, downloads | {un: about(data[un], f"{at}/{un}") | change}, "--dry-run", *splits)
        assert consequence in result.stdout + result.stderr
