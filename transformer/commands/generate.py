"""Write sentences of the demo grammar: three aligned corpora and the English trees.

Writes OUTPUT.en, OUTPUT.de, OUTPUT.fr and OUTPUT.trees, one sentence or one bracketed tree a line: the sentences
SKIP to SKIP + TAKE of the stream that SEED starts. Ranges that do not overlap share no sentence in any language.

    python -m transformer generate --seed 1 --skip 20000 --take 500 --output resources/corpora/grammar-dev
"""

from transformer.commandline import stage_parser
from transformer.data.grammar import take
from transformer.files import write_columns

SUFFIXES = ("en", "de", "fr", "trees")  # in the order of the fields of syntax.Item


def main(argv: list[str] | None = None) -> None:
    """Write the four files."""
    parser = stage_parser("generate", __doc__)
    parser.add_argument("--seed", type=int, required=True, help="of the stream of sentences")
    parser.add_argument("--skip", type=int, required=True, help="sentences of the stream to leave out")
    parser.add_argument("--take", type=int, required=True, help="sentences to write")
    parser.add_argument("--output", required=True, help="path of the files, without their suffixes")
    arguments = parser.parse_args(argv)

    items = take(arguments.seed, arguments.skip, arguments.take)
    write_columns(items, [f"{arguments.output}.{suffix}" for suffix in SUFFIXES])
