"""Score parses: labelled bracket recall, precision and F1, as EVALB (Sekine & Collins) counts them by COLLINS.prm.

    python -m transformer evalb --gold resources/corpora/treebank-test.trees --test RUN/test.trees
    python -m transformer evalb ... --gold-tags --parses RUN/test.parses.json --run RUN --json RUN/test.json

A line of each file is a sentence's tree, with its words spelt alike in both; an empty line in --test is a sentence
without a tree, which EVALB skips. --gold-tags leaves a word out (punctuation) where its tag in --gold says so, not
where either tree's own tag does: a parser's mis-tagged comma then costs it nothing, where EVALB drops the sentence as
an error. --json writes the scores with the checksums of both files, how --run was trained, averaged and decoded, and F1
on resampled test sets (transformer/evaluation/significance.py); without a file it prints them.
"""

import argparse

from transformer.commandline import print_score, scoring_arguments, stage_parser
from transformer.evaluation.origin import describe
from transformer.evaluation.significance import f1_draws
from transformer.files import sha256
from transformer.parsing.brackets import SHORT, compare, read_gold_and_test, scores, unparsed
from transformer.parsing.repairs import read_repairs

MEASURES = {  # as they are printed
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


def main(argv: list[str] | None = None) -> None:
    """Print the scores; with --json, write or print them as JSON."""
    args = parse(argv)
    score = {
        "gold": args.gold,
        "gold_sha256": sha256(args.gold),
        "test": args.test,
        "test_sha256": sha256(args.test),
        **score_parses(args.gold, args.test, args.gold_tags, args.parses),
        "run": describe(args.run, args.weights, args.untaken),
    }
    if not args.run:
        del score["draws"]
    print_score(score, listing(score, args.test), args.json)


def score_parses(gold: str, test: str, gold_tags: bool, parses: str | None) -> dict:
    """Return the scores, the errors and, if the options ask for them, the scores by other rules."""
    pairs = list(read_gold_and_test(gold, test))
    sentences = [compare(*pair, number, gold_tags) for number, pair in enumerate(pairs, start=1)]
    score = {
        "by": "gold tags" if gold_tags else "evalb",
        "scores": scores(sentences),
        "draws": f1_draws([(sentence.matched, sentence.gold, sentence.test) for sentence in sentences]),
        "errors": [
            {"line": sentence.number, "why": sentence.why} for sentence in sentences if sentence.status == "error"
        ],
    }
    if parses:
        score["repaired"] = sorted(map(int, read_repairs(parses, test, len(sentences))["repaired"]))
        lines = set(score["repaired"])  # as if these had no bracket
        score["without_repair"] = scores(unparsed(each) if each.number in lines else each for each in sentences)
    if gold_tags:
        score["strict"] = scores(compare(*pair, number) for number, pair in enumerate(pairs, start=1))
    return score


def listing(score: dict, test: str) -> str:
    """Return a line per measure, for all sentences and for the short ones; then a line per error."""
    lines = [line("", "all", f"<= {SHORT} words")]
    lines += [row(label, score["scores"], name) for name, label in MEASURES.items()]
    if "without_repair" in score:
        lines.append(row(f"F1 if the {len(score['repaired'])} repaired had no bracket", score["without_repair"], "f1"))
    if "strict" in score:
        lines.append(row("F1 by each tree's own tags", score["strict"], "f1"))
        lines.append(row("left out by them: other words", score["strict"], "errors"))
    return "\n".join(lines + [f"{test}, line {error['line']}: {error['why']}" for error in score["errors"]])


def row(label: str, both: dict, name: str) -> str:
    return line(label, *(cell(both[part][name]) for part in ("all", "len40")))


def line(label: str, every: str, short: str) -> str:
    return f"{label:36}{every:>8}  {short:>11}".rstrip()


def cell(value: float | None) -> str:
    """Return a number rounded as EVALB does, or a dash where there was nothing to divide by."""
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = stage_parser("evalb", __doc__)
    parser.add_argument("--gold", required=True, metavar="FILE", help="the treebank's trees")
    parser.add_argument("--test", required=True, metavar="FILE", help="the parser's, line by line")
    parser.add_argument("--gold-tags", action="store_true", help="leave words out by their tags in --gold")
    parser.add_argument("--parses", metavar="FILE", help="which parses were repaired: scores them as failed as well")
    scoring_arguments(parser, "parsed")
    return parser.parse_args(argv)
