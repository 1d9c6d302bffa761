r"""Learn the byte-pair vocabulary that source and target share (§5.1), or a parser's (§6.3).

    python -m transformer vocabulary --text train.source.tok train.target.tok --size 37000 --sentences 10000000 \
        --output vocabulary.model
    python -m transformer vocabulary --text train.source.tok --symbols train.target.tok --rows 512 --size 16896 ...

--symbols, a file of linearised trees, gives the first --rows ids to its symbols, pad, eos and unk among them.
"""

from pathlib import Path

from transformer.commandline import stage_parser
from transformer.data.subwords import Subwords, find_symbols, learn
from transformer.files import InputError


def main(argv: list[str] | None = None) -> None:
    """Learn the vocabulary, load it again and check its size."""
    parser = stage_parser("vocabulary", __doc__)
    parser.add_argument("--text", nargs="+", type=Path, required=True, help="tokenised text to learn on")
    parser.add_argument("--size", type=int, required=True, help="number of subwords, the three special ones included")
    parser.add_argument("--symbols", type=Path, help="linearised trees, whose symbols come first")
    parser.add_argument("--rows", type=int, help="how many of the ids are theirs")
    parser.add_argument("--sentences", type=int, required=True, help="learn on at most this many lines")
    parser.add_argument("--output", type=Path, required=True, help="the SentencePiece model to write")
    args = parser.parse_args(argv)
    if (args.symbols is None) != (args.rows is None):
        parser.error("--symbols and --rows go together")
    symbols = find_symbols(args.symbols, args.rows) if args.symbols else []
    learn(args.text, args.size, args.sentences, args.output, symbols)
    if len(Subwords(args.output)) != args.size:
        raise InputError(f"{args.output}: expected {args.size} subwords, found {len(Subwords(args.output))}")
