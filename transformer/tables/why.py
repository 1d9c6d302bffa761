"""Why is my BLEU not 27.3? What each choice is worth, one changed at a time, measured on our own base model.

How the same translations are scored, which weights and which search made them, and how the model was trained. Nothing
is trained for this: the last are runs of Table 3.
"""

from dataclasses import dataclass
from statistics import fmean

import pandas as pd
from sacrebleu.metrics import BLEU

from transformer.data.subwords import Subwords
from transformer.data.tokenization import Moses
from transformer.scoring.bleu import measure, paper_reference, paper_tokens, plain_quotes, token_bleu, tokenize
from transformer.scoring.significance import RESAMPLES, SEED, bleu_draws, p_value
from transformer.tables.cells import Cell, Row, difference_text, gaps, mean_draws, provenance
from transformer.tables.render import Table

# Measures of bleu.py, as readers know them.
MEASURES = {
    "tokenized": "multi-bleu.perl on Moses tokens, nothing else",
    "tokenized_lc": "the same in lower case",
    "compound_split": "the reference's quotes left as they are",
    "normalized": "Moses' punctuation normaliser on both sides",
    "sacrebleu": "sacreBLEU",
    "sacrebleu_lc": "sacreBLEU in lower case",
    "intl": "sacreBLEU, international tokens",
    "intl_lc": "sacreBLEU, international tokens, in lower case",
}
NOT_RUN = "not run at this scale"
NOT_MEASURED = (
    "Not measured at any scale, though often asked about: smaller batches, layer normalisation before the sub-layer, "
    "another ε of Adam, 16-bit numbers, other training text."
)
P_NOTE = (
    f"p: how likely so large a difference is were both equal, by paired bootstrap resampling, {RESAMPLES:,} draws of "
    f"the sentences with seed {SEED}, where other translations of the same sentences were scored. Scored otherwise, "
    "the same translations have no p: the difference is what the measure does, not chance."
)
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

    def row(self, kind: str, choice: str, scores: list[float], p: float = float("nan")) -> dict:
        """One choice, by its scores for each run; without scores it was not run."""
        return row(kind, choice, scores, mean(scores) - mean(self.bleu), p, list(self.runs["name"]))


def row(kind: str, choice: str, scores: list[float], difference: float, p: float, names: list[str]) -> dict:
    """The mean of `scores`, and their runs."""
    runs = " ".join(names) if scores else ""
    return dict(zip(COLUMNS, (kind, choice, mean(scores), difference, p, runs), strict=True))


def mean(scores: list[float]) -> float:
    """NaN of none."""
    return fmean(scores) if scores else float("nan")


def scoring(base: Base, subsets: list[dict], vocabulary: Subwords, moses: Moses) -> list[dict]:
    """The same translations by other measures; `subsets` is that of each run's score file."""
    rows = [
        base.row("scoring", choice, [variants[name]["score"] for variants in base.runs["variants"]])
        for name, choice in MEASURES.items()
        if name in base.runs["variants"].iloc[0]
    ]
    of_runs = [slips(hypotheses, base, vocabulary, moses) for hypotheses in base.hypotheses]
    rows += [base.row("scoring", choice, [of_run[choice] for of_run in of_runs]) for choice in of_runs[0]]
    for name, part in subsets[0].items():
        found = [of_run[name]["scores"][of_run[name]["scores"]["paper"]]["score"] for of_run in subsets]
        rows.append(base.row("scoring", f"the {part['sentences']} {name} sentences alone", found))
    return rows if subsets[0] else [*rows, base.row("scoring", "the filtered test set", [])]


def slips(hypotheses: list[str], base: Base, vocabulary: Subwords, moses: Moses) -> dict[str, float]:
    """BLEU as it is often taken otherwise, mostly by mistake."""
    language, plain = base.language, plain_quotes(base.references)
    reference, words = paper_reference(base.references, language), tokenize(hypotheses, language)
    escaped = paper_tokens(hypotheses, language, escape=True)
    twice = paper_tokens(tokenize(plain, language, escape=True), language, escape=True)
    subwords = [in_subwords(side, vocabulary, moses) for side in (hypotheses, base.references)]
    return {
        "compounds not split": of_words(words, tokenize(plain, language)),
        "`&quot;` and the like left in the translation alone": of_words(escaped, reference),
        "the reference tokenised twice": of_words(escaped, twice),
        "sacreBLEU of tokens, not of text": measure(BLEU(force=True), words, base.references)["score"],
        "subwords not joined, on both sides": of_words(*subwords),
    }


