"""Scores of translations and of parses, for readers and as score files (transformer/records.py)."""

import json as json_module
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from transformer.evaluation.scores import bleu_draws, describe, f1_draws, limits
from transformer.files import InputError, read_lines, read_pairs, replacing, sha256
from transformer.records import read_parses

# What is printed, and what each is for. The paper's is followed by what is known in a language, and its interval.
PRINTED = {
    "sacrebleu": "the number to report, with its signature",
    "plain_quotes": "as the paper's authors are said to have counted",
    "tokenized_lc": "tokenised, in lower case: the number of papers on Multi30k",
    "chrf2": "by letters, where BLEU is hard on word endings",
}
_IN_LANGUAGE = {
    "de": "; only on all 3,003 sentences of newstest2014 comparable with their 27.3 and 28.4",
    "fr": " German; how their French 41.8 was counted is not known",
}
_BRACKET_LABELS = {  # as they are printed
    "sentences": "sentences",
    "errors": "left out: other words than in gold",
    "skipped": "left out: no tree",
    "valid": "scored",
    "recall": "recall",
    "precision": "precision",
    "f1": "F1",
    "complete": "complete match",
    "crossing": "crossing brackets a sentence",
    "no_crossing": "no crossing",
    "two_or_less_crossing": "2 or less crossing",
    "tagging": "tagging accuracy",
}
_JsonFile = Annotated[str | None, Parameter(allow_leading_hyphen=True)]


def score(
    *,
    hyp: str,
    ref: str,
    lang: str,
    subset: list[tuple[str, str]] = [],  # noqa: B006
    run: Path | None = None,
    weights: Path | None = None,
    json: _JsonFile = None,
) -> None:
    """Score a translation by every metric in use, each with its signature (transformer/evaluation/bleu.py).

    Both files are plain text as people write it, detokenised, one sentence a line. The metrics that papers report are
    printed, the paper's with the interval that holds 95 % of it on resampled test sets, and a warning if one misleads.

        python -m transformer score --hyp RUN/test.hyp --ref resources/corpora/grammar-test.de --lang de --run RUN
            --json RUN/test.json

    Args:
        hyp: the translations
        ref: the references, line by line
        lang: the language of both, such as de
        subset: a name, and a file with the references of some of the sentences, in order: they are also scored alone
        run: the folder of the run that translated
        weights: what it translated with; RUN/average.safetensors if not given
        json: a file for all metrics, checksums, the account of --run and each resampled BLEU; `-` prints that instead
    """
    from transformer.evaluation.bleu import PAPER, marks, paper_reference, paper_tokens, scores

    about = describe(run, weights)
    sides = [list(side) for side in zip(*read_pairs(hyp, ref), strict=True)]

    def scored(hypotheses: list[str], references: list[str]) -> dict:
        return {"sentences": len(references), "scores": scores(hypotheses, references, lang)}

    content = {"language": lang} | scored(*sides)
    draws = bleu_draws(paper_tokens(sides[0], lang), paper_reference(sides[1], lang))
    low, high = limits(draws)
    content["scores"][PAPER] |= {"low": low, "high": high}
    content["subsets"] = {name: scored(*_part_of(sides, path)) for name, path in subset}
    for name, path, side in (("hyp", hyp, sides[0]), ("ref", ref, sides[1])):
        content |= {name: path, f"{name}_sha256": sha256(path), f"{name}_marks": marks(side)}
    _print_or_write(content | {"run": about}, draws, _listing(content), json)


def _part_of(sides: list[list[str]], path: str) -> list[list[str]]:
    """Choose the sentences whose references are the lines of `path`, in their order."""
    chosen, start = [], 0
    for number, line in enumerate(read_lines(path), start=1):
        try:
            chosen.append(sides[1].index(line, start))
        except ValueError:
            expected = "expected one of the references of the whole, in their order"
            raise InputError(f"{path}, line {number}: {expected}, found {line!r}") from None
        start = chosen[-1] + 1
    if not chosen:
        raise InputError(f"{path}: expected references, found none")
    return [[side[index] for index in chosen] for side in sides]


