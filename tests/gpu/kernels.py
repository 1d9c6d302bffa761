"""Let Inductor write a training step's CUDA code for an H200, without one, and print as JSON what it launches there.

export PRETEND=pretend.so PYTHONPATH=.:tests:.triton  # as trace.py; .ci/run says how .triton is made
python tests/gpu/kernels.py base            # launches, and the sizes of attention's tiles
python tests/gpu/kernels.py base --compile  # also each Triton kernel, by ptxas: minutes
"""

import argparse
import json
import re
import tempfile
from collections import Counter
from pathlib import Path

from trace import CUDA, FAKE, learner_of  # isort: skip (before torch)

import torch
from support.inductor import compile_kernels, writing

from transformer.training.loss import compiled

KINDS = {  # lines of Inductor's code; _addmm_activation is a product that ends with ReLU
    "attention": r"\s+triton_\w*_tem_\w*\.run\(",
    "elementwise": r"\s+triton_\w+\.run\(",
    "products": r"\s+(extern_kernels\.(add)?mm|\w+ = torch\.ops\.aten\._addmm_activation\.default)\(",
    "others": r"\s+(\w+ = torch\.ops\.|extern_kernels\.)",
}
TILE = r"(?:SPARSE_(?:Q|KV)_BLOCK_SIZE|BLOCK_[MN]\d?) : tl\.constexpr = (\d+)"


def launches(code: str) -> Counter:
    """Count the kernels that a graph's code launches, by kind."""
    lines = code[code.index("def call(") :].splitlines()
    kinds = (next((kind for kind, words in KINDS.items() if re.match(words, line)), None) for line in lines)
    return Counter(filter(None, kinds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--layers", type=int, help="of at most so many")
    parser.add_argument("--compile", action="store_true", help="also compile each kernel")
    args = parser.parse_args()
    learner = learner_of(args.model, args.layers)
    with tempfile.TemporaryDirectory() as folder:
        batch = learner.text.batch(learner.batches_of(0)[0], CUDA, learner.capacity)
        with writing(Path(folder)) as files, FAKE:
            compiled()(learner.model, batch, 0.1, torch.bfloat16)
        codes = [path.read_text("utf-8") for path in files]  # forward and backward
        tiles = sorted({int(found) for code in codes for found in re.findall(TILE, code)})
        result = {"launches": dict(sum(map(launches, codes), Counter())), "tiles": tiles}
        if args.compile:
            result["compiled"] = compile_kernels(files, Path(folder))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
