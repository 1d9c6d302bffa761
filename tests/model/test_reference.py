"""The model compared with the paper's equations in NumPy, token by token and head by head."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from support.toy import ROWS, TABLE_5, model_config, packed, vary_statistics
from torch import nn

from transformer.config.experiment import PAD, Model
from transformer.model.transformer import Transformer

SOURCES, TARGETS = (4, 7, 1, 5), (3, 2, 6, 4)  # lengths of the sentences in a batch
CLOSE = {"atol": 1e-5, "rtol": 0}


def random_transformer(config: Model) -> Transformer:
    """Build a float32 model without dropout. Every bias and gain is random, so that none is zero or one."""
    torch.manual_seed(1)
    model = Transformer(config).eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.2)
    vary_statistics(model)
    return model.requires_grad_(False)


def random_pairs(rows: int = ROWS) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return token ids of sources, and of targets as decoder input with PAD first."""
    random = np.random.default_rng(1)
    sources = [random.integers(PAD + 1, rows, length) for length in SOURCES]
    targets = [np.concatenate([[PAD], random.integers(PAD + 1, rows, length - 1)]) for length in TARGETS]
    return sources, targets


def batch_logits(model: Transformer, sources: list[np.ndarray], targets: list[np.ndarray]) -> torch.Tensor:
    """Return the logits of all targets, one after the other: [n_target, V]."""
    return model(packed(sources), packed(targets)) @ model.output_weight().T


# The equations process one sentence at a time, and compute a token's output only from the tokens that it may attend to.
# These tests therefore also show that later tokens, padding and other sentences do not change an output.

TENSOR2TENSOR = {"sinusoids": "concatenated", "target_spaces": 32}
VARIANTS = {
    "paper-text": {},  # d_k and d_v differ, and h d_v differs from d_model
    "tensor2tensor": TENSOR2TENSOR,
    "one head": {"h": 1},
    "learned positions": {"positions": "learned"},
    "learned positions, tensor2tensor": TENSOR2TENSOR | {"positions": "learned"},
    **TABLE_5,
    "no residual, pre-norm": {"residual": False, "norm": "pre"},
    "additive, one head": {"attention": "additive", "h": 1},
}


@pytest.fixture(params=VARIANTS)
def model(request) -> Transformer:
    return random_transformer(model_config(**VARIANTS[request.param]))


def test_logits_equal_those_of_the_equations(model):
    sources, targets = random_pairs()
    weights = to_numpy(model)
    expected = [logits(weights, model.config, *pair) for pair in zip(sources, targets, strict=True)]
    torch.testing.assert_close(
        batch_logits(model, sources, targets).double(), torch.tensor(np.concatenate(expected)), **CLOSE
    )


Weights = dict[str, np.ndarray]
Vectors = list[np.ndarray]  # one vector per token


def to_numpy(model: Transformer) -> Weights:
    return {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}


