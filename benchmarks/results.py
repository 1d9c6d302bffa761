"""What every benchmark leaves: a JSON file, and a table of it in Markdown beside it and on the screen."""

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

from transformer.common import provenance
from transformer.common.files import InputError, replacing
from transformer.runtime.distributed import best_device

FOLDER = Path(__file__).parent / "results"
PEERS = ("joeynmt", "ctranslate2", "transformers")  # distributions, as pip knows them


def command(main: Callable[[], None]) -> None:
    """Run `main`; bad input ends it with one line."""
    try:
        main()
    except InputError as error:
        sys.exit(f"benchmarks.{Path(sys.argv[0]).stem}: error: {error}")


class LeftOut(Exception):
    """Why a system takes no part in a benchmark."""


def require(distribution: str) -> str:
    """The version of an installed peer. Raises LeftOut where it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        raise LeftOut(f"{distribution} is not installed (make benchmarks)") from None


def open_systems(kinds: dict, names: list[str], work: object, folder: Path) -> tuple[dict, dict[str, str]]:
    """Of the `kinds` of system that are named, those that can do this work, each in a folder of its own.

    And the reason of each of the others.
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
    """The parser of `python -m benchmarks.BENCHMARK`, with the options that all have."""
    parser = argparse.ArgumentParser(
        prog=f"benchmarks.{benchmark}", description=manual, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, metavar="JSON", help="results/BENCHMARK-LABEL.json if not given")
    parser.add_argument("--note", default="", help="a line to keep with the numbers, such as what else was running")
    return parser


def circumstances(benchmark: str, args: argparse.Namespace) -> dict:
    """What the numbers depend on beside the data: code, libraries, machine, time, and what was asked for."""
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
    """An argument as JSON can hold it; of a path, its name alone."""
    return value.name if isinstance(value, Path) else value


def peers() -> dict[str, str | None]:
    """The version of each peer, None where it is not installed."""
    found = {}
    for distribution in PEERS:
        try:
            found[distribution] = require(distribution)
        except LeftOut:
            found[distribution] = None
    return found


def leave(result: dict, table: str, args: argparse.Namespace, label: str) -> None:
    """Print the table, and write both files, aside and renamed."""
    output = args.output or FOLDER / f"{result['benchmark']}-{label}.json"
    with replacing(output) as file:
        json.dump(result, file, indent=1, ensure_ascii=False)
        file.write("\n")
    with replacing(output.with_suffix(".md")) as file:
        file.write(table)
    print(table, end="")


def markdown(title: str, rows: list[dict], result: dict, notes: Iterable[str] = ()) -> str:
    """A title, a table of `rows`, notes, who was left out and why, and the circumstances."""
    grid = tabulate(rows, headers="keys", tablefmt="pipe", disable_numparse=True, stralign="right")
    absent = [f"Left out: {name}: {reason}." for name, reason in result.get("left_out", {}).items()]
    versions = [f"{name} {version}" for name, version in result["versions"].items() if version]
    commit, changes, _ = result["commit"].partition("+changes")
    about = (
        f"{result['hardware']}; {result['measured'][:10]}; commit {commit[:12]}{changes}; {', '.join(versions)}."
        f" {result['arguments']['note']}"
    )
    return "\n\n".join([f"**{title}**", grid, *notes, *absent, about.strip()]) + "\n"


def ratio(numbers: list[float], others: list[float]) -> float:
    """How many times the others these are: the median over rounds, each of which ran both in turn."""
    return median(number / other for number, other in zip(numbers, others, strict=True))


def peak_memory() -> int:
    """Bytes: the most that this process has held of its GPU; where it has none, of the machine's memory."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    # Not getrusage: its peak begins with that of the process which started this one.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
