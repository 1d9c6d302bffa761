"""Let Inductor write a training step's CUDA code for an H200, without one, and print as JSON what it would do there.

    export PRETEND=pretend.so PYTHONPATH=.:tests:.triton  # as trace.py; .ci/run says how .triton is made
    python tests/gpu/kernels.py base            # launches, bytes, planned memory, and milliseconds by a model
    python tests/gpu/kernels.py base --compile  # also each Triton kernel, by ptxas: minutes

The milliseconds are arithmetic on the assumptions below, not measurements.
"""

import argparse
import json
import math
import re
import tempfile
from collections import Counter
from pathlib import Path

from trace import CUDA, FAKE, Learner, learner_of  # isort: skip (before torch)

import numpy as np
import torch
from support.inductor import compile_kernels, writing

from transformer.model.packed import BLOCK, padding_lengths, tables
from transformer.training.compiling import compiled

BANDWIDTH = 4.0e12  # bytes/s that an H200's memory gives to a kernel
LAUNCH = 2e-6  # seconds between two kernels
PRODUCTS, PROCESSORS, TILE = 680e12, 132, (128, 256)  # FLOP/s of a large product; multiprocessors; a product's tile
PART = 2048  # of a product's sums, at least, where they are divided
SHALLOW = ((512, 0.82), (1024, 0.9))  # of that speed, where rows are not longer
ATTENTION = 180e12  # FLOP/s in the tiles that attention works on, masked or not
ATTENTION_PRODUCTS = 2 + 7  # in each tile, forward and backward
OPTIMIZER = 4 * (2 + 1 + 7)  # bytes a parameter: put the gradient into the buffer, its norm, and Adam
GROUP = 320 * 2**16  # numbers that one launch takes, of what works on all parameters at once
RELU = "torch.ops.aten._addmm_activation.default"  # a product that ends with ReLU


def described(files: list[Path], parameters: int, attention: float) -> dict:
    """Return what the step's code does, and how long that takes by the model. attention: FLOPs of all its tiles.

    The gigabytes are those of all but attention.
    """
    launches, seconds, moved = Counter(), Counter(), 0.0
    for path in files:
        code = path.read_text("utf-8")
        volumes = {
            name: float(x) for name, x in re.findall(r"'kernel_name': '(\w+)'.*?'kernel_num_gb': ([\d.e-]+)", code)
        }
        call, shapes = code[code.index("def call(") :], {}
        for line in call.splitlines():
            shapes |= named_shapes(line, shapes)
            if kernel := re.match(r"\s+(triton_\w+)\.run\(", line):
                kind = "attention" if "_tem_" in kernel[1] else "elementwise"
                volume = volumes.get(kernel[1], 0.0) * 1e9 if kind == "elementwise" else 0.0
                seconds[kind] += LAUNCH + volume / BANDWIDTH
            elif product := re.match(rf"\s+(extern_kernels\.mm|extern_kernels\.addmm|\w+ = {RELU})\((.*)\)$", line):
                (m, k), (_, n) = (shape_of(x, shapes) for x in arguments(product[2])[-2:])
                volume, kind = 2 * (m * k + k * n + m * n), "products"
                seconds[kind] += LAUNCH + max(product_seconds(m, n, k), volume / BANDWIDTH)
            elif re.match(r"\s+(\w+ = torch\.ops\.|extern_kernels\.)", line):
                volume, kind = 0.0, "others"
            else:
                continue
            launches[kind] += 1
            moved += volume
    seconds["attention"] += attention / ATTENTION
    seconds["optimizer"] = 3 * math.ceil(parameters / GROUP) * LAUNCH + parameters * OPTIMIZER / BANDWIDTH
    return {
        "launches": dict(launches),
        "gigabytes": round(moved / 1e9, 1),
        "tiles": tiles(files),
        "planned_gigabytes": round(planned(files[0].read_text("utf-8")) / 1e9, 2),
        "milliseconds": {kind: round(1e3 * value, 1) for kind, value in seconds.items()},
        "total_milliseconds": round(1e3 * seconds.total(), 1),
    }


def tiles(files: list[Path]) -> list[int]:
    """Return the sizes of attention's tiles, and of the tables' blocks as its kernels take them to be."""
    size = r"(?:SPARSE_(?:Q|KV)_BLOCK_SIZE|BLOCK_[MN]\d?) : tl\.constexpr = (\d+)"
    return sorted({int(found) for path in files for found in re.findall(size, path.read_text("utf-8"))})


