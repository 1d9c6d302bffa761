"""A trained model in CTranslate2: its weights in that library's layout, and translating with it, on the processor.

The exported model computes the same. Where the layout is narrower, the weights are rearranged: heads are as wide as the
wider of d_k and d_v, padded with zeros, what is added to the source's embedding at every position is added to the
encoder's position table, and a model without positions has a table of zeros.

The search is CTranslate2's own, and differs from search.py in three ways. It stops once PATIENCE times as many
hypotheses have ended as the beam is wide; ours goes on until no alive one can win. A hypothesis ends only among the
`beam` best continuations; ours looks at twice as many, but for a beam of one, which is greedy in both. And
probabilities are normalised over the tokens that may be written; ours over all rows of the embedding.
"""

import os
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from transformer.config.experiment import EOS, PAD, UNK, Decoding, load
from transformer.data.subwords import Subwords
from transformer.files import InputError
from transformer.model.attention import CrossAttention, SelfAttention
from transformer.model.packed import POSITIONS
from transformer.model.transformer import LAYER_NORM_EPSILON, Transformer
from transformer.translation.layout import (
    position_tables,
    refuse_foreign,
    token_names,
    widened,
    widened_output,
)
from transformer.translation.search import length_penalty

Spec = Any  # a layer of ctranslate2.specs
# CTranslate2's default is 1, which is faster by some percent; then a few short hypotheses may end the search before the
# best one. Of 500 sentences of the demo, its big model translates 9 differently from the search here with 1, and 3 with
# 1.5, 2 or 4; of 1,014 of Multi30k, a base model after 1,000 steps 8 and 6.
PATIENCE = 1.5


def import_ctranslate2() -> ModuleType:
    """Return the library. Raises InputError where it cannot be imported.

    It multiplies with Intel's MKL, unless the environment says otherwise. By itself it does so on Intel's processors
    alone; on one of AMD's without AVX-512, the other library's 8-bit products were wrong by most of their size.
    """
    os.environ.setdefault("CT2_USE_MKL", "1")
    try:
        import ctranslate2
    except ImportError as error:
        raise InputError(f"CTranslate2: expected it installed, found: {error}") from None
    return ctranslate2