def of_words(hypotheses: list[str], references: list[str]) -> float:
    return measure(token_bleu(), hypotheses, references)["score"]


def in_subwords(sentences: list[str], vocabulary: Subwords, moses: Moses) -> list[str]:
    """The subwords' ids in place of words, as the model writes them."""
    ids = vocabulary.encode([moses.tokenize(line) for line in sentences])
    return [" ".join(map(str, sentence[:-1])) for sentence in ids]  # without EOS


def translating(base: Base, kind: str, choice: str, translations: list[list[str]]) -> dict:
    """Other translations by the same models, for each run; none where they were not made."""
    if not translations:
        return base.row(kind, choice, [])
    reference = paper_reference(base.references, base.language)
    words = [paper_tokens(translation, base.language) for translation in translations]
    scores = [of_words(side, reference) for side in words]
    differences = mean_draws(bleu_draws(side, reference) for side in words) - mean_draws(base.runs["draws"])
    return base.row(kind, choice, scores, p_value(mean(scores) - mean(base.bleu), differences))


def seeds(base: Base) -> list[dict]:
    """How far the seeds are apart."""
    if len(base.bleu) == 1:
        return [base.row("training", "another seed", [])]
    ends = {"lowest": min(base.bleu), "highest": max(base.bleu)}
    return [base.row("training", f"the {end} of {len(base.bleu)} seeds", [bleu]) for end, bleu in ends.items()]


def training(runs: pd.DataFrame, against: pd.DataFrame, experiments: list[str]) -> list[dict]:
    """These experiments of Table 3 against its base, all by their last checkpoints on the dev set.

    runs: from table3.read_runs; against: from table3.against_base.
    """
    rows = []
    for experiment in experiments:
        same = runs[runs["experiment"] == experiment]
        compared = (against[name].get(experiment, float("nan")) for name in ("difference", "p"))
        rows.append(row("training", f"{experiment} of Table 3", list(same["bleu"]), *compared, list(same["name"])))
    return rows


def changed_text(changes: dict, decoding: dict) -> str:
    """`beam 1, not 4`."""
    return "; ".join(f"{key} {value}, not {decoding[key]}" for key, value in changes.items())


def why_for_readers(
    table: pd.DataFrame, runs: pd.DataFrame, printed: str, labels: tuple[str, str], expected: list[str]
) -> Table:
    """`table`, a frame of COLUMNS, and under it what it is made from; `expected` names all runs.

    runs: the base model's scores on the test set, then Table 3's. printed: the paper's BLEU. labels: of the test and
    the dev set behind ours.
    """
    test, dev = labels
    caption = (
        f"Why is my BLEU not {printed}? What each choice is worth in BLEU, one changed at a time. {printed} is "
        "what the paper prints for the base model, English to German, on newstest2014. Ours is the base model on "
        f"{test}; there a choice can be worth more or less. What differs in training is from Table 3, on {dev}."
    )
    notes = [*gaps(expected, runs), P_NOTE, NOT_MEASURED]
    if len(runs):
        notes += [configured_note(runs.iloc[0]), "Where ours come from:", provenance(runs)]
    return Table("why", caption, [cells(row) for row in table.to_dict("records")], notes)


def configured_note(run: pd.Series) -> str:
    """What the differences are from."""
    signature = run["variants"][run["paper"]]["signature"]
    return (
        f"As configured: scored as the authors did, {run['paper']}, `{signature}`. Differences are from that; those in "
        "training from Table 3's base, by the last checkpoints alone."
    )


def cells(row: dict) -> Row:
    """One line of the table."""
    shown = {
        "BLEU": NOT_RUN if pd.isna(row["bleu"]) else f"{row['bleu']:.2f}",
        "Difference": difference_text(row["difference"], 2),
        "p": "" if pd.isna(row["p"]) else f"{row['p']:.3f}",
    }
    ours = {name: Cell(text, tuple(row["runs"].split()) if text else ()) for name, text in shown.items()}
    return {"Kind": row["kind"], "Choice": row["choice"]} | ours
