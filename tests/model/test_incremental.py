"""Cached steps against the full decoder, with each value of each option of the model, and for each baseline."""

from functools import partial

import msgspec
import numpy as np
import pytest
import torch
from msgspec import structs
from support.toy import BASELINES, logits, model_config, packed, random_baseline, random_model, random_sentences

from transformer.config.experiment import PAD, Model
from transformer.model.incremental import CACHE_BLOCK

VOCABULARY = 31  # subwords; the embedding has ROWS rows
KEYS = msgspec.json.schema(Model)["$defs"]["Model"]["properties"]
CHOICES = {key: node.get("enum", [True, False] * (node.get("type") == "boolean")) for key, node in KEYS.items()}
del CHOICES["architecture"]  # BASELINES has the others
DEFAULTS = structs.asdict(model_config())
VARIANTS = [{}, {"h": 1, "N": 1}]
VARIANTS += [{key: value} for key, values in CHOICES.items() for value in values if value != DEFAULTS[key]]
MODELS = {str(changes): partial(random_model, 2, **changes) for changes in VARIANTS}
MODELS |= {name: partial(random_baseline, name) for name in BASELINES}


def check(log_p, model, sentences, prefixes):
    """Check that `log_p` [B, K, VOCABULARY] equals the full decoder's for each sentence's K prefixes, without PAD."""
    assert log_p.shape == (len(sentences), len(prefixes[0]), VOCABULARY)
    for row, (sentence, hypotheses) in enumerate(zip(sentences, prefixes, strict=True)):
        for column, prefix in enumerate(hypotheses):
            expected = logits(model, sentence, prefix[1:])[-1].log_softmax(dim=0)[:VOCABULARY]
            expected[PAD] = -torch.inf
            torch.testing.assert_close(log_p[row, column], expected, rtol=1e-4, atol=1e-4)


def extend(prefixes, tokens):
    return [
        [[*prefix, token] for prefix, token in zip(hypotheses, row, strict=True)]
        for hypotheses, row in zip(prefixes, tokens.tolist(), strict=True)
    ]


def select(prefixes, sentences, parents):
    pairs = zip(sentences, parents.tolist(), strict=True)
    return [[prefixes[sentence][parent] for parent in row] for sentence, row in pairs]


@pytest.mark.parametrize("build", MODELS.values(), ids=MODELS)
@torch.inference_mode()
def test_steps_equal_the_full_decoder(build):
    """Hypotheses move, are copied and dropped. The beam changes its width, and the longest sentence leaves."""
    model, sentences, random = build(), random_sentences(3, 4, longest=9), np.random.default_rng(1)
    decoder = model.incremental()(packed(sentences), VOCABULARY)
    prefixes, tokens = [[[]]] * 4, torch.full((4, 1), PAD)
    for kept, K in (([0, 1, 2, 3], 5), ([0, 2, 3], 3), ([1, 2], 20), ([0, 1], 1), ([0, 1], 3), ([1], 3), ([0], 2)):
        prefixes = extend(prefixes, tokens)
        check(decoder.step(tokens), model, sentences, prefixes)
        parents = random.integers(tokens.shape[1], size=(len(kept), K))
        decoder.select(np.array(kept), parents)
        sentences, prefixes = [sentences[index] for index in kept], select(prefixes, kept, parents)
        tokens = torch.from_numpy(random.integers(PAD + 1, VOCABULARY, (len(kept), K)))


@torch.inference_mode()
def test_unused_slots_of_the_cache_are_reused():
    """All hypotheses but one end every few steps. The cache then holds only the slots of the others."""
    model, sentences, random = random_model(3), random_sentences(4, 2), np.random.default_rng(5)
    steps, K = 3 * CACHE_BLOCK, 3
    decoder, prefixes = model.incremental()(packed(sentences), VOCABULARY), [[[]] * K] * 2
    tokens = torch.full((2, K), PAD)
    for step in range(steps):
        prefixes = extend(prefixes, tokens)
        log_p = decoder.step(tokens)
        if step % 6 == 0:
            check(log_p, model, sentences, prefixes)
        parents = random.integers(K if step % 6 else 1, size=(2, K))
        decoder.select(np.arange(2), parents)
        prefixes = select(prefixes, range(2), parents)
        tokens = torch.from_numpy(random.integers(PAD + 1, VOCABULARY, (2, K)))
    assert decoder.past[0][1].shape[2] <= steps + 6 * K + CACHE_BLOCK < steps * K