# Translating ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CTranslate2:
    """An exported model, whose method `search` takes the place of `translator.search`.

    source, target: the names of the token ids on each side. vocabulary: how many of them are subwords.
    """

    translator: Any  # ctranslate2.Translator
    source: list[str]
    target: list[str]
    vocabulary: int
    patience: float = PATIENCE

    def search(self, sentences: list[list[int]], decoding: Decoding) -> list[tuple[list[int], float]]:
        """Turn token ids into token ids, without EOS, and a score: log-probability over length penalty (search.py)."""
        limits = [min(len(sentence) + decoding.extra_length, POSITIONS) for sentence in sentences]
        results = self.hypotheses(sentences, max(limits, default=1), decoding)
        # A call has one limit. A sentence with a hypothesis beyond its own limit is searched again with that limit.
        too_long = [i for i, result in enumerate(results) if max(len(ids) for ids, _ in result) > limits[i]]
        for limit, group in groupby(sorted(too_long, key=limits.__getitem__), key=limits.__getitem__):
            indices = list(group)
            shorter = self.hypotheses([sentences[i] for i in indices], limit, decoding)
            for i, result in zip(indices, shorter, strict=True):
                results[i] = result
        best = [max(result, key=lambda hypothesis: (hypothesis[0][-1] == EOS, hypothesis[1])) for result in results]
        return [([token for token in ids if token != EOS], score) for ids, score in best]

    @property
    def never(self) -> list[list[str]]:
        """The tokens that may not be written, each as a sequence."""
        return [[name] for name in (self.target[PAD], *self.target[self.vocabulary :])]

    def hypotheses(
        self, sentences: list[list[int]], limit: int, decoding: Decoding
    ) -> list[list[tuple[list[int], float]]]:
        """Return several hypotheses for each sentence, with EOS if they ended within the limit, and their scores."""
        results = self.translator.translate_batch(
            [[self.source[token] for token in sentence] for sentence in sentences],
            beam_size=decoding.beam,
            patience=self.patience,
            num_hypotheses=round(self.patience * decoding.beam) if decoding.beam > 1 else 1,
            length_penalty=decoding.alpha,
            suppress_sequences=self.never,
            return_end_token=True,
            return_scores=True,
            max_input_length=0,
            min_decoding_length=0,
            max_decoding_length=limit,
            max_batch_size=decoding.batch_tokens,
            batch_type="tokens",
        )
        ids, alpha = {name: token for token, name in enumerate(self.target)}, decoding.alpha
        return [
            [  # CTranslate2's penalty is length^alpha
                ([ids[name] for name in names], score * len(names) ** alpha / length_penalty(len(names), alpha))
                for names, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in results
        ]


def open_ctranslate2(folder: Path, compute_type: str, threads: int) -> CTranslate2:
    """Open the model that an export left in `folder`. compute_type: "float32", "int8" or another that is supported.

    Raises InputError where it is not supported on this processor, and where there is no such model.
    """
    config, vocabulary = load(folder / "experiment.yaml").model, Subwords(folder / "vocabulary.model")
    library = import_ctranslate2()
    if not (folder / "model.bin").is_file():
        raise InputError(f"{folder / 'model.bin'}: no such file; `export --format ctranslate2` writes it")
    supported = library.get_supported_compute_types("cpu")
    if compute_type not in supported:
        raise InputError(f"compute type: expected one of {', '.join(sorted(supported))}, found {compute_type!r}")
    try:
        translator = library.Translator(str(folder), compute_type=compute_type, inter_threads=threads, intra_threads=1)
    except (RuntimeError, ValueError) as error:
        problem = f"CTranslate2 cannot read it: {' '.join(str(error).split())}"
        raise InputError(f"{folder / 'model.bin'}: {problem}") from None
    names = (token_names(vocabulary, rows) for rows in (config.embedding_rows, config.output_rows))
    return CTranslate2(translator, *names, len(vocabulary))


# Exporting ------------------------------------------------------------------------------------------------------------


def save_ctranslate2(model: Transformer, vocabulary: Subwords, folder: Path) -> None:
    """Write model.bin, config.json and the vocabulary into an existing folder, in float32.

    Raises InputError on what CTranslate2 does not have: a parser, positions "words", a model without residuals, and
    additive attention.
    """
    refuse_foreign("CTranslate2", model.config, vocabulary)
    spec = specify(model, vocabulary)
    spec.validate()
    spec.optimize()
    spec.save(str(folder))


@torch.no_grad()
def specify(model: Transformer, vocabulary: Subwords) -> Spec:
    """Return the model as a ctranslate2.specs.TransformerSpec."""
    config, pre_norm = model.config, model.config.norm == "pre"
    spec = import_ctranslate2().specs.TransformerSpec.from_config(config.N, config.h, pre_norm=pre_norm)
    spec.config.layer_norm_epsilon = LAYER_NORM_EPSILON
    spec.register_source_vocabulary(token_names(vocabulary, config.embedding_rows))
    spec.register_target_vocabulary(token_names(vocabulary, config.output_rows))
    for key, token in {"unk": UNK, "bos": PAD, "eos": EOS, "decoder_start": PAD}.items():
        setattr(spec.config, f"{key}_token", vocabulary.processor.id_to_piece(token))
    set_embeddings(spec, model)
    for part, layer in zip(spec.encoder.layer, model.encoder, strict=True):
        set_self_attention(part.self_attention, layer.self_attention, layer.residuals[0].norm)
        set_feed_forward(part.ffn, layer)
    for part, layer in zip(spec.decoder.layer, model.decoder, strict=True):
        set_self_attention(part.self_attention, layer.self_attention, layer.residuals[0].norm)
        set_cross_attention(part.attention, layer.cross_attention, layer.residuals[1].norm)
        set_feed_forward(part.ffn, layer)
    if pre_norm:
        set_norm(spec.encoder.layer_norm, model.encoder_norm)
        set_norm(spec.decoder.layer_norm, model.decoder_norm)
    return spec


def set_embeddings(spec: Spec, model: Transformer) -> None:
    """Set §3.4 and §3.5. PAD is a zero vector where it starts the decoder, and occurs nowhere else."""
    tables = position_tables(model)
    spec.encoder.position_encodings.encodings, spec.decoder.position_encodings.encodings = tables
    spec.encoder.embeddings[0].weight = model.embedding.weight
    spec.decoder.embeddings.weight = model.target_embedding.output_weight()
    spec.decoder.projection.weight = model.output_weight()
    spec.decoder.start_from_zero_embedding = True


def set_self_attention(spec: Spec, layer: SelfAttention, norm: nn.LayerNorm) -> None:
    set_linear(spec.linear[0], *widened(layer.query_key_value, layer.widths, layer.h, width(layer)))
    set_output(spec, layer, norm)


def set_cross_attention(spec: Spec, layer: CrossAttention, norm: nn.LayerNorm) -> None:
    set_linear(spec.linear[0], *widened(layer.query, layer.widths[:1], layer.h, width(layer)))
    set_linear(spec.linear[1], *widened(layer.key_value, layer.widths, layer.h, width(layer)))
    set_output(spec, layer, norm)


def set_output(spec: Spec, layer: SelfAttention | CrossAttention, norm: nn.LayerNorm) -> None:
    """Set W^O. The scale stays the layer's."""
    set_linear(spec.linear[-1], widened_output(layer, width(layer)), layer.output.bias)
    spec.queries_scale = layer.scale
    set_norm(spec.layer_norm, norm)


def set_feed_forward(spec: Spec, layer: nn.Module) -> None:
    inner, outer = layer.feed_forward.inner, layer.feed_forward.outer
    set_linear(spec.linear_0, inner.weight, inner.bias)
    set_linear(spec.linear_1, outer.weight, outer.bias)
    set_norm(spec.layer_norm, layer.residuals[-1].norm)


def width(layer: SelfAttention | CrossAttention) -> int:
    """Return the width of a head in CTranslate2, which has one for queries, keys and values."""
    return max(layer.d_k, layer.d_v)


def set_linear(spec: Spec, weight: Tensor, bias: Tensor) -> None:
    spec.weight, spec.bias = weight, bias


def set_norm(spec: Spec, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = norm.weight, norm.bias
