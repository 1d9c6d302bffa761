"""The command line: one subcommand for each function in `COMMANDS`. The function's signature defines the options.

A module is imported only when its subcommand runs, because importing PyTorch takes seconds.
"""

import ast
import atexit
import gc
import logging
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec

from transformer.process import clean_exit
from transformer.storage.files import InputError, out_of_memory, reason
from transformer.storage.provenance import identity

_MODULES = {  # subcommands by module; each subcommand is a function of the module
    "fetch": ("fetch",),
    "train": ("train",),
    "translate": ("translate",),
    "serve": ("export", "serve"),
    "parse": ("parse",),
    "score": ("score", "evalb"),
    "analyse": ("analyse", "attend"),
    "results": ("explain", "record"),
    "plan": ("plan",),
    "doctor": ("doctor",),
}
COMMANDS = {name: f"transformer.commands.{module}:{name}" for module, names in _MODULES.items() for name in names}


def _collect_rarely() -> None:
    """Run the garbage collector less often. This saves each job almost a second of processor time."""
    # PyTorch creates 170,000 permanent objects. By default the collector visits them during the import and at exit.
    gc.set_threshold(20_000)
    atexit.register(gc.freeze)


def main(argv: Iterable[str] | None = None) -> None:
    """Run one subcommand, or list all if none is given. Exits with 2 on a bad command line, with 1 on other errors."""
    _collect_rarely()
    words = sys.argv[1:] if argv is None else list(argv)
    if not words or words[0] in ("-h", "--help"):
        print("usage: python -m transformer COMMAND [--help] ...\n       python -m transformer --version\n")
        for name, place in sorted(COMMANDS.items()):
            module, function = place.split(":")
            tree = ast.parse(find_spec(module).loader.get_source(module))  # reads the text without an import
            (node,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
            print(f"  {name:12} {ast.get_docstring(node).splitlines()[0]}")
        return
    logging.basicConfig(format="%(message)s")
    logging.getLogger("transformer").setLevel(logging.INFO)  # other libraries log too much at this level
    with _one_line_errors(words[0]):
        _run(words)


def _run(words: list[str]) -> None:
    import cyclopts  # here, because the jobs of Snakemake's scripts do not need it

    app = cyclopts.App(
        name="transformer",
        help="The Transformer of “Attention Is All You Need”, from corpora to tables.",
        version=identity,
        help_format="plaintext",
        suppress_keyboard_interrupt=False,  # process.clean_exit handles it
        # A list takes all words up to the next option. Booleans have no --no- form.
        default_parameter=cyclopts.Parameter(consume_multiple=True, negative=""),
    )
    for name, place in COMMANDS.items():
        app.command(place, name=name)
    try:
        app(words, exit_on_error=False, print_error=False, result_action="return_value")
    except cyclopts.CycloptsError as error:
        print(f"transformer: error: {error}", file=sys.stderr)
        sys.exit(2)


def program() -> None:
    with clean_exit(" ".join(["transformer", *sys.argv[1:2]])):
        main()


@contextmanager
def _one_line_errors(name: str) -> Iterator[None]:
    """Exit with one line on bad input, unreadable or unwritable files, lack of memory or a missing package."""
    try:
        yield
    except BrokenPipeError:
        raise  # a closed pipe is not an error of this program
    except (InputError, OSError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not out_of_memory(error):
            raise
        sys.exit(f"transformer {name}: error: {reason(error)}")
    except ImportError as error:
        package = error.name or getattr(error.__cause__, "name", None) or ""  # cyclopts's own error has a cause
        if not (extra := _extra(package)):
            raise
        remedy = f'install the extra "{extra}": pip install "CHECKOUT[{extra}]"'
        sys.exit(f"transformer {name}: error: the package {package} is missing; {remedy}")


def _extra(package: str) -> str:
    """Return the extra of pyproject.toml that installs a package, or "" if there is none."""
    try:
        parts = requires("transformer") or []
    except PackageNotFoundError:  # this project is not installed and runs from its checkout
        return ""
    pattern = re.compile(rf'{re.escape(package)}==.*extra == "(\w+)"')
    return next((match[1] for line in parts if (match := pattern.match(line))), "")


@contextmanager
def job(name: str, log: str) -> Iterator[None]:
    """Run the body of one of Snakemake's scripts. Messages and errors go to standard error and to the job's log.

    A signal, bad input or a full disk ends the script with one line, like a subcommand.
    """
    _collect_rarely()
    logging.basicConfig(format="%(message)s", force=True)
    logger = logging.getLogger("transformer")
    logger.setLevel(logging.INFO)
    logging.raiseExceptions = False  # on a full disk, the job fails when it writes its output, not its log
    # If __file__ stayed, each worker process would rerun the script.
    vars(sys.modules["__main__"]).pop("__file__", None)
    try:
        with clean_exit(f"transformer {name}"), _one_line_errors(name):
            file = logging.FileHandler(log, mode="w", encoding="utf-8", errors="backslashreplace")
            logging.getLogger().addHandler(file)
            yield
    except SystemExit as end:
        if isinstance(end.code, str):  # otherwise the line is already printed
            logger.error(end.code)
        sys.exit(1 if isinstance(end.code, str) else end.code)
    except Exception:
        logger.exception("transformer %s: error:", name)
        sys.exit(1)
