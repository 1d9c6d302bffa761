"""Score a translation by every measure in use, each with its signature (transformer/evaluation/bleu.py).

    python -m transformer score --hyp RUN/test.hyp --ref resources/corpora/grammar-test.de --lang de
    python -m transformer score ... --run RUN --json RUN/test.json
    python -m transformer score ... --subset filtered resources/corpora/newstest2014-filtered.de-en.de

Both files are plain text as people write it, detokenised, one sentence a line; --lang is their language. --subset
scores a part of the sentences as well: FILE has their references, in the order of --ref. The paper's measure has the
interval that holds 95 % of it on resampled test sets. It prints the measures that
papers report, and warns where one misleads. --json writes all of them, with the checksums of both files, how --run was
trained, averaged and decoded, and each resampled BLEU, for the tables; without a file it prints that instead.
"""

import argparse

from transformer.commandline import print_score, scoring_arguments, stage_parser
from transformer.evaluation.bleu import PAPER, paper_reference, paper_tokens, scores
from transformer.evaluation.misleading import marks, warnings
from transformer.evaluation.origin import describe
from transformer.evaluation.significance import bleu_draws, limits
from transformer.files import InputError, sha256
from transformer.text import read_lines, read_pairs

# What is printed, and what each is for. The paper's is followed by what is known in a language, and its interval.
PRINTED = {
    "sacrebleu": "the number to report, with its signature",
    PAPER: "as the paper's authors are said to have counted",
    "tokenized_lc": "tokenised, in lower case: the number of papers on Multi30k",
    "chrf2": "by letters, where BLEU is hard on word endings",
}
IN_LANGUAGE = {
    "de": "; only on all 3,003 sentences of newstest2014 comparable with their 27.3 and 28.4",
    "fr": " German; how their French 41.8 was counted is not known",
}


def main(argv: list[str] | None = None) -> None:
    """Print the scores; with --json, write or print them as JSON."""
    args = parse(argv)
    run = describe(args.run, args.weights, args.untaken)
    sides = [list(side) for side in zip(*read_pairs(args.hyp, args.ref), strict=True)]
    score = {"language": args.lang} | measured(*sides, args.lang)
    draws = bleu_draws(paper_tokens(sides[0], args.lang), paper_reference(sides[1], args.lang))
    low, high = limits(draws)
    score["scores"][PAPER] |= {"low": low, "high": high}
    score["subsets"] = {name: measured(*subset(sides, path), args.lang) for name, path in args.subset}
    score |= {
        "hyp": args.hyp,
        "hyp_sha256": sha256(args.hyp),
        "hyp_marks": marks(sides[0]),
        "ref": args.ref,
        "ref_sha256": sha256(args.ref),
        "ref_marks": marks(sides[1]),
        "run": run,
    }
    print_score(score | ({"draws": draws} if run else {}), listing(score), args.json)


def measured(hypotheses: list[str], references: list[str], language: str) -> dict:
    """Return how many sentences there are, and all their scores."""
    return {"sentences": len(references), "scores": scores(hypotheses, references, language)}


def subset(sides: list[list[str]], path: str) -> list[list[str]]:
    """Return hypotheses and references of the sentences whose references are the lines of `path`, in their order.

    Raises InputError, naming the line, where it is none of the references that follow the line before.
    """
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


def listing(score: dict) -> str:
    """Return the measures that papers report, what each is for and its signature; each subset in a line; warnings."""
    lines = [f"{score['sentences']:,} sentences"]
    for name, purpose in PRINTED.items():
        result = score["scores"][name]
        if name == PAPER:
            purpose += IN_LANGUAGE.get(score["language"], " German")
            purpose += f"; {result['low']:.2f} – {result['high']:.2f} on 95 % of resampled test sets"
        lines += [f"{name:12}  {result['score']:5.2f}  {purpose}", f"{'':21}{result['signature']}"]
    for name, part in score["subsets"].items():
        results = ", ".join(f"{measure} {part['scores'][measure]['score']:.2f}" for measure in PRINTED)
        lines.append(f"{part['sentences']:,} sentences ({name}): {results}")
    lines += [f"! {line}" for line in warnings(score["hyp_marks"], score["ref_marks"], score["sentences"])]
    return "\n".join([*lines, "--json has all measures and all digits; docs/bleu.md says which is for what."])


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = stage_parser("score", __doc__)
    parser.add_argument("--hyp", required=True, metavar="FILE", help="the translations")
    parser.add_argument("--ref", required=True, metavar="FILE", help="the references, line by line")
    parser.add_argument("--lang", required=True, metavar="CODE", help="the language of both, such as de")
    parser.add_argument(
        "--subset", nargs=2, default=[], action="append", metavar=("NAME", "FILE"), help="references of a part; repeat"
    )
    scoring_arguments(parser, "translated")
    return parser.parse_args(argv)
