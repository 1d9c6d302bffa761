"""The paper's scale in small, with generated downloads and a generated treebank under the real names and formats.

If TRANSFORMER_MIRROR has the real test sets, the small test sets are their first lines. Training corpora consist of
newstest2013's words and of the unusual lines of real corpora.
"""

import gzip
import hashlib
import os
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from support.archives import about, packed, plain, sgm, zipped
from support.mirror import CONFIG, mirrored
from support.project import copy_project, penn
from transformer.config.scales import ScaleSettings
from transformer.config.settings import accept
from transformer.data.grammar import take

PAPER = ScaleSettings(accept(CONFIG), "paper")
LINES = 300  # lines of a corpus
FILTERED = 250  # lines of the filtered edition of a test set
TREES = 10  # trees in a section of the treebank
ZIPPED = "training-parallel-europarl-v7.tgz"  # its first host no longer exists, so only the .zip is left
LONG = "".join(f"{number:03}" for number in range(400))  # subwords: more than twice the model's positions
FOREIGN = [  # unclean sentences; LOST of them are dropped
    ("This\rwas\u2028two lines.", "Das\rwaren\u2028zwei Zeilen."),
    ("This line ends in a return.\r", "Diese Zeile endet so.\r"),
    ("FÃ¼r caf\x92s \x85 of\xa0latin-1 | and [tables]", "FÃ¼r caf\x92s \x85\xa0| und [Tafeln]"),
    ('<a href="x">M&amp;S</a> & <b>more</b>', '<a href="x">M&amp;S</a> & <b>mehr</b>'),
    (LONG, LONG),
    ("", ""),
    ("Nobody translated this.", ""),
    ("many " * 81, "viele " * 81),
    ("more than nine words for one, as it may be found", "eines"),
]
LOST = 4


def make_rehearsal(place: Path) -> Path:
    """Copy the project with a mirror, a treebank, and two files that change config.yaml: rehearsal.yaml, made.yaml."""
    project = copy_project(place)
    (project / "rehearsal.yaml").write_bytes(Path(__file__).with_name("rehearsal.yaml").read_bytes())
    made = {"downloads": {}, "corpora": write_treebank(project)}
    for name, members in archives().items():
        made["downloads"][name] = write_download(project / "mirror", name, members)
    made["corpora"] |= {name: {"lines": FILTERED if "-filtered" in name else LINES} for name in corpora()}
    (project / "made.yaml").write_text(yaml.safe_dump(made), "utf-8")
    return project


def write_download(mirror: Path, name: str, members: dict[str, bytes]) -> dict:
    """Write an archive to the path of its first URL in the mirror. Return its entry for config.yaml."""
    download, key = CONFIG["downloads"][name], "sha256"
    if name == ZIPPED:
        url, data = download["alternatives"][0]["urls"][0], zipped(members)
        entry = {"alternatives": [about(data, url)]}
    else:
        url, data, key = download["urls"][0], packed(name, members), "sha256" if "sha256" in download else "md5"
        entry = {key: hashlib.new(key, data).hexdigest(), "size": len(data)}
    path = Path(mirror, urlsplit(url).netloc, urlsplit(url).path.lstrip("/"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return entry


def corpora() -> dict[str, dict]:
    """Return the corpora of the scale that are in archives, in the scale's order."""
    names = [name for task in PAPER.entry.tasks.values() for _, name, _ in task.files()]
    return {name: CONFIG["corpora"][name] for name in dict.fromkeys(names)}


def archives() -> dict[str, dict[str, bytes]]:
    """Return the members of each archive by path."""
    found: dict[str, dict[str, bytes]] = {}
    for number, (name, corpus) in enumerate(corpora().items()):
        for language, entry in corpus["files"].items():
            member = entry["member"]
            lines = newstest(name, language)[:LINES] if "newstest" in name else training_text(number, language)
            kind = "src" if "-src." in member else "ref"
            data = sgm(kind, lines) if entry.get("format") == "sgm" else plain(lines)
            data = gzip.compress(data) if member.endswith(".gz") else data
            found.setdefault(entry["download"], {})[member] = data
    return found


def newstest(name: str, language: str) -> list[str]:
    """Return one side of a test set. The filtered edition has another order, like the real one."""
    if "-filtered" in name:
        whole = newstest(name.replace("-filtered", ""), language)[:LINES]
        return [*whole[100:], *whole[: FILTERED + 100 - LINES]]
    year, dot, pair = name.partition(".")
    if "TRANSFORMER_MIRROR" in os.environ:
        return mirrored(f"{year}-opus{dot}{pair}.{language}").read_text("utf-8").split("\n")[:-1]
    return [getattr(item, language) for item in take(int(year.removeprefix("newstest")), 0, 3000)]


def training_text(number: int, language: str) -> list[str]:
    """Return one side of a training corpus: sentences of newstest2013 with their words reversed, and FOREIGN."""
    start = LINES * number % 2700
    lines = [" ".join(line.split()[::-1]) for line in newstest("newstest2013", language)[start : start + LINES]]
    for place, pair in enumerate(FOREIGN):
        lines[10 * place] = pair[language != "en"]
    return lines


def write_treebank(project: Path) -> dict:
    """Write a treebank in the 25 folders of WSJ. Return the corpora's entries for config.yaml."""
    trees = [penn(item.tree) for item in take(7, 0, 25 * TREES)]
    for section in range(25):
        file = project / f"resources/wsj/{section:02}/wsj_{section:02}01.mrg"
        file.parent.mkdir(parents=True)
        file.write_text("".join(trees[section * TREES : (section + 1) * TREES]), "utf-8")
    banks = {name: corpus["treebank"] for name, corpus in CONFIG["corpora"].items() if name.startswith("wsj")}
    spans = {name: bank["sections"] for name, bank in banks.items()}
    return {name: {"lines": TREES * (last + 1 - first)} for name, (first, last) in spans.items()}
