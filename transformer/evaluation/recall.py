"""§4: are long-range dependencies easier to learn where paths are short? Associative recall by distance.

A sequence has four pairs of a key and a value between filler tokens. It ends with one of the keys, the question, n
tokens after its pair. The encoders of the architectures predict the value. Each encoder learns all distances together.
"""

from time import perf_counter
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from msgspec.structs import asdict
from torch import Tensor

from transformer.config.experiment import UNK, Model
from transformer.config.scales import set_keys
from transformer.config.schema import Recall
from transformer.model.architectures import build
from transformer.model.packed import collate
from transformer.model.seq2seq import Seq2Seq
from transformer.storage import provenance

PER_KIND = 16  # number of keys, of values and of filler tokens; their ids follow the special tokens in this order
KEYS, VALUES, FILLER = (UNK + 1 + PER_KIND * kind for kind in range(3))
ROWS = FILLER + PER_KIND
_PAIRS, _BEFORE = 4, 8  # pairs in a sequence; maximum number of positions before the tested pair
_WARMUP = 100  # steps with a rising learning rate
_CPU = torch.device("cpu")
# Differences from the models of config.yaml: there is no dropout, because no sequence is repeated.
_COMMON = {"P_drop": 0.0, "embedding_rows": ROWS, "output_rows": ROWS}
_TRANSFORMER = {"P_drop_attention": 0.0, "positions": "sinusoid", "sinusoids": "interleaved", "target_spaces": 0}


def measure_recall(settings: Recall) -> dict[str, Any]:
    """Train the encoder of each architecture with each seed, and measure its accuracy at each distance."""
    torch.set_num_threads(1)
    models = [_learn(name, seed, settings) for name in settings.models for seed in settings.seeds]
    return {
        "models": models,
        "settings": asdict(settings) | {"models": {name: set_keys(row) for name, row in settings.models.items()}},
        "chance": 1 / PER_KIND,
        "hardware": provenance.hardware(_CPU),
        "versions": provenance.versions(),
        "commit": provenance.commit(),
        "date": provenance.now(),
    }


def draw_sequences(random: np.random.Generator, count: int, distance: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw sequences with `distance` tokens, an even number, between pair and question: ids [count, n], values [count].

    No other pair of a sequence has the key of its question.
    """
    before = int(random.integers(1, _BEFORE + 1))  # random, because a fixed position would reveal the answer
    places = before + 1 + distance // 2  # of pairs
    ids = random.integers(FILLER, ROWS, (count, 2 * places + 1))
    keys = random.permuted(np.tile(np.arange(PER_KIND), (count, 1)), axis=1)[:, :_PAIRS]
    others = np.delete(np.arange(places), before)
    others = random.permuted(np.tile(others, (count, 1)), axis=1)[:, : _PAIRS - 1]
    at = np.concatenate([np.full((count, 1), before), others], axis=1)
    values = random.integers(PER_KIND, size=(count, _PAIRS))
    np.put_along_axis(ids, 2 * at, KEYS + keys, axis=1)
    np.put_along_axis(ids, 2 * at + 1, VALUES + values, axis=1)
    ids[:, -1] = KEYS + keys[:, 0]
    return ids, values[:, 0]


def model_of(name: str, settings: Recall) -> Model:
    own = _TRANSFORMER if name == "transformer" else {}
    sizes = {key: value for key, value in set_keys(settings.models[name]).items() if key != "learning_rate_scale"}
    return Model(architecture=name, **_COMMON, **own, **sizes)


def _learn(name: str, seed: int, settings: Recall) -> dict[str, Any]:
    """Train one encoder for the same number of steps at each distance, in random order. Test it on new sequences."""
    started, random = perf_counter(), np.random.default_rng(seed)
    torch.manual_seed(seed)
    model = build(model_of(name, settings))
    peak = settings.learning_rate * set_keys(settings.models[name]).get("learning_rate_scale", 1.0)
    adam = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    distances = random.permutation(np.resize(settings.distances, settings.steps))
    for step, distance in enumerate(distances, 1):
        rising, falling = step / _WARMUP, (settings.steps - step + 1) / (settings.steps - _WARMUP)
        adam.param_groups[0]["lr"] = peak * min(1.0, rising, falling)
        ids, values = draw_sequences(random, settings.sequences, int(distance))
        adam.zero_grad()
        F.cross_entropy(_answers(model, ids), torch.from_numpy(values)).backward()
        adam.step()
    used = sum(x.numel() for key, x in model.named_parameters() if x.grad is not None and "position_table" not in key)
    seconds, random = perf_counter() - started, np.random.default_rng((seed, 1))
    tests = {distance: draw_sequences(random, settings.tested, distance) for distance in settings.distances}
    accuracy = {str(distance): _accuracy(model, *test) for distance, test in tests.items()}
    return {"architecture": name, "seed": seed, "parameters": used, "accuracy": accuracy, "seconds": seconds}


@torch.inference_mode()
def _accuracy(model: Seq2Seq, ids: np.ndarray, values: np.ndarray) -> float:
    found = [_answers(model, part).argmax(dim=1).numpy() for part in np.array_split(ids, max(1, len(ids) // 50))]
    return float((np.concatenate(found) == values).mean())


def _answers(model: Seq2Seq, ids: np.ndarray) -> Tensor:
    """Return the scores of all values at the last token of each sequence: [sequences, PER_KIND]."""
    count, n = ids.shape
    memory = model.encode(collate(ids.reshape(-1).astype(np.int64), np.full(count, n), _CPU))
    last = memory.view(count, n, -1)[:, -1, : model.config.d_model]  # only the keys
    return last @ model.output_weight()[VALUES : VALUES + PER_KIND].T
