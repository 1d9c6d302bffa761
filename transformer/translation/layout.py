"""Parts that the models of other libraries have in common: names of rows, position tables, heads of another width."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.config.experiment import Model
from transformer.data.subwords import UNUSED, Subwords
from transformer.files import InputError
from transformer.model.attention import CrossAttention, SelfAttention
from transformer.model.packed import POSITIONS
from transformer.model.transformer import TARGET_SPACE, Embedding, Transformer


def refuse_foreign(library: str, config: Model, vocabulary: Subwords) -> None:
    """Raise InputError on what no library has: a parser, positions "words", no residuals, additive attention."""
    if vocabulary.symbols:
        raise InputError(f"{library}: expected a translator, found a parser")
    if config.positions == "words":
        raise InputError(f"{library}: expected positions sinusoid, learned or none, found 'words'")
    if not config.residual:
        raise InputError(f"{library}: expected residual true, found false")
    if config.attention != "dot":
        raise InputError(f"{library}: expected attention dot, found {config.attention!r}")


def token_names(vocabulary: Subwords, rows: int) -> list[str]:
    """Return the name of each row of an embedding: a subword, or `unused N`, which no text contains."""
    pieces = vocabulary.pieces[:rows]
    return pieces + [UNUSED.format(row) for row in range(len(pieces), rows)]


def position_tables(model: Transformer) -> tuple[Tensor, Tensor]:
    """Return what is added at each position of the source and of the target, tensors of their own.

    Both are [POSITIONS, d_model]. The row of the target language, which every source token gets, is in the first.
    """
    source, target = position_table(model.embedding), position_table(model.target_embedding)
    return source if model.target_spaces is None else source + model.target_spaces[TARGET_SPACE], target


def position_table(embedding: Embedding) -> Tensor:
    table = embedding.position_table
    return torch.zeros(POSITIONS, embedding.weight.shape[1]) if table is None else table.clone()


def widened(linear: nn.Linear, widths: list[int], h: int, width: int) -> tuple[Tensor, Tensor]:
    """Return weight and bias of a projection with outputs `widths` side by side, each of h heads zero-padded."""
    rows = torch.cat([linear.weight, linear.bias[:, None]], dim=1)
    heads = [part.unflatten(0, (h, -1)) for part in rows.split(widths)]
    wide = torch.cat([F.pad(head, (0, 0, 0, width - head.shape[1])).flatten(0, 1) for head in heads])
    return wide[:, :-1], wide[:, -1]


def widened_output(layer: SelfAttention | CrossAttention, width: int) -> Tensor:
    """Return the weight of W^O with new columns where heads are padded with zeros."""
    columns = layer.output.weight.unflatten(1, (layer.h, layer.d_v))
    return F.pad(columns, (0, width - layer.d_v)).flatten(1)