def _listing(content: dict) -> str:
    """List the metrics that papers report, each with its use and signature; a line for each subset; warnings."""
    from transformer.evaluation.bleu import PAPER, warnings

    lines = [f"{content['sentences']:,} sentences"]
    for name, purpose in PRINTED.items():
        result = content["scores"][name]
        if name == PAPER:
            purpose += _IN_LANGUAGE.get(content["language"], " German")
            purpose += f"; {result['low']:.2f} – {result['high']:.2f} on 95 % of resampled test sets"
        lines += [f"{name:12}  {result['score']:5.2f}  {purpose}", f"{'':21}{result['signature']}"]
    for name, part in content["subsets"].items():
        results = ", ".join(f"{metric} {part['scores'][metric]['score']:.2f}" for metric in PRINTED)
        lines.append(f"{part['sentences']:,} sentences ({name}): {results}")
    lines += [f"! {line}" for line in warnings(content["hyp_marks"], content["ref_marks"], content["sentences"])]
    return "\n".join([*lines, "--json has all measures and all digits; docs/bleu.md says which is for what."])


def evalb(
    *,
    gold: str,
    test: str,
    gold_tags: bool = False,
    parses: str | None = None,
    run: Path | None = None,
    weights: Path | None = None,
    json: _JsonFile = None,
) -> None:
    """Score parses: labelled brackets, as EVALB (Sekine & Collins) counts them by COLLINS.prm.

    A line of each file is a sentence's tree, with its words spelt alike in both; an empty line in --test is a sentence
    without a tree, which EVALB skips. With --gold-tags a wrongly tagged comma costs a parser nothing, where EVALB drops
    the sentence as an error.

        python -m transformer evalb --gold resources/corpora/grammar-test.trees --test RUN/test.trees --gold-tags
            --parses RUN/test.parses.json --run RUN --json RUN/test.json

    Args:
        gold: the treebank's trees
        test: the parser's trees, line by line
        gold_tags: leave a word out (punctuation) if its tag in --gold says so, not by either tree's own tag
        parses: the repairs of the trees: they are scored as failed as well
        run: the folder of the run that parsed
        weights: what it parsed with; RUN/average.safetensors if not given
        json: a file for the scores, checksums, the account of --run and each resampled F1; `-` prints that instead
    """
    from transformer.parsing.brackets import bracket_scores, compare, read_gold_and_test, unparsed

    pairs = list(read_gold_and_test(gold, test))
    sentences = [compare(*pair, number, gold_tags) for number, pair in enumerate(pairs, start=1)]
    content = {
        "gold": gold,
        "gold_sha256": sha256(gold),
        "test": test,
        "test_sha256": sha256(test),
        "by": "gold tags" if gold_tags else "evalb",
        "scores": bracket_scores(sentences),
        "errors": [{"line": each.number, "why": each.why} for each in sentences if each.status == "error"],
    }
    if parses:
        repaired = content["repaired"] = sorted(map(int, read_parses(parses, test, len(sentences))["repaired"]))
        as_failed = [unparsed(each) if each.number in set(repaired) else each for each in sentences]
        content["without_repair"] = bracket_scores(as_failed)
    if gold_tags:
        content["strict"] = bracket_scores(compare(*pair, number) for number, pair in enumerate(pairs, start=1))
    draws = f1_draws([(each.matched, each.gold, each.test) for each in sentences])
    _print_or_write(content | {"run": describe(run, weights)}, draws, _bracket_listing(content), json)


def _bracket_listing(content: dict) -> str:
    """List the scores of all sentences and of the short ones; then a line per error."""
    from transformer.parsing.brackets import SHORT

    rows = [(label, content["scores"], name) for name, label in _BRACKET_LABELS.items()]
    if "without_repair" in content:
        rows.append((f"F1 if the {len(content['repaired'])} repaired had no bracket", content["without_repair"], "f1"))
    if "strict" in content:
        rows.append(("F1 by each tree's own tags", content["strict"], "f1"))
        rows.append(("left out by them: other words", content["strict"], "errors"))
    lines = [f"{'':36}{'all':>8}  {f'<= {SHORT} words':>11}"]
    for label, both, name in rows:
        every, short = (_rounded(both[part][name]) for part in ("all", "len40"))
        lines.append(f"{label:36}{every:>8}  {short:>11}")
    return "\n".join(lines + [f"{content['test']}, line {each['line']}: {each['why']}" for each in content["errors"]])


def _rounded(value: float | None) -> str:
    """Round a number as EVALB does; a dash stands for none."""
    return "-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def _print_or_write(content: dict, draws: list[float], listing: str, file: str | None) -> None:
    """Print the listing and write the score file, or print that. A score of a run ends with its draws, in one line."""
    text = json_module.dumps(content, indent=2, ensure_ascii=False)
    if content["run"]:
        text = f'{text[:-2]},\n  "draws": {json_module.dumps(draws)}\n}}'
    if file == "-":
        sys.stdout.reconfigure(encoding="utf-8")  # whatever the terminal's locale
    print(text if file == "-" else listing)
    if file not in (None, "-"):
        with replacing(file) as written:
            written.write(text + "\n")
