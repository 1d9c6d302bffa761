"""`fidelity`: where the paper's words and its authors' code part, one of two named readings.

docs/text-or-code.md says what else their code does, and which of that neither reading has. A preset's values become
fields of `Model`. A name never changes its meaning: another reading gets another name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from transformer.files import InputError


@dataclass(frozen=True)
class Preset:
    """A reading of what the paper says of the model."""

    sinusoids: str  # §3.5: sine and cosine in turn, or all sines and then all cosines
    target_spaces: int  # rows of a learned table, one of which, the target language's, is added to the encoder's input


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "paper-text": Preset(sinusoids="interleaved", target_spaces=0),
        "paper-code": Preset(sinusoids="concatenated", target_spaces=32),
    }
)


def preset(name: str) -> Preset:
    """Return the preset of that name. Raises InputError when there is none."""
    if name not in PRESETS:
        raise InputError(f"fidelity: expected {' or '.join(PRESETS)}, found {name!r}")
    return PRESETS[name]
