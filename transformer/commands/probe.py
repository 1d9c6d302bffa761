r"""Measure a trained run, where a claim of Table 5 needs no other training.

    python -m transformer probe smoothing --run results/demo/runs/en-de/base/1 --beams 1 4 20 \
        --source resources/corpora/grammar-dev.en --target resources/corpora/grammar-dev.de --sentences 200 \
        --output results/demo/runs/en-de/base/1/smoothing.json

Takes at most SENTENCES pairs of the raw dev set, at equal distances. OUTPUT is JSON: run, as in score files; language
and number of the sentences, and the checksum of TARGET; and what the probe measured. `transformer probe NAME --help`
says what that is.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from transformer.commandline import named_parsers, positive, stage_parser
from transformer.config.runs import PROBED
from transformer.evaluation.origin import describe
from transformer.files import replacing, sha256


def main(argv: list[str] | None = None) -> None:
    """Run one probe, and write what it measured."""
    args = parse(sys.argv[1:] if argv is None else argv)
    run = describe(args.run, None)
    import torch  # here, as this and the next take seconds, and --help needs neither

    from transformer.evaluation.measures import open_subject

    torch.set_num_threads(args.threads)
    subject = open_subject(args.run, args.source, args.target, args.sentences)
    content = {"run": run, "language": subject.language, "sentences": len(subject.sources)}
    content |= {"target_sha256": sha256(args.target)}
    content |= args.module.make(subject, args)
    with replacing(args.output) as file:
        json.dump(content, file, ensure_ascii=False, separators=(",", ":"))
    print(f"{args.output}: {args.name}, {len(subject.sources)} sentences, {args.output.stat().st_size:,} bytes")


def parse(argv: list[str]) -> argparse.Namespace:
    """Read the command line: a probe's name, and its options."""
    parser = stage_parser("probe", __doc__)
    for probe in named_parsers(parser, "transformer.evaluation", list(PROBED), argv):
        probe.add_argument("--run", required=True, type=Path, metavar="DIR", help="folder of a trained run")
        probe.add_argument("--source", required=True, type=Path, metavar="FILE", help="the dev set, raw text")
        probe.add_argument("--target", required=True, type=Path, metavar="FILE", help="its references, line by line")
        probe.add_argument("--sentences", required=True, type=positive, metavar="N", help="take at most N pairs")
        probe.add_argument("--threads", type=positive, default=os.cpu_count(), help="processor threads; all by default")
        probe.add_argument("--output", required=True, type=Path, metavar="FILE", help="the JSON to write")
    return parser.parse_args(argv)