def named_shapes(line: str, shapes: dict) -> dict:
    """Return the shapes of the tensors that a line of the code names."""
    if found := re.match(r"\s+(\w+) = (?:empty_strided_cuda\(|reinterpret_tensor\(\w+, )\(([\d, ]*)\)", line):
        return {found[1]: numbers(found[2])}
    if found := re.match(r"\s+assert_size_stride\((\w+), \(([\d, ]*)\)", line):
        return {found[1]: numbers(found[2])}
    if found := re.match(r"\s+(\w+) = (\w+); del \w+  # reuse", line):
        return {found[1]: shapes.get(found[2])}
    return {}


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(x) for x in text.replace(" ", "").split(",") if x)


def arguments(text: str) -> list[str]:
    """Return a call's arguments without names; of a reinterpret_tensor(...) leave the shape alone."""
    bare = re.sub(r"reinterpret_tensor\(\w+, (\([\d, ]*\)), \([\d, ]*\), \d+\)", r"\1", text)
    return [x for x in re.split(r", (?![^()]*\))", bare) if "=" not in x]


def shape_of(argument: str, shapes: dict) -> tuple[int, ...]:
    return numbers(argument.strip("()")) if argument.startswith("(") else shapes[argument]


def product_seconds(m: int, n: int, k: int) -> float:
    """Return the time of a product [m, k] @ [k, n]: the last wave of its tiles leaves multiprocessors idle.

    Where there are fewer tiles than multiprocessors, several work on the parts of a tile's sum, if it is long enough.
    """
    tiles = math.ceil(m / TILE[0]) * math.ceil(n / TILE[1])
    parts = max(1, min(k // PART, PROCESSORS // tiles))
    waves = tiles * parts / PROCESSORS
    speed = PRODUCTS * waves / math.ceil(waves) * next((part for most, part in SHALLOW if k <= most), 1.0)
    together = LAUNCH + 8 * parts * m * n / BANDWIDTH if parts > 1 else 0.0  # written and read in 32 bits
    return 2 * m * n * k / speed + together


def planned(code: str) -> int:
    """Return the most bytes that the forward pass holds at once, in what it allocates."""
    held, now, most = {}, 0, 0
    for line in code[code.index("def call(") :].splitlines():
        if found := re.match(r"\s+(\w+) = empty_strided_cuda\(\(([\d, ]*)\), \([\d, ]*\), torch\.(\w+)\)", line):
            held[found[1]] = math.prod(numbers(found[2])) * getattr(torch, found[3]).itemsize
            now += held[found[1]]
            most = max(most, now)
        elif found := re.match(rf"\s+assert_size_stride\((\w+), \(([\d, ]*)\), .*'{RELU}'", line):
            held[found[1]] = math.prod(numbers(found[2])) * torch.bfloat16.itemsize  # it brings its own memory
            now += held[found[1]]
            most = max(most, now)
        elif found := re.match(
            r"\s+(\w+) = (\w+); del \w+  # reuse|\s+(\w+) = reinterpret_tensor\((\w+), .*; del", line
        ):
            new, old = (found[1], found[2]) if found[1] else (found[3], found[4])
            held[new] = held.pop(old, 0)
        elif found := re.match(r"\s+del (\w+)$", line):
            now -= held.pop(found[1], 0)
    return most


def attention_flops(learner: Learner) -> float:
    """Return the FLOPs in the tiles of all attentions of a step, on average of the first epoch's batches."""
    model, lengths, batches = learner.experiment.model, learner.text.lengths, learner.batches_of(0)
    tiles = 0
    for batch in batches:
        filled = np.concatenate([lengths[:, batch], padding_lengths(lengths[:, batch], learner.capacity)], axis=1)
        for queries, keys, causal in ((0, 0, False), (1, 1, True), (1, 0, False)):
            tiles += tables(filled[queries], filled[keys], causal)[0].sum()
    product = 2 * BLOCK**2 * (model.d_k + model.d_v) / 2
    return float(tiles / len(batches)) * model.N * model.h * product * ATTENTION_PRODUCTS


def write(learner: Learner, folder: Path) -> list[Path]:
    """Let Inductor write the code of the step, forward and backward; return its files."""
    batch = learner.text.batch(learner.batches_of(0)[0], CUDA, learner.capacity)
    with writing(folder) as files, FAKE:
        compiled()(learner.model, batch, 0.1, torch.bfloat16)
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--layers", type=int, help="of at most so many")
    parser.add_argument("--compile", action="store_true", help="also compile each kernel")
    args = parser.parse_args()
    learner = learner_of(args.model, args.layers)
    parameters = sum(parameter.numel() for parameter in learner.model.parameters())
    with tempfile.TemporaryDirectory() as folder:
        files = write(learner, Path(folder))
        result = described(files, parameters, attention_flops(learner))
        if args.compile:
            result["compiled"] = compile_kernels(files, Path(folder))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
