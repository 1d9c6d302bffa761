"""Print what fills up a GPU's batches, and how long it takes to plan them, for as many pairs as WMT 2014 has.

PYTHONPATH=. python tests/gpu/filler.py
PYTHONPATH=. python tests/gpu/filler.py --pairs 36000000 --tokens 25000
"""

import argparse
import json
import time

import numpy as np

from benchmarks.workload import random_lengths
from transformer.model.packed import sizes
from transformer.training.batches import plan


def filled(lengths: np.ndarray, batches: list[np.ndarray]) -> dict:
    """Return the size of a filled batch, and the share of its positions that are filler, on average of the batches."""
    tokens = np.stack([lengths[:, batch].sum(axis=1) for batch in batches])
    size = sizes(lengths[:, batches[0]], tuple(tokens.max(axis=0)))
    return {"size": size.tolist(), "filler": round(float(1 - tokens.mean(axis=0).sum() / size.sum()), 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=4_500_000)
    parser.add_argument("--tokens", type=int, default=25_000, help="that a batch has on either side")
    args = parser.parse_args()
    lengths = random_lengths(np.random.default_rng(1), args.pairs)
    before = time.process_time()
    batches = plan(1, 0, lengths, (args.tokens, args.tokens))
    seconds = round(time.process_time() - before, 1)
    print(json.dumps({"batches": len(batches), "plan_seconds": seconds, **filled(lengths, batches)}))


if __name__ == "__main__":
    main()
