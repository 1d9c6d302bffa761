"""The command line: one subcommand for each function that `COMMANDS` names, its options from the function's signature.

Modules are imported only when their subcommand runs: PyTorch alone takes seconds.
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
from typing import Any

from transformer.process import clean_exit
from transformer.storage.files import InputError, out_of_memory, reason
from transformer.storage.provenance import identity

_MODULES = {  # the subcommands, each a function of its module
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
    """Let the garbage collector run less often, which saves each job almost a second of a processor."""
    # PyTorch makes 170,000 objects that stay. The collector would visit them while they are made and at the end.
    gc.set_threshold(20_000)
    atexit.register(gc.freeze)


def main(argv: Iterable[str] | None = None) -> None:
    """Run one subcommand; without one, list them. Exits with 2 on a bad command line, else with 1."""
    _collect_rarely()
    words = sys.argv[1:] if argv is None else list(argv)
    if not words or words[0] in ("-h", "--help"):
        print("usage: python -m transformer COMMAND [--help] ...\n       python -m transformer --version\n")
        for name, place in sorted(COMMANDS.items()):
            module, function = place.split(":")
            tree = ast.parse(find_spec(module).loader.get_source(module))  # the modules are not imported
            (node,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
            print(f"  {name:12} {ast.get_docstring(node).splitlines()[0]}")
        return
    logging.basicConfig(format="%(message)s")
    logging.getLogger("transformer").setLevel(logging.INFO)  # libraries have much to say
    with _one_line_errors(words[0]):
        _run(words)


def _run(words: list[str]) -> None:
    import cyclopts  # jobs of Snakemake's scripts do without it

    app = cyclopts.App(
        name="transformer",
        help="The Transformer of “Attention Is All You Need”, from corpora to tables.",
        version=identity,
        help_format="plaintext",
        config=_require_values,
        suppress_keyboard_interrupt=False,  # process.clean_exit handles it
        # A list takes all words up to the next option; no boolean has a --no- form.
        default_parameter=cyclopts.Parameter(consume_multiple=True, negative=""),
    )
    for name, place in COMMANDS.items():
        app.command(place, name=name)
    try:
        app(words, exit_on_error=False, print_error=False, result_action="return_value")
    except cyclopts.CycloptsError as error:
        print(f"transformer: error: {error}", file=sys.stderr)
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
    """End with one line where input is bad, a file cannot be read or written, memory is short or a package missing."""
    try:
        yield
    except BrokenPipeError:
        raise  # whoever read the output has left: no error
    except (InputError, OSError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not out_of_memory(error):
            raise
        sys.exit(f"transformer {name}: error: {reason(error)}")
    except ImportError as error:
        package = error.name or getattr(error.__cause__, "name", None) or ""  # the command line's own error has a cause
        if not (extra := _extra(package)):
            raise
        expected = f'expected the packages of the extra "{extra}" (pip install "CHECKOUT[{extra}]")'
        sys.exit(f"transformer {name}: error: {expected}, found no {package}")


def _extra(package: str) -> str:
    """Return in which part of the installation a package is, "" if in none (pyproject.toml)."""
    try:
        parts = requires("transformer") or []
    except PackageNotFoundError:  # it is not installed at all, and runs from its checkout
        return ""
    pattern = re.compile(rf'{re.escape(package)}==.*extra == "(\w+)"')
    return next((match[1] for line in parts if (match := pattern.match(line))), "")


@contextmanager
def job(name: str, log: str) -> Iterator[None]:
    """Run the body of one of Snakemake's scripts. Messages and errors go to standard error and to the job's log.

    A signal, bad input and a full disk end it as they end a subcommand: with one line.
    """
    _collect_rarely()
    logging.basicConfig(format="%(message)s", force=True)
    logger = logging.getLogger("transformer")
    logger.setLevel(logging.INFO)
    logging.raiseExceptions = False  # a full disk ends the job by its output, not by its log
    # Without this, each worker process would run the script again.
    vars(sys.modules["__main__"]).pop("__file__", None)
    try:
        with clean_exit(f"transformer {name}"), _one_line_errors(name):
            file = logging.FileHandler(log, mode="w", encoding="utf-8", errors="backslashreplace")
            logging.getLogger().addHandler(file)
            yield
    except SystemExit as end:
        if isinstance(end.code, str):  # else the line is printed
            logger.error(end.code)
        sys.exit(1 if isinstance(end.code, str) else end.code)
    except Exception:
        logger.exception("transformer %s: error:", name)
        sys.exit(1)
