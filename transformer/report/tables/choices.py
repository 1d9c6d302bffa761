"""The choices behind a BLEU score, one changed at a time, measured on our own base model.

They are how the same translations are scored, which weights and which search made them, and how the model was trained.
Nothing is trained for this: the last kind are runs of Table 3.
"""

import math
from dataclasses import dataclass
from statistics import fmean

import pandas as pd
from sacrebleu.metrics import BLEU

from transformer.data.subwords import Subwords
from transformer.data.tokenization import Moses
from transformer.evaluation.bleu import measure, paper_reference, paper_tokens, plain_quotes, token_bleu, tokenize
from transformer.evaluation.significance import bleu_draws
from transformer.report.tables.differences import paired

# The paper's measure, and other measures of bleu.py, as readers know them.
PAPER_NAME = "the paper's measure"
MEASURE_NAMES = {
    "tokenized": "multi-bleu.perl on Moses tokens, nothing else",
    "tokenized_lc": "the same in lower case",
    "compound_split": "the reference's quotes left as they are",
    "normalized": "Moses' punctuation normaliser on both sides",
    "sacrebleu": "sacreBLEU",
    "sacrebleu_lc": "sacreBLEU in lower case",
    "intl": "sacreBLEU, international tokens",
    "intl_lc": "sacreBLEU, international tokens, in lower case",
}
COLUMNS = ["kind", "choice", "bleu", "difference", "p", "runs"]


@dataclass(frozen=True)
class Base:
    """The base model's runs on the test set, as configured: what every other choice is compared with."""

    runs: pd.DataFrame  # a row per seed, from scorefiles.read_scores
    hypotheses: list[list[str]]  # of each run
    references: list[str]

    @property
    def language(self) -> str:
        return self.runs["language"].iloc[0]

    @property
    def bleu(self) -> list[float]:
        return list(self.runs["bleu"])

    def row(self, kind: str, choice: str, scores: list[float], p: float = math.nan) -> dict:
        """Return the row of one choice, from its scores for each run; without scores it was not run."""
        return row(kind, choice, scores, mean(scores) - mean(self.bleu), p, list(self.runs["name"]))


def row(kind: str, choice: str, scores: list[float], difference: float, p: float, names: list[str]) -> dict:
    """Return the mean of `scores`, and the runs that they are of."""
    values = (kind, choice, mean(scores), difference, p, " ".join(names) if scores else "")
    return dict(zip(COLUMNS, values, strict=True))


def mean(scores: list[float]) -> float:
    """Return the mean, or NaN without scores."""
    return fmean(scores) if scores else math.nan


def scoring(base: Base, subsets: list[dict], vocabulary: Subwords, moses: Moses) -> list[dict]:
    """Return the rows of the same translations by other measures; `subsets` is that of each run's score file."""
    rows = [
        base.row("scoring", choice, [variants[name]["score"] for variants in base.runs["variants"]])
        for name, choice in MEASURE_NAMES.items()
        if name in base.runs["variants"].iloc[0]
    ]
    by_run = [mistakes(hypotheses, base.references, base.language) for hypotheses in base.hypotheses]
    rows += [base.row("scoring", choice, [scores[choice] for scores in by_run]) for choice in by_run[0]]
    return rows + of_own_text(base, subsets, vocabulary, moses)


def of_own_text(base: Base, subsets: list[dict], vocabulary: Subwords, moses: Moses) -> list[dict]:
    """Return the rows of scoring that need the runs' own vocabulary, or the test set's parts."""
    choice = "subwords not joined, on both sides"
    rows = [base.row("scoring", choice, [unjoined(side, base, vocabulary, moses) for side in base.hypotheses])]
    for name, part in subsets[0].items():
        parts = [of_run[name]["scores"] for of_run in subsets]
        scores = [variants[variants["paper"]]["score"] for variants in parts]
        rows.append(base.row("scoring", f"the {part['sentences']} {name} sentences alone", scores))
    return rows if subsets[0] else [*rows, base.row("scoring", "the filtered test set", [])]


def mistakes(hypotheses: list[str], references: list[str], language: str) -> dict[str, float]:
    """Return BLEU of detokenised sentences as it is often computed otherwise, mostly by mistake."""
    plain, reference = plain_quotes(references), paper_reference(references, language)
    words = tokenize(hypotheses, language)
    escaped = paper_tokens(hypotheses, language, escape=True)
    twice = paper_tokens(tokenize(plain, language, escape=True), language, escape=True)
    return {
        "compounds not split": of_words(words, tokenize(plain, language)),
        "`&quot;` and the like left in the translation alone": of_words(escaped, reference),
        "the reference tokenised twice": of_words(escaped, twice),
        "sacreBLEU of tokens against text": measure(BLEU(force=True), words, references)["score"],
    }


def unjoined(hypotheses: list[str], base: Base, vocabulary: Subwords, moses: Moses) -> float:
    """Return BLEU whose words are the ids of subwords, without EOS."""
    sides = ([moses.tokenize(line) for line in side] for side in (hypotheses, base.references))
    return of_words(*([" ".join(map(str, ids[:-1])) for ids in vocabulary.encode(side)] for side in sides))


def of_words(hypotheses: list[str], references: list[str]) -> float:
    """Return BLEU of tokens as multi-bleu.perl counts it."""
    return measure(token_bleu(), hypotheses, references)["score"]


def translating(base: Base, kind: str, choice: str, translations: list[list[str]]) -> dict:
    """Return the row of other translations by the same models, for each run; without any they were not made."""
    if not translations:
        return base.row(kind, choice, [])
    reference = paper_reference(base.references, base.language)
    words = [paper_tokens(translation, base.language) for translation in translations]
    scores = [of_words(side, reference) for side in words]
    other = base.runs[["name"]].assign(bleu=scores, draws=[bleu_draws(side, reference) for side in words])
    return base.row(kind, choice, scores, paired(other, base.runs).p)


def seeds(base: Base) -> list[dict]:
    """Return rows that show how far the seeds are apart."""
    if len(base.bleu) == 1:
        return [base.row("training", "another seed", [])]
    ends = {"lowest": min(base.bleu), "highest": max(base.bleu)}
    return [base.row("training", f"the {end} of {len(base.bleu)} seeds", [bleu]) for end, bleu in ends.items()]


def training(runs: pd.DataFrame, against: pd.DataFrame, experiments: list[str]) -> list[dict]:
    """Return the rows of experiments of Table 3 against its base, all by their last checkpoints on the dev set.

    runs: from table3.read_runs; against: from table3.against_base.
    """
    rows = []
    for experiment in experiments:
        same = runs[runs["experiment"] == experiment]
        compared = (against[name].get(experiment, float("nan")) for name in ("difference", "p"))
        rows.append(row("training", f"{experiment} of Table 3", list(same["bleu"]), *compared, list(same["name"])))
    return rows
