"""Tokens as a reader of the attention figures sees them."""

import html

from transformer.config.experiment import EOS, PAD
from transformer.data.subwords import SPACE, Subwords

CONTINUED = "@@"  # ends a token whose word goes on in the next
NAMES = {EOS: "<EOS>", PAD: "<start>"}  # the decoder starts from PAD


def names(vocabulary: Subwords, ids: list[int]) -> list[str]:
    """Return the tokens without Moses' escapes, and ending in @@ where the word goes on."""
    pieces = [NAMES.get(token) or vocabulary.processor.id_to_piece(token) for token in ids]
    begins = [token in NAMES or piece.startswith(SPACE) for token, piece in zip(ids, pieces, strict=True)]
    return [
        html.unescape(piece.removeprefix(SPACE)) + ("" if next_begins or token in NAMES else CONTINUED)
        for token, piece, next_begins in zip(ids, pieces, [*begins[1:], True], strict=True)
    ]