def logits(w: Weights, config: Model, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """§3.1: [tokens of target, V]."""
    xs = embed(w, config, source)
    if config.target_spaces:
        xs = [x + w["target_spaces"][9] for x in xs]
    for n in range(config.N):
        xs = encoder_layer(w, config, f"encoder.{n}", xs)
    ys = embed(w, config, target, "embedding" if config.tied else "untied_target")
    if config.norm == "pre":
        xs = [layer_norm(w, "encoder_norm", x) for x in xs]
    for n in range(config.N):
        ys = decoder_layer(w, config, f"decoder.{n}", ys, xs)
    if config.norm == "pre":
        ys = [layer_norm(w, "decoder_norm", y) for y in ys]
    return np.array([[y @ row for row in w["embedding.weight" if config.tied else "untied_output"]] for y in ys])


def embed(w: Weights, config: Model, sentence: np.ndarray, name: str = "embedding") -> Vectors:
    """§3.4 and §3.5."""
    xs = []
    for pos, token in enumerate(sentence):
        x = np.zeros(config.d_model) if token == PAD else math.sqrt(config.d_model) * w[f"{name}.weight"][token]
        xs.append(x + position(w, config, name, pos))
    return xs


def position(w: Weights, config: Model, name: str, pos: int) -> np.ndarray:
    match config.positions:
        case "learned":
            return w[f"{name}.position_table"][pos]
        case "none":
            return np.zeros(config.d_model)
        case "sinusoid":
            return sinusoid(config, pos)


def sinusoid(config: Model, pos: int) -> np.ndarray:
    """§3.5 in the paper's form, or in the form of the authors' code."""
    PE, half = np.zeros(config.d_model), config.d_model // 2
    for i in range(half):
        if config.sinusoids == "interleaved":
            PE[2 * i] = math.sin(pos / 10000 ** (2 * i / config.d_model))
            PE[2 * i + 1] = math.cos(pos / 10000 ** (2 * i / config.d_model))
        else:
            PE[i] = math.sin(pos / 10000 ** (i / (half - 1)))
            PE[half + i] = math.cos(pos / 10000 ** (i / (half - 1)))
    return PE


def encoder_layer(w: Weights, config: Model, name: str, xs: Vectors) -> Vectors:
    """§3.1: LayerNorm(x + Sublayer(x)), twice."""
    xs = around(w, config, f"{name}.residuals.0", xs, partial(self_attended, w, config, name, causal=False))
    return around(w, config, f"{name}.residuals.1", xs, partial(fed_forward, w, name))


def decoder_layer(w: Weights, config: Model, name: str, ys: Vectors, memory: Vectors) -> Vectors:
    """§3.1: LayerNorm(x + Sublayer(x)), three times."""
    ys = around(w, config, f"{name}.residuals.0", ys, partial(self_attended, w, config, name, causal=True))
    ys = around(w, config, f"{name}.residuals.1", ys, partial(cross_attended, w, config, name, memory))
    return around(w, config, f"{name}.residuals.2", ys, partial(fed_forward, w, name))


def around(w: Weights, config: Model, name: str, xs: Vectors, sublayer: Callable[[Vectors], Vectors]) -> Vectors:
    """A sub-layer with its norm and residual, in the paper's form or a form of Table 5."""
    inputs = [layer_norm(w, f"{name}.norm", x) for x in xs] if config.norm == "pre" else xs
    outputs = sublayer(inputs)
    if config.residual:
        outputs = [x + y for x, y in zip(xs, outputs, strict=True)]
    norm = {"post": layer_norm, "batch": batch_norm}.get(config.norm)
    return [norm(w, f"{name}.norm", y) for y in outputs] if norm else outputs


def layer_norm(w: Weights, name: str, x: np.ndarray) -> np.ndarray:
    deviation = math.sqrt(sum((x - x.mean()) ** 2) / len(x) + 1e-6)
    return w[f"{name}.weight"] * (x - x.mean()) / deviation + w[f"{name}.bias"]


def batch_norm(w: Weights, name: str, x: np.ndarray) -> np.ndarray:
    deviations = np.array([math.sqrt(variance + 1e-5) for variance in w[f"{name}.running_var"]])
    return w[f"{name}.weight"] * (x - w[f"{name}.running_mean"]) / deviations + w[f"{name}.bias"]


def fed_forward(w: Weights, name: str, xs: Vectors) -> Vectors:
    """§3.3, equation 2."""
    inner = [linear(w, f"{name}.feed_forward.inner", x) for x in xs]
    return [linear(w, f"{name}.feed_forward.outer", np.array([max(0.0, y) for y in ys])) for ys in inner]


def linear(w: Weights, name: str, x: np.ndarray) -> np.ndarray:
    return w[f"{name}.weight"] @ x + w[f"{name}.bias"]


def self_attended(w: Weights, config: Model, layer: str, xs: Vectors, causal: bool) -> Vectors:
    """§3.2.3. One matrix gives Q, K and V, one after the other."""
    name = f"{layer}.self_attention"
    keys = config.h * config.d_k
    Q, K, V = zip(*(np.split(linear(w, f"{name}.query_key_value", x), [keys, 2 * keys]) for x in xs), strict=True)
    seen = [i + 1 if causal else len(xs) for i in range(len(xs))]
    return [linear(w, f"{name}.output", attend(w, config, name, Q[i], K[:n], V[:n])) for i, n in enumerate(seen)]


def cross_attended(w: Weights, config: Model, layer: str, memory: Vectors, ys: Vectors) -> Vectors:
    """§3.2.3. One matrix gives K and V."""
    name = f"{layer}.cross_attention"
    K, V = zip(*(np.split(linear(w, f"{name}.key_value", x), [config.h * config.d_k]) for x in memory), strict=True)
    return [linear(w, f"{name}.output", attend(w, config, name, linear(w, f"{name}.query", y), K, V)) for y in ys]


def attend(w: Weights, config: Model, name: str, q: np.ndarray, K: Vectors, V: Vectors) -> np.ndarray:
    """§3.2.1 and §3.2.2 for one token: its concatenated heads."""
    heads = []
    for head in range(config.h):
        of_k, of_v = (slice(head * d, (head + 1) * d) for d in (config.d_k, config.d_v))
        if config.attention == "additive":
            scores = [sum(w[f"{name}.additive"][head] * np.tanh(q[of_k] + k[of_k])) for k in K]
        else:
            scores = [q[of_k] @ k[of_k] / (math.sqrt(config.d_k) if config.scaled else 1.0) for k in K]
        e = [math.exp(score) for score in scores]
        heads.append(sum(e_j / sum(e) * v[of_v] for e_j, v in zip(e, V, strict=True)))
    return np.concatenate(heads)
