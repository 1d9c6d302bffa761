"""Dev scores against an independent greedy search and PyTorch's cross-entropy; two processes share the work."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from sacrebleu.metrics import BLEU
from support.toy import ALONE, ROWS, logits, make_vocabulary, random_text, varied_model

from transformer.config.experiment import EOS, PAD
from transformer.data.corpus import Subwords
from transformer.training.validation import Evaluation

SENTENCES = 30


@pytest.fixture
def evaluation(tmp_path) -> Evaluation:
    vocabulary = Subwords(make_vocabulary(tmp_path / "vocabulary.model", size=ROWS - 9))
    return Evaluation(random_text(1, 50, ids=len(vocabulary)), vocabulary, (60, 60), SENTENCES, ALONE)


def greedy(model, source: list[int], size: int) -> list[int]:
    """Translate by the likeliest token each time, with the whole decoder."""
    ids = []
    while len(ids) < len(source) + 50 and EOS not in ids:
        row = logits(model, source, ids)[-1, :size]
        row[PAD] = -torch.inf
        ids.append(int(row.argmax()))
    return [token for token in ids if token != EOS]


def test_bleu_is_that_of_an_independent_search(evaluation):
    model, dev, vocabulary = varied_model(), evaluation.dev, evaluation.vocabulary
    hypotheses = [greedy(model, dev.source[i].tolist(), len(vocabulary)) for i in range(SENTENCES)]
    searched = []
    world = type("Two", (), {"rank": 0, "size": 2, "gather": lambda _, pairs: searched.extend(pairs) or [pairs]})
    for rank in (0, 1):
        other = replace(evaluation, world=world())
        other.world.rank = rank
        other.bleu(model)
    translations = [ids for rank in (slice(0, None, 2), slice(1, None, 2)) for ids in hypotheses[rank]]
    assert [pair[0] for pair in searched] == translations
    references = vocabulary.decode([dev.target[i].tolist() for i in range(SENTENCES)])
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    expected = metric.corpus_score(vocabulary.decode(hypotheses), [references]).score
    assert evaluation.bleu(model) == pytest.approx(expected)


def test_perplexity_is_that_of_whole_logits(evaluation):
    model, dev = varied_model(), evaluation.dev
    total = 0.0
    for source, target in zip(dev.source, dev.target, strict=True):
        rows = logits(model, source.tolist(), target[:-1].tolist())
        total += F.cross_entropy(rows, torch.tensor(target.astype(int)), reduction="sum").item()
    expected = torch.tensor(total / dev.lengths[1].sum()).exp().item()
    assert evaluation.perplexity(model, torch.float32) == pytest.approx(expected, rel=1e-5)
