"""`fidelity`: where the paper's words and its authors' code part, one of two named readings.

Their code is tensor2tensor as it was first published, three days after the paper. A preset's values become fields of
`config.Model`. A name never changes its meaning: another reading gets another name.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from transformer.common.files import InputError


@dataclass(frozen=True)
class Preset:
    """What a reading says of the model."""

    sinusoids: str = field(
        metadata={
            "meaning": "Sine and cosine of pos / 10000^(2i/d_model) in turn (interleaved), or all sines, then all "
            "cosines of pos / 10000^(i/(d_model/2 - 1)) (concatenated).",
            "source": "§3.5; the code's add_timing_signal_1d",
        }
    )
    target_spaces: int = field(
        metadata={
            "meaning": "Rows of a learned table, of which the one for the target's language is added to every position "
            "of the encoder's input.",
            "source": "not in the paper; the code's target_space_embedding",
        }
    )


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "paper-text": Preset(sinusoids="interleaved", target_spaces=0),
        "paper-code": Preset(sinusoids="concatenated", target_spaces=32),
    }
)

# What both presets have of the code, which says the same as the paper or speaks where the paper is silent.
SAME = {
    "normalisation": "LayerNorm(x + Dropout(Sublayer(x))), epsilon 1e-6, none after the last layer",
    "dropout": "on sub-layer outputs and embedding sums; none on attention weights or within the feed-forward",
    "attention": "biases in all projections; -1e9 there and -inf here are both a weight of zero",
    "embedding": "one matrix for source, target and softmax, times sqrt(d_model), N(0, 1/d_model), padding zero",
    "embedding rows": "40,960 for English-German, which config.yaml says",
    "initialisation": "Glorot uniform, over the fused query-key-value and key-value matrices; biases zero",
    "decoder start": "a zero vector",
    "learning rate": "their constants 5000, 0.1 and 1/500 multiply to 1: equation 3, from step 1",
    "label smoothing": "epsilon/(V - 1) to each wrong row; a constant taken off the printed loss has no gradient",
    "loss scale": "their factor 1.4 for byte pairs, which Adam divides out",
    "perplexity": "of the loss without smoothing, per subword, end of sentence included",
    "beam search": "beam 4, alpha 0.6, lengths with the end of sentence, at most 50 tokens longer than the input",
}

# What the code had and no preset has.
NOT_IMITATED = {
    "batches": "8 GPUs of 4,096 positions, padded, in buckets by the longer side; here the 25,000 + 25,000 of §5.1",
    "long pairs": "no training pair of over 256 subwords; here none of over 80 words, none of over 1,024 subwords",
    "data": "News Commentary v11, no normalised punctuation, subword-nmt; English-French raw, in word pieces",
    "precision": "float32; here products in bfloat16 where the hardware is faster at it",
    "Adam's epsilon": "added before the bias correction, here after: it differs where gradients are near 1e-9",
    "checkpoints": "every ten minutes of the clock; here every so many steps",
    "output limit": "50 tokens over the longest input of the batch; here over the sentence's own",
    "big for French": "d_ff 8192, and a softmax matrix of its own; the paper has neither",
    "parsing": "6 layers, where the paper has 4; a matrix for each side, here one with other rows for each",
}


class Difference(NamedTuple):
    """A setting that two presets have different values of."""

    setting: str
    one: Any
    other: Any
    meaning: str
    source: str


def preset(name: str) -> Preset:
    """The preset of that name. Raises InputError when there is none."""
    if name not in PRESETS:
        raise InputError(f"fidelity: expected {' or '.join(PRESETS)}, found {name!r}")
    return PRESETS[name]


def differences(one: str, other: str) -> list[Difference]:
    """What the second preset changes of the first. Raises InputError on an unknown name."""
    first, second = preset(one), preset(other)
    pairs = [(f, getattr(first, f.name), getattr(second, f.name)) for f in dataclasses.fields(Preset)]
    return [Difference(f.name, a, b, f.metadata["meaning"], f.metadata["source"]) for f, a, b in pairs if a != b]
