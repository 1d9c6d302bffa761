"""Learn the byte-pair vocabulary that source and target share (§5.1).

    python -m transformer vocabulary --text train.source.tok train.target.tok --size 37000 --sentences 10000000 \\
        --output vocabulary.model
"""

from pathlib import Path

from transformer.arguments import stage_parser
from transformer.files import InputError
from transformer.subwords import Subwords, learn


def main(argv: list[str] | None = None) -> None:
    """Learn, then load what was written and count its pieces."""
    parser = stage_parser("vocabulary", __doc__)
    parser.add_argument("--text", nargs="+", type=Path, required=True, help="tokenised text to learn on")
    parser.add_argument("--size", type=int, required=True, help="number of subwords, the three special ones included")
    parser.add_argument("--sentences", type=int, required=True, help="learn on at most this many lines")
    parser.add_argument("--output", type=Path, required=True, help="the SentencePiece model to write")
    args = parser.parse_args(argv)
    learn(args.text, args.size, args.sentences, args.output)
    if len(Subwords(args.output)) != args.size:
        raise InputError(f"{args.output}: expected {args.size} subwords, found {len(Subwords(args.output))}")
