"""The command line: one subcommand for each function that `COMMANDS` names, its options from the function's signature.

Modules are imported only when their subcommand runs: PyTorch alone takes seconds.
"""

import logging
import sys
from collections.abc import Iterable

import cyclopts
from cyclopts import Parameter

from transformer.files import InputError
from transformer.provenance import identity
from transformer.text import out_of_memory, reason

PREPARE = ("fetch", "unpack", "generate", "tokenize", "vocabulary", "encode")
COMMANDS: dict[str, str] = {  # name: module:function
    **{name: f"transformer.commands.train:{name}" for name in ("resolve", "train", "average")},
    **{name: f"transformer.commands.prepare:{name}" for name in PREPARE},
    "doctor": "transformer.commands.doctor:doctor",
    "doctor-node": "transformer.commands.doctor:doctor_node",
    "explain": "transformer.commands.explain:explain",
    **{name: f"transformer.commands.score:{name}" for name in ("score", "evalb")},
    **{name: f"transformer.commands.parse:{name}" for name in ("treebank", "linearize", "parse", "silver")},
    "export": "transformer.commands.translate:export",
    "serve": "transformer.commands.serve:serve",
    "translate": "transformer.commands.translate:translate",
}

app = cyclopts.App(
    name="transformer",
    help="The Transformer of “Attention Is All You Need”, from corpora to tables.",
    version=identity,
    help_format="plaintext",
    # A list takes all words up to the next option; no boolean has a --no- form.
    default_parameter=Parameter(consume_multiple=True, negative=""),
)
for name, place in COMMANDS.items():
    app.command(place, name=name)


def run(argv: Iterable[str]) -> None:
    """Run one subcommand. Exits with 2 and one line on a bad command line, with 1 and one line on bad input."""
    words = list(argv)
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    try:
        app(words, exit_on_error=False, print_error=False, result_action="return_value")
    except cyclopts.CycloptsError as error:
        print(f"transformer: error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        raise  # whoever read the output has left: no error
    except (InputError, OSError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not out_of_memory(error):
            raise
        sys.exit(f"transformer {words[0]}: error: {reason(error)}")
