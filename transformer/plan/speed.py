"""The speed at which a machine trains, by this project's own benchmark of it or from a GPU's peak. No torch here."""

import re
from pathlib import Path
from typing import NamedTuple, NotRequired, TypedDict

from transformer.files import InputError
from transformer.records import Above0, read_json

RECORDS = Path("benchmarks/results")  # in the project's folder
MEASURE = "python -m benchmarks.train --model base"

# Peak FLOP/s of dense products in the type that a training takes: bfloat16, and float32 on a V100, which lacks it
# (step.py: compute_dtype). From NVIDIA's data sheets, SXM where there are several; figures "with sparsity" halved.
GPUS = {
    "b200": 2250e12,
    "h200": 989e12,
    "h100": 989e12,
    "a100": 312e12,
    "l40s": 362e12,
    "a40": 149.7e12,
    "a10g": 70e12,  # by AWS
    "l4": 121e12,
    "v100": 15.7e12,
}

# The big model on one A100 reached this: NVIDIA/DeepLearningExamples, PyTorch/Translation/Transformer, README: 82,059
# tokens a second in mixed precision. Eight A100s in MLPerf v0.7 reached 42 %.
UTILISATION = 0.33


class Ours(TypedDict):
    """This project's training in a benchmark."""

    products: str  # the type that matrices are multiplied in
    flops_utilisation: Above0


class Systems(TypedDict):
    """The systems of a benchmark."""

    ours: NotRequired[Ours]


class Record(TypedDict):
    """A benchmark of training, as benchmarks/train.py writes it."""

    label: str
    measured: str
    commit: str
    hardware: str
    matrix_flops_per_second: dict[str, Above0]
    systems: Systems


class Speed(NamedTuple):
    """The speed of one unit, which is a GPU or a processor core, and the source of the number."""

    unit: str
    name: str
    flops_per_second: float
    source: str


def gpu_speed(name: str, utilisation: float | None) -> Speed:
    """Return the speed of a GPU: by a given utilisation, else as recorded, else as assumed.

    Raises InputError on a name that GPUS lacks.
    """
    if name not in GPUS:
        raise InputError(f"--gpu: expected one of {', '.join(GPUS)}, found {name}")
    if utilisation is not None:
        source = f"{percent(utilisation)} of the {name}'s peak, as given."
        return Speed("GPU", f"{name} GPU", GPUS[name] * utilisation, source)
    # As a word: GH200 is another machine than H200.
    records = [record for record in read_records() if re.search(rf"\b{name}\b", record["hardware"].lower())]
    if records:
        record = min(newest(records), key=flops_per_second)
        return Speed("GPU", f"{name} GPU", flops_per_second(record), f"measured on {origin(record)}.")
    peak = f"{percent(UTILISATION)} of the {name}'s peak of {GPUS[name] / 1e12:g} TFLOP/s"
    source = (
        f"{peak}, assumed from others' big model on an A100; smaller models reach less.\n"
        f"Nothing was measured on this GPU: run `{MEASURE}` on it."
    )
    return Speed("GPU", f"{name} GPU", GPUS[name] * UTILISATION, source)


def core_speed(utilisation: float | None) -> Speed:
    """Return the speed of a processor core by the newest record. Raises InputError where there is none."""
    records = [record for record in read_records() if cores(record)]
    if not records:
        raise InputError(f"{RECORDS}: no record of a processor: name a GPU (--gpu), or measure ({MEASURE})")
    record = max(records, key=lambda record: record["measured"])
    share = "" if utilisation is None else f"{percent(utilisation)} of what bare products reach, as given, "
    source = f"{share}measured on {origin(record)}.\nOther processors, and smaller models, differ."
    return Speed("core", "core", flops_per_second(record, utilisation) / cores(record), source)


def read_records() -> list[Record]:
    """Read the recorded benchmarks of training, except those that timed other systems only."""
    records = [read_json(path, Record) for path in sorted(RECORDS.glob("train-*.json"))]
    return [record for record in records if "ours" in record["systems"]]


def newest(records: list[Record]) -> list[Record]:
    """Return the last record of each model."""
    return list({record["label"]: record for record in sorted(records, key=lambda record: record["measured"])}.values())


def flops_per_second(record: Record, utilisation: float | None = None) -> float:
    """Return what this project's training sustained, or would at another utilisation of bare matrix products."""
    ours = record["systems"]["ours"]
    utilisation = ours["flops_utilisation"] if utilisation is None else utilisation
    return record["matrix_flops_per_second"][ours["products"]] * utilisation


def cores(record: Record) -> int:
    """Return how many processor cores took part in a benchmark; 0 if it ran on a GPU."""
    match = re.search(r", (\d+) of \d+ cores$", record["hardware"])
    return int(match[1]) if match else 0


def origin(record: Record) -> str:
    """Return a record's hardware, model, date and commit."""
    return f"{record['hardware']} ({record['label']}, {record['measured'][:10]}, commit {record['commit'][:12]})"


def percent(value: float) -> str:
    """Return a share as a percentage of up to three digits."""
    return f"{100 * value:.3g}%"
