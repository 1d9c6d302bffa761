"""The results that every benchmark leaves: a JSON file, and a table in Markdown beside it and on the screen."""

import argparse
import importlib.metadata
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

import torch
from tabulate import tabulate

from transformer import provenance
from transformer.files import InputError, replacing
from transformer.runtime.device import best_device

FOLDER = Path(__file__).parent / "results"
PEERS = ("joeynmt", "ctranslate2", "transformers")  # distributions, as pip knows them


def command(main: Callable[[], None]) -> None:
    """Run `main`; exit with one line on bad input."""
    try:
        main()
    except InputError as error:
        sys.exit(f"benchmarks.{Path(sys.argv[0]).stem}: error: {error}")


class LeftOut(Exception):
    """The reason why a system takes no part in a benchmark."""


def require(distribution: str) -> str:
    """Return the version of an installed peer. Raises LeftOut where it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        raise LeftOut(f"{distribution} is not installed (make benchmarks)") from None


def open_systems(kinds: dict, names: list[str], work: object, folder: Path) -> tuple[dict, dict[str, str]]:
    """Open the named `kinds` of system for this work, each in a folder of its own.

    Return those that can do it, and the reasons why the others cannot, by the others' titles.
    """
    systems, left_out = {}, {}
    for name in names:
        own = folder / name
        own.mkdir()
        try:
            systems[name] = kinds[name](work, own)
        except LeftOut as reason:
            left_out[kinds[name].name] = str(reason)
    return systems, left_out


def parser_of(benchmark: str, manual: str | None) -> argparse.ArgumentParser:
    """Return the parser of `python -m benchmarks.BENCHMARK`, with the options that all benchmarks have."""
    parser = argparse.ArgumentParser(
        prog=f"benchmarks.{benchmark}", description=manual, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, metavar="JSON", help="results/BENCHMARK-LABEL.json if not given")
    parser.add_argument("--note", default="", help="a line to keep with the numbers, such as what else was running")
    return parser


def circumstances(benchmark: str, args: argparse.Namespace) -> dict:
    """Return what the numbers depend on beside the data: code, libraries, machine, time, and what was asked for."""
    return {
        "benchmark": benchmark,
        "measured": provenance.now(),
        "commit": provenance.commit(),
        "hardware": provenance.hardware(best_device()),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 1),  # processes that wanted a core in the last minute, these among them
        "versions": provenance.versions() | peers(),
        "arguments": {name: plain(value) for name, value in vars(args).items()},
    }


def plain(value: object) -> object:
    """Return an argument as JSON can hold it; a path becomes its name."""
    return value.name if isinstance(value, Path) else value


def peers() -> dict[str, str | None]:
    """Return the version of each peer, None where it is not installed."""
    versions = {}
    for distribution in PEERS:
        try:
            versions[distribution] = require(distribution)
        except LeftOut:
            versions[distribution] = None
    return versions


def leave(result: dict, table: str, args: argparse.Namespace, label: str) -> None:
    """Print the table, and replace both files."""
    output = args.output or FOLDER / f"{result['benchmark']}-{label}.json"
    with replacing(output) as file:
        json.dump(result, file, indent=1, ensure_ascii=False)
        file.write("\n")
    with replacing(output.with_suffix(".md")) as file:
        file.write(table)
    print(table, end="")


def markdown(title: str, rows: list[dict], result: dict, notes: Iterable[str] = ()) -> str:
    """Return a title, a table of `rows`, notes, the systems left out and why, and the circumstances."""
    grid = tabulate(rows, headers="keys", tablefmt="pipe", disable_numparse=True, stralign="right")
    absent = [f"Left out: {name}: {reason}." for name, reason in result.get("left_out", {}).items()]
    versions = [f"{name} {version}" for name, version in result["versions"].items() if version]
    commit, changes, _ = result["commit"].partition("+changes")
    footer = (
        f"{result['hardware']}; {result['measured'][:10]}; commit {commit[:12]}{changes}; {', '.join(versions)}."
        f" {result['arguments']['note']}"
    )
    return "\n\n".join([f"**{title}**", grid, *notes, *absent, footer.strip()]) + "\n"


def ratio(numerators: list[float], denominators: list[float]) -> float:
    """Return the median of the ratios over rounds, each of which ran both systems in turn."""
    return median(top / bottom for top, bottom in zip(numerators, denominators, strict=True))


def peak_memory() -> int:
    """Return the most bytes that this process has held of its GPU or, without a GPU, of the machine's memory."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    # Not getrusage: its peak begins with that of the process which started this one.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
