"""Score a translation: BLEU in several variants, each with its signature.

    python -m transformer score --hyp RUN/test.hyp --ref resources/corpora/grammar-test.de --language de
    python -m transformer score ... --run RUN --json RUN/test.json

Both files are plain text as people write it, detokenised, one sentence a line; --language is theirs. --json writes the
scores with the checksums of both files and, of --run, how it was trained, averaged and decoded, for the tables.
"""

import argparse
import json
from pathlib import Path

from transformer.arguments import stage_parser
from transformer.bleu import scores
from transformer.files import replacing, sha256
from transformer.runs import describe
from transformer.text import read_pairs


def main(argv: list[str] | None = None) -> None:
    """Print the scores; with --json, write them too."""
    args = parse(argv)
    run = describe(args.run, args.weights or args.run / "average.safetensors") if args.run else None
    hypotheses, references = map(list, zip(*read_pairs(args.hyp, args.ref), strict=True))
    score = {
        "language": args.language,
        "sentences": len(hypotheses),
        "scores": scores(hypotheses, references, args.language),
        "hyp_sha256": sha256(args.hyp),
        "ref_sha256": sha256(args.ref),
        "run": run,
    }
    print(listing(score))
    if args.json:
        with replacing(args.json) as file:
            json.dump(score, file, indent=2, ensure_ascii=False)
            file.write("\n")


def listing(score: dict) -> str:
    """A line per variant, the paper's marked."""
    variants = dict(score["scores"])
    paper = variants.pop("paper")
    lines = [f"BLEU of {score['sentences']} sentences (* the variant in the paper):"]
    for name, variant in variants.items():
        lines.append(f"{'*' if name == paper else ' '} {name:14}  {variant['bleu']:5.2f}  {variant['signature']}")
    return "\n".join(lines)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = stage_parser("score", __doc__)
    parser.add_argument("--hyp", required=True, metavar="FILE", help="the translations")
    parser.add_argument("--ref", required=True, metavar="FILE", help="the references, line by line")
    parser.add_argument("--language", required=True, metavar="CODE", help="the language of both, such as de")
    parser.add_argument("--run", type=Path, metavar="DIR", help="the folder of the run that translated")
    parser.add_argument(
        "--weights", type=Path, metavar="FILE", help="what it translated with; RUN/average.safetensors if not given"
    )
    parser.add_argument("--json", metavar="FILE", help="the score file to write")
    return parser.parse_args(argv)
