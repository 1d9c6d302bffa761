"""Common parts of the benchmarks: timing, optional peers, and the JSON file of results."""

import importlib.metadata
import importlib.util
import json
import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from msgspec import UNSET
from msgspec.structs import fields
from tabulate import tabulate

from transformer.config.experiment import Model
from transformer.device import best_device
from transformer.storage import provenance
from transformer.storage.files import replacing

THREADS = os.cpu_count() or 1
FOLDER = Path(__file__).parent / "results"
PEERS = ("joeynmt", "ctranslate2", "transformers")


class LeftOut(Exception):
    """The reason for leaving a system out of a benchmark."""


def require(package: str) -> None:
    """Raise LeftOut if a peer is not installed."""
    if importlib.util.find_spec(package) is None:
        raise LeftOut(f"{package} is not installed; run `make benchmarks`")


def require_paper(peer: str, config: Model) -> None:
    """Raise LeftOut if a model is not the paper's. Other toolkits support only the paper's model."""
    options = [field for field in fields(Model) if not (field.required or field.default is UNSET)]  # the paper's values
    own = [field.name for field in options if getattr(config, field.name) != field.default]
    if config.d_k * config.h != config.d_model or config.d_v != config.d_k:
        own.append("d_k or d_v")
    if config.positions != "sinusoid" or config.target_spaces or config.output_rows != config.embedding_rows:
        own.append("positions or embeddings")
    if own:
        raise LeftOut(f"{peer} supports only the paper's model; this run differs in {', '.join(own)}")


def opened(
    kinds: dict[str, Callable], titles: dict[str, str], folder: Path, *work: Any
) -> tuple[dict[str, Any], dict[str, str]]:
    """Open each system in its own folder. Return the systems, and by title the reasons for leaving systems out."""
    systems, left_out = {}, {}
    for name, kind in kinds.items():
        (folder / name).mkdir()
        try:
            systems[name] = kind(folder / name, *work)
        except LeftOut as reason:
            left_out[titles[name]] = str(reason)
    return systems, left_out


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Run an action. Return the seconds until the device has finished, and the action's value."""
    synchronize = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    synchronize()
    started = perf_counter()
    value = action()
    synchronize()
    return perf_counter() - started, value


def product_speed(dtype: torch.dtype) -> float:
    """Return the FLOP/s of a product of two large square matrices."""
    size, times = (8192, 8) if torch.cuda.is_available() else (1536, 1)
    a, b = (torch.randn(size, size, device=best_device()).to(dtype) for _ in range(2))
    seconds, _ = timed(lambda: [a @ b for _ in range(times)])
    return 2 * size**3 * times / seconds


def leave(benchmark: str, label: str, output: Path | None, systems: dict[str, dict], **more: Any) -> None:
    """Print a table of the systems' numbers, and write them with the commit, hardware and versions."""
    peers = {each: importlib.metadata.version(each) if importlib.util.find_spec(each) else None for each in PEERS}
    about = {
        "benchmark": benchmark,
        "label": label,
        "measured": provenance.now(),
        "commit": provenance.commit(),
        "hardware": provenance.hardware(best_device()),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 1),  # mean number of runnable processes in the last minute
        "versions": provenance.versions() | peers,
    }
    with replacing(output or FOLDER / f"{benchmark}-{label}.json") as file:
        json.dump(about | more | {"systems": systems}, file, indent=1, ensure_ascii=False)
        file.write("\n")
    rows = [{key: each for key, each in system.items() if not isinstance(each, list)} for system in systems.values()]
    print(tabulate(rows, headers="keys", tablefmt="pipe", floatfmt=",.4g"))
    for name, reason in more["left_out"].items():
        print(f"Left out: {name}: {reason}.")
