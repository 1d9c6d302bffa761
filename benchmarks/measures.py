"""Scores of real systems' translations of newstest2014 in all metrics, and the scores published by their authors.

    python -m benchmarks.measures --downloads resources/downloads

Prints the table of docs/bleu.md, and writes workflow/paper/measures.csv with all digits for the table `bleu_variants`.
"""

import urllib.request
from collections import defaultdict
from math import nan
from pathlib import Path
from typing import NamedTuple

import cyclopts
import pandas as pd
from sacrebleu.metrics import BLEU
from sacremoses import MosesDetokenizer

from transformer.evaluation import bleu
from transformer.storage.files import read_lines, read_pairs

RAW = "https://raw.githubusercontent.com/"
MOZILLA = f"{RAW}mozilla/firefox-translations-models/e7957fc407441a5e3e35bbcbf9d60d9b35764618/evaluation"
MARIAN = f"{RAW}marian-nmt/marian-regression-tests/84844f7c1acf10fe6f28e5de73d94e83fd78f0bb/tests/models/wngt19"
OPUS = f"{RAW}Helsinki-NLP/OPUS-MT-testsets/ac0f19c0be3cb4e0d9450fcb2d7a9847c4bdd180/datasets/statmt/wmt_newstest"


class System(NamedTuple):
    """A system with its published output and BLEU."""

    name: str
    output: str
    published: float = nan
    sentences: int = 2737  # number of sentences in the output; 2,737 are the filtered test set
    tokens: bool = False  # true if the output is Moses tokens with split compounds, not text


SYSTEMS = (
    System("bergamot-en-de", f"{MOZILLA}/en-de/wmt14.bergamot-base-memory.de", 29.8),
    System("google-en-de", f"{MOZILLA}/en-de/wmt14.google.de"),
    System("marian-16-en-de", f"{MARIAN}/model_base_fbgemm_packed16.avx512.expected", 30.2, 100, tokens=True),
    System("marian-8-en-de", f"{MARIAN}/model_base_fbgemm_packed8.avx2.expected", 29.5, 100, tokens=True),
    System("bergamot-en-fr", f"{MOZILLA}/en-fr/wmt14.bergamot-base-memory.fr", 41.1, 3003),
)
# The paper's metric and other metrics of bleu.py, by their usual names.
METRIC_NAMES = {
    bleu.PAPER: "the paper's measure",
    "tokenized": "multi-bleu.perl on Moses tokens, nothing else",
    "tokenized_lc": "the same in lower case",
    "compound_split": "the reference's quotes left as they are",
    "normalized": "Moses' punctuation normaliser on both sides",
    "sacrebleu": "sacreBLEU",
    "sacrebleu_lc": "sacreBLEU in lower case",
    "intl": "sacreBLEU, international tokens",
    "intl_lc": "sacreBLEU, international tokens, in lower case",
}
COLUMNS = ["system", "sentences", "kind", "choice", "value", "signature"]
SHOWN = ["published", "ours", "sacrebleu", "tokenized", "compound_split", bleu.PAPER, "intl"]  # in docs/bleu.md


def main(*, downloads: Path, output: Path = Path("workflow/paper/measures.csv")) -> None:
    """Score all systems. Missing files are downloaded to the folder `downloads`."""
    frame = pd.DataFrame([row for system in SYSTEMS for row in rows_of(system, downloads)], columns=COLUMNS)
    frame[frame["kind"] != "published"].to_csv(output, index=False)
    shown = frame.pivot(index="system", columns="choice", values="value")
    columns = [METRIC_NAMES.get(name, name) for name in SHOWN]
    print(shown.reindex(index=[system.name for system in SYSTEMS], columns=columns).to_markdown(floatfmt=".2f"))


def rows_of(system: System, downloads: Path) -> list[tuple]:
    """Score a system's output with all metrics, with common mistakes, and like its authors. Return rows of COLUMNS."""
    output, language = list(read_lines(download(system.output, downloads))), system.name[-2:]
    references = find_references(system, language, downloads)
    hypotheses, theirs, mistaken = output, references, {}
    if system.tokens:
        detokenize = MosesDetokenizer(language).detokenize
        hypotheses = [detokenize(line.replace(bleu.SPLIT, "-").split()) for line in output]
        theirs = bleu.paper_tokens(references, language)  # tokenised and split like the output
        mistaken["sacreBLEU of split tokens against text"] = bleu.measure(BLEU(force=True), output, references)["score"]
    mistaken = mistakes(hypotheses, references, language) | mistaken
    metrics = bleu.bleu_scores(hypotheses, references, language)
    about = (system.name, len(output))
    rows = [(*about, "published", "published", system.published, "")]
    rows += [(*about, "ours", "ours", *bleu.measure(BLEU(force=True), output, theirs).values())]
    for name, known in METRIC_NAMES.items():
        if name in metrics:
            rows += [(*about, "paper" if name == bleu.PAPER else "measure", known, *metrics[name].values())]
    return rows + [(*about, "mistake", choice, value, "") for choice, value in mistaken.items()]


def find_references(system: System, language: str, downloads: Path) -> list[str]:
    """Find the references of a system's source sentences, which may be only a part of the test set."""
    sides = [f"{OPUS}/2014/en-{language}/newstest2014.{side}" for side in ("en", language)]
    known: dict[str, list[str]] = defaultdict(list)
    for source, reference in read_pairs(*(download(url, downloads) for url in sides)):
        known[source].append(reference)
    read = list(read_lines(download(f"{MOZILLA}/en-{language}/wmt14.en", downloads)))[: system.sentences]
    return [known[line].pop(0) for line in read]  # IndexError if a sentence is not in the test set


def mistakes(hypotheses: list[str], references: list[str], language: str) -> dict[str, float]:
    """Compute BLEU of detokenised sentences with common mistakes."""
    plain, reference = bleu.plain_quotes(references), bleu.paper_reference(references, language)
    words = bleu.moses_tokens(hypotheses, language)
    escaped = bleu.paper_tokens(hypotheses, language, escape=True)
    twice = bleu.paper_tokens(bleu.moses_tokens(plain, language, escape=True), language, escape=True)
    sides = {
        "compounds not split": (bleu.token_bleu(), words, bleu.moses_tokens(plain, language)),
        "`&quot;` and the like left in the translation alone": (bleu.token_bleu(), escaped, reference),
        "the reference tokenised twice": (bleu.token_bleu(), escaped, twice),
        "sacreBLEU of tokens against text": (BLEU(force=True), words, references),
    }
    return {choice: bleu.measure(*side)["score"] for choice, side in sides.items()}


def download(url: str, folder: Path) -> Path:
    """Return a file in the folder, downloaded if missing. Each URL contains a commit, so the bytes never change."""
    path = folder / url.removeprefix("https://")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        urllib.request.urlretrieve(url, path)
    return path


if __name__ == "__main__":
    cyclopts.run(main)
