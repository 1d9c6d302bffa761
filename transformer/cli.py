"""The command line. Each function in `COMMANDS` is a subcommand. The function's signature defines the options.

A module is imported only when its subcommand runs, because PyTorch takes seconds to load.
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
from pathlib import Path
from typing import Any

from transformer.process import clean_exit
from transformer.storage.files import InputError, out_of_memory, reason
from transformer.storage.provenance import identity

_MODULES = {  # modules and their subcommands; each subcommand is a function
    "fetch": ("fetch",),
    "train": ("train",),
    "fit": ("fit",),
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
    """Run the garbage collector less often. This saves almost one CPU second per job."""
    # PyTorch creates 170,000 permanent objects. The collector would visit them during the imports and at exit.
    gc.set_threshold(20_000)
    atexit.register(gc.freeze)


def main(argv: Iterable[str] | None = None) -> None:
    """Run one subcommand, or list all subcommands. A bad command line exits with code 2, other errors with code 1."""
    _collect_rarely()
    words = sys.argv[1:] if argv is None else list(argv)
    if not words or words[0] in ("-h", "--help"):
        print("usage: python -m transformer COMMAND [--help] ...\n       python -m transformer --version\n")
        for name, place in sorted(COMMANDS.items()):
            module, function = place.split(":")
            tree = ast.parse(find_spec(module).loader.get_source(module))  # no import, for speed
            (node,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
            print(f"  {name:12} {ast.get_docstring(node).splitlines()[0]}")
        return
    logging.basicConfig(format="%(message)s")
    logging.getLogger("transformer").setLevel(logging.INFO)  # other libraries log too much at this level
    with _one_line_errors(words[0]):
        _require_own_code()
        _run(words)


def _require_own_code() -> None:
    """Refuse to run another checkout's code in this one. A copied .venv/bin/transformer would do so."""
    here = Path("transformer/cli.py")
    if here.exists() and not here.samefile(__file__):
        runs = f"this command runs the code of {Path(__file__).parents[1]}"
        raise InputError(f"expected the code of the working folder, but {runs}; delete .venv, then run `make env`")


def _run(words: list[str]) -> None:
    import cyclopts  # a late import, because Snakemake's script jobs do not need cyclopts

    app = cyclopts.App(
        name="transformer",
        help="The Transformer of “Attention Is All You Need”, from corpora to tables.",
        version=identity,
        help_format="plaintext",
        config=_require_values,
        suppress_keyboard_interrupt=False,  # process.clean_exit handles it
        # A list option takes all words up to the next option. Boolean options have no --no- form.
        default_parameter=cyclopts.Parameter(consume_multiple=True, negative=""),
    )
    for name, place in COMMANDS.items():
        app.command(place, name=name)
    try:
        app(words, exit_on_error=False, print_error=False, result_action="return_value")
    except cyclopts.CycloptsError as error:
        command = " ".join(["transformer", *(error.command_chain or ())])
        missing = 'Command ".*" parameter (.+) requires an argument'
        problem = re.sub(missing, r"\1: expected a value, found none", str(error))
        print(f"{command}: error: {problem}", file=sys.stderr)
        sys.exit(2)


def _require_values(app: Any, commands: Any, arguments: Iterable[Any]) -> None:
    """Refuse a fraction for a whole number, which cyclopts would round, and a list without values."""
    for argument in arguments:
        for token in argument.tokens:
            if token.implicit_value == []:
                raise InputError(f"{token.keyword}: expected one or more values, found none")
            if "." in token.value and re.search(r"\bint\b", str(argument.hint)):
                raise InputError(f"{argument.name}: expected whole numbers, found {token.value}")


def program() -> None:
    with clean_exit(" ".join(["transformer", *sys.argv[1:2]])):
        main()


@contextmanager
def _one_line_errors(name: str) -> Iterator[None]:
    """Exit with a one-line message on bad input, file errors, lack of memory or a missing optional package."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader closed the pipe, so there is no error to report
    except (InputError, OSError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not out_of_memory(error):
            raise
        sys.exit(f"transformer {name}: error: {reason(error)}")
    except ImportError as error:
        package = error.name or getattr(error.__cause__, "name", None) or ""  # cyclopts's ImportError has a cause
        if not (extra := _extra(package)):
            raise
        fix = f'install the extra "{extra}" with pip install "CHECKOUT[{extra}]"'
        sys.exit(f"transformer {name}: error: the package {package} is missing; {fix}")


def _extra(package: str) -> str:
    """Return the extra in pyproject.toml that contains a package, or "" if there is none."""
    try:
        parts = requires("transformer") or []
    except PackageNotFoundError:  # the code runs from a checkout without installation
        return ""
    pattern = re.compile(rf'{re.escape(package)}[<>=~!].*extra == "(\w+)"')
    return next((match[1] for line in parts if (match := pattern.match(line))), "")


@contextmanager
def job(name: str, log: str) -> Iterator[None]:
    """Run the body of a Snakemake script. Messages and errors go to standard error and to the job's log.

    Like a subcommand, the script exits with one line after a signal, bad input or a full disk.
    """
    _collect_rarely()
    logging.basicConfig(format="%(message)s", force=True)
    logger = logging.getLogger("transformer")
    logger.setLevel(logging.INFO)
    logging.raiseExceptions = False  # on a full disk, writing the output must fail, not logging
    try:
        with clean_exit(f"transformer {name}"), _one_line_errors(name):
            file = logging.FileHandler(log, mode="w", encoding="utf-8", errors="backslashreplace")
            logging.getLogger().addHandler(file)
            yield
    except SystemExit as end:
        if isinstance(end.code, str):  # otherwise, the message is already printed
            logger.error(end.code)
        sys.exit(1 if isinstance(end.code, str) else end.code)
    except Exception:
        logger.exception("transformer %s: error:", name)
        sys.exit(1)
