"""The interface for an architecture: a model of a few lines trains, scores and translates; heads are refused."""

import pytest
import torch
from msgspec.structs import replace
from support.toy import CPU, DECODING, ROWS, TEXT, logits, make_experiment, start, train
from torch import nn

from transformer.config.experiment import EOS, PAD
from transformer.layout import Run
from transformer.model.seq2seq import Seq2Seq
from transformer.model.transformer import attention_weights
from transformer.model.weights import load_model
from transformer.storage.files import InputError
from transformer.translation.translator import search

pytestmark = pytest.mark.usefixtures("on_the_processor")


class Bag(Seq2Seq):
    """A model with the last target token's row plus the mean of the source's rows as output."""

    def __init__(self, config):
        super().__init__(config)
        self.rows = nn.Parameter(torch.randn(config.embedding_rows, config.d_model))

    def encode(self, source):
        return self.rows[source.ids]

    def decode(self, target, memory, source):
        grid = source.to_grid(memory).mean(dim=1, keepdim=True)  # includes padding
        return self.rows[target.ids] + target.from_grid(grid.expand(-1, target.shape[1], -1))

    def output_weight(self):
        return self.rows

    def incremental(self):
        return lambda source, vocabulary: Steps(self, source.to_grid(self.encode(source)).mean(dim=1), vocabulary)

    def flops(self, lengths):
        return 6.0 * self.rows.numel() * lengths.target


class Steps:
    """The decoder of a Bag for beam search."""

    def __init__(self, model, mean, vocabulary):
        self.model, self.mean, self.vocabulary = model, mean[:, None], vocabulary

    def step(self, tokens):
        scores = ((self.model.rows[tokens] + self.mean) @ self.model.rows.T).log_softmax(dim=2)[..., : self.vocabulary]
        scores[..., PAD] = -torch.inf
        return scores

    def select(self, sentences, parents):
        self.mean = self.mean[sentences]


def test_another_architecture_trains_and_translates(tmp_path, monkeypatch):
    for module in ("training.step", "model.weights"):
        monkeypatch.setattr(f"transformer.{module}.build", Bag)
    run = start(tmp_path, make_experiment())
    before = run.learner.model.rows.detach().clone()
    progress = train(run)
    assert progress.dev_perplexity > 1
    assert progress.flops == 6 * before.numel() * progress.target_tokens
    model = load_model(Run(tmp_path).checkpoint(8), run.experiment.model)
    assert not torch.equal(model.rows, before)
    assert (model.parameter_count(), model.device) == (before.numel(), CPU)
    sentence = TEXT.source[3].tolist()
    (((ids, _),),) = search(model, ROWS, [sentence], replace(DECODING, beam_size=1))
    assert (logits(model, sentence, ids)[:-1, 1:].argmax(dim=1) + 1).tolist() == ids
    with pytest.raises(InputError, match=r"^attention heads: expected a Transformer, found the architecture Bag$"):
        attention_weights(model, sentence, [*ids, EOS])
