"""Attention as attention.json holds it: tokens as a reader sees them, and the weights of all heads, rounded."""

from transformer.config.experiment import EOS, PAD
from transformer.data.subwords import Subwords
from transformer.figures.tokens import names
from transformer.model.overheard import weights
from transformer.model.transformer import Transformer

DIGITS = 3  # of a weight


def describe(model: Transformer, vocabulary: Subwords, source: list[int], target: list[int]) -> dict:
    """Return one pair of sentences as in attention.json: tokens, and the weights of all layers and heads, rounded.

    "shifted" are the tokens that the decoder reads, one behind "target", which it writes.
    """
    target = [*target, EOS]
    return {
        "source": names(vocabulary, source),
        "target": names(vocabulary, target),
        "shifted": names(vocabulary, [PAD, *target[:-1]]),
        **{kind: rounded(of_kind.tolist()) for kind, of_kind in weights(model, source, target).items()},
    }


def rounded(values: list | float) -> list | float:
    """Round nested lists of numbers. Most are zero: they are written as 0, which is shorter than 0.0 on a page."""
    return [rounded(value) for value in values] if isinstance(values, list) else round(values, DIGITS) or 0
