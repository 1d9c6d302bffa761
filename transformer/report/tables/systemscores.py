"""Scores of a system's translations by every measure, as rows of a table."""

from sacrebleu.metrics import BLEU
from sacrebleu.metrics.bleu import BLEUScore

from transformer.evaluation.bleu import PAPER, QUOTES, bleu_scores, measure
from transformer.report.tables.choices import MEASURE_NAMES, mistakes
from transformer.report.tables.systems import System, as_published

RECIPE = "as its makers scored it"
SPLIT_TOKENS = "sacreBLEU of split tokens against text"

COLUMNS = ["system", "label", "test", "sentences", "kind", "choice", "value", "difference"]
COLUMNS += ["precision_1", "precision_2", "precision_3", "precision_4", "brevity_penalty", "tokens", "reference_tokens"]
COLUMNS += ["signature"]


def rows_of(system: System) -> list[dict]:
    """Return the rows of one system: what was published, ours by all measures and mistakes, and quotation marks.

    The difference is that from the paper's measure of the same text.
    """
    head = {key: getattr(system, key) for key in ("name", "label", "test")} | {"sentences": len(system.output)}
    head["system"] = head.pop("name")
    scores = bleu_scores(system.hypotheses, system.references, system.language)
    paper = scores[PAPER]["score"]

    def row(kind: str, choice: str, value: float, signature: str = "") -> dict:
        cells = {"kind": kind, "choice": choice, "value": value, "difference": value - paper, "signature": signature}
        return head | cells

    score, signature = as_published(system)
    rows = [published_row(head, system.published)] if system.published else []
    rows.append(row("ours", RECIPE, score.score, signature) | counts(score))
    names = [PAPER, *(name for name in MEASURE_NAMES if name in scores)]
    rows += [row("measure", name, scores[name]["score"], scores[name]["signature"]) for name in names]
    mistaken = mistakes(system.hypotheses, system.references, system.language)
    if system.form == "tokens":
        mistaken[SPLIT_TOKENS] = measure(BLEU(force=True), system.output, system.references)["score"]
    rows += [row("mistake", choice, value) for choice, value in mistaken.items()]
    return rows + quote_rows(head, "reference", system.references) + quote_rows(head, "output", system.hypotheses)


def published_row(head: dict, published: dict) -> dict:
    """Return the row of a published score, all as text, as it was published."""
    precisions = (published["precisions"] or "").split("/")
    row = head | {"kind": "published", "choice": RECIPE, "value": float(published["score"])}
    row |= {f"precision_{n}": float(value) for n, value in enumerate(precisions, start=1) if value}
    row |= {name: int(published[name]) for name in ("tokens", "reference_tokens") if published[name]}
    penalty = {"brevity_penalty": float(published["penalty"])} if published["penalty"] else {}
    return row | penalty | {"signature": published["signature"] or ""}


def counts(score: BLEUScore) -> dict:
    """Return what a BLEU score is made of."""
    precisions = {f"precision_{n}": value for n, value in enumerate(score.precisions, start=1)}
    return precisions | {"brevity_penalty": score.bp, "tokens": score.sys_len, "reference_tokens": score.ref_len}


def quote_rows(head: dict, side: str, lines: list[str]) -> list[dict]:
    """Return how many double quotation marks a text has, Unicode ones and plain ones."""
    text = "".join(lines)
    marks = {"Unicode": sum(map(text.count, QUOTES['"'])), "plain": text.count('"')}
    return [head | {"kind": "quotes", "choice": f"{side}, {kind}", "value": count} for kind, count in marks.items()]
