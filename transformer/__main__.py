"""`python -m transformer VERB ...` runs one verb; without a verb, lists them. `VERB --help` is its manual.

The command `transformer`, which pip installs, is the same program.
"""

import ast
import importlib
import importlib.util
import pkgutil
import sys

from transformer import commands
from transformer.cli import COMMANDS, run
from transformer.files import InputError
from transformer.provenance import identity
from transformer.runtime.process import manners
from transformer.text import out_of_memory, reason

USAGE = """\
usage: python -m transformer VERB [--help] ...
       python -m transformer --version

Once installed by pip, `transformer` is short for `python -m transformer`.
"""


def verbs() -> dict[str, str]:
    """Return each subcommand's module."""
    modules = pkgutil.iter_modules(commands.__path__, commands.__name__ + ".")
    return {module.name.rpartition(".")[2]: module.name for module in modules}


def overview() -> str:
    """Return a line for each verb: its name and the first line of its docstring."""
    places = {name: (module, None) for name, module in verbs().items()} | {
        name: place.split(":") for name, place in COMMANDS.items()
    }
    return "\n".join([USAGE, *(f"  {name:12} {summary(*places[name])}" for name in sorted(places))])


def summary(module: str, function: str | None) -> str:
    """Return the first line of a docstring, without importing the module: PyTorch alone takes seconds."""
    tree = ast.parse(importlib.util.find_spec(module).loader.get_source(module))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            tree = node
    return ast.get_docstring(tree).splitlines()[0]


def main(argv: list[str] | None = None) -> None:
    """Run the verb that `argv` names. Exits with 1 and one line on bad input, with 2 on a bad command line."""
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help"):
        print(overview())
        return
    if argv[0] == "--version":
        print(identity())
        return
    name, *rest = argv
    if name in COMMANDS:
        run(argv)
        return
    if name not in verbs():
        sys.exit(f"transformer: no verb {name!r}; the verbs are {', '.join(sorted(verbs() | COMMANDS))}")
    try:
        importlib.import_module(verbs()[name]).main(rest)
    except BrokenPipeError:
        raise  # whoever read the output has left: no error
    except (InputError, OSError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not out_of_memory(error):
            raise
        sys.exit(f"transformer {name}: error: {reason(error)}")


def program() -> None:
    """Run the command line of this process: `python -m transformer`, and the command `transformer`."""
    with manners(" ".join(["transformer", *sys.argv[1:2]])):
        main()


if __name__ == "__main__":
    program()
