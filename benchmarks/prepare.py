"""The speed and the memory of text preparation: the stages tokenize, vocabulary and encode, at growing sizes.

    python -m benchmarks.prepare                               # 0.1, 1 and 4 million pairs
    python -m benchmarks.prepare --pairs 100000 --processes 8  # one size

The stages run as processes, as in the workflow's rules, on a parallel corpus drawn at random, which needs 0.6 GB of
disk a million pairs. Speed in lines per second of processor time does not depend on what else the machine does.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from benchmarks.results import circumstances, command, leave, markdown, parser_of
from benchmarks.sentences import write_corpus
from benchmarks.workload import CONFIG
from transformer.config.reading import read_yaml
from transformer.layout import SIDES

LANGUAGES = ("en", "de")
DEV = 1000  # pairs
WATCH = 0.05  # seconds between looks at a stage's memory
WMT = 36_000_000  # pairs of English-French (§5.1)
CORES = 16
HOUR = 3600  # seconds


@dataclass
class Use:
    """The time and the memory that one stage took.

    seconds: of the clock. cpu_seconds: of all its processes. main_cpu_seconds: of the process that hands out the work.
    peak_bytes: the most resident memory of all its processes together.
    """

    seconds: float
    cpu_seconds: float
    main_cpu_seconds: float
    peak_bytes: int


def main(argv: list[str] | None = None) -> None:
    """Measure each size, the smallest first, and write the result after each."""
    args = parse(argv)
    result = circumstances("prepare", args) | {"processes": args.processes, "sizes": []}
    config = read_yaml(CONFIG)["preparation"]
    for pairs in sorted(args.pairs):
        with TemporaryDirectory(dir=args.folder) as folder:
            result["sizes"].append(measure(Path(folder), pairs, args, config))
        leave(result, table(result), args, "stages")


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = parser_of("prepare", __doc__)
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000, 1_000_000, 4_000_000], help="sizes")
    parser.add_argument("--vocabulary", type=int, default=37_000, help="subwords")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="of each stage; one for each core")
    parser.add_argument("--folder", type=Path, help="where the corpora are put meanwhile")
    return parser.parse_args(argv)


def measure(folder: Path, pairs: int, args: argparse.Namespace, preparation: dict) -> dict:
    """Measure each stage on so many pairs. A line is a sentence of one language; a pair has two."""
    data, started = folder / "data", time.monotonic()
    corpora = {"train": (pairs, 1), "dev": (DEV, 2)}
    for split, (count, seed) in corpora.items():
        write_corpus({language: folder / f"{split}.{language}" for language in LANGUAGES}, count, seed)
    drawing = time.monotonic() - started
    run(tokenize(folder, "dev", preparation, args.processes))
    texts = [data / f"train.{side}.tok" for side in SIDES]
    learn = ["vocabulary", "--text", *texts, "--size", args.vocabulary, "--output", data / "vocabulary.model"]
    learn += ["--sentences", preparation["vocabulary_sentences"]]
    commands = {
        "tokenize": [*tokenize(folder, "train", preparation, args.processes), "--clean"],
        "vocabulary": learn,
        "encode": ["encode", "--data", data, "--splits", "train", "dev", "--processes", args.processes],
    }
    totals = dict.fromkeys(commands, 2 * WMT) | {"vocabulary": preparation["vocabulary_sentences"]}
    stages = {name: numbers(run(command), 2 * pairs, totals[name]) for name, command in commands.items()}
    sizes = {path.name: path.stat().st_size for path in sorted(data.iterdir()) if path.name.startswith("train.")}
    return {"pairs": pairs, "seconds_to_draw": drawing, "bytes": sizes, "stages": stages}


def tokenize(folder: Path, split: str, preparation: dict, processes: int) -> list:
    """Return the command that tokenises a split into folder/data."""
    source, target = (folder / f"{split}.{language}" for language in LANGUAGES)
    options = ["--preparation", json.dumps(preparation), "--processes", processes, "--output", folder / "data" / split]
    return ["tokenize", "--source", source, "--target", target, "--languages", *LANGUAGES, *options]


def run(stage: list) -> Use:
    """Run a stage to its end, looking at its memory all the while. Raises CalledProcessError where it fails."""
    argv = [sys.executable, "-m", "transformer", *map(str, stage)]
    started, peak, main = time.monotonic(), 0, 0.0
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as process:
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            peak, main = max(peak, resident(process.pid)), max(main, own_seconds(process.pid))
            time.sleep(WATCH)
        _, status, usage = ended
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - started
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, argv)
    return Use(seconds, usage.ru_utime + usage.ru_stime, main, peak)


def resident(pid: int) -> int:
    """Return the bytes of memory that a process and all its descendants hold."""
    try:
        process = psutil.Process(pid)
        return sum(each.memory_info().rss for each in [process, *process.children(recursive=True)])
    except psutil.NoSuchProcess:  # it has just ended
        return 0


def own_seconds(pid: int) -> float:
    """Return a process's own processor time, without that of the processes that it started."""
    try:
        times = psutil.Process(pid).cpu_times()
        return times.user + times.system
    except psutil.NoSuchProcess:
        return 0.0


def numbers(use: Use, lines: int, total: int) -> dict:
    """Return a stage's numbers for the JSON. lines: how many it read. total: how many it reads of 36 million pairs."""
    return vars(use) | {
        "lines": lines,
        "lines_per_second": lines / use.seconds,
        "lines_per_cpu_second": lines / use.cpu_seconds,
        "hours_for_wmt": hours(use, lines, total),
    }


def hours(use: Use, lines: int, total: int) -> float:
    """Return the hours for `total` lines on 16 cores: the work shared out, or the main process's if that is more."""
    longest = max(use.cpu_seconds / CORES, use.main_cpu_seconds)
    return longest * total / lines / HOUR


def table(result: dict) -> str:
    """Return the result in Markdown."""
    rows = [row(size, name, use) for size in result["sizes"] for name, use in size["stages"].items()]
    return markdown(f"Preparation with {result['processes']} processes", rows, result)


def row(size: dict, name: str, use: dict) -> dict:
    """Return a stage's line of the table."""
    return {
        "Pairs": f"{size['pairs']:,}",
        "Stage": name,
        "Seconds": f"{use['seconds']:,.0f}",
        "Lines/s": f"{use['lines_per_second']:,.0f}",
        "Lines per CPU second": f"{use['lines_per_cpu_second']:,.0f}",
        "Peak memory": f"{use['peak_bytes'] / 2**30:.2f} GiB",
        "36M pairs on 16 cores": f"{use['hours_for_wmt']:.2f} h",
    }


if __name__ == "__main__":
    command(main)
