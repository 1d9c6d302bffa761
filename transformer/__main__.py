"""`python -m transformer STAGE ...` runs one stage; without a stage, lists them. `STAGE --help` is its manual."""

import importlib
import pkgutil
import sys

from transformer import stages
from transformer.files import InputError


def stage_names() -> list[str]:
    """The stages, which are the modules of transformer/stages, as they are typed."""
    return sorted(module.name for module in pkgutil.iter_modules(stages.__path__))


def overview() -> str:
    """One line per stage: its name and the first line of its docstring."""
    lines = ["usage: python -m transformer STAGE [--help] ...", ""]
    for name in stage_names():
        summary = importlib.import_module(f"transformer.stages.{name}").__doc__.splitlines()[0]
        lines.append(f"  {name:12} {summary}")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    """Run the stage that `argv` names. Exits 1 with one line on bad input, 2 on a bad command line."""
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help"):
        print(overview())
        return
    name, *rest = argv
    if name not in stage_names():
        sys.exit(f"transformer: no stage {name!r}; the stages are {', '.join(stage_names())}")
    try:
        importlib.import_module(f"transformer.stages.{name}").main(rest)
    except (InputError, OSError) as error:
        sys.exit(f"transformer {name}: error: {error}")


if __name__ == "__main__":
    main()
