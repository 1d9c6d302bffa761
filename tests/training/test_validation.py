"""Dev scores, compared with a second greedy search and PyTorch's cross-entropy. Two processes share the work."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from sacrebleu.metrics import BLEU
from support.toy import ALONE, ROWS, greedy, logits, make_experiment, make_vocabulary, random_text, varied_model

from transformer.config.experiment import EOS
from transformer.data.corpus import Subwords
from transformer.training.validation import Evaluation

SENTENCES = 12


@pytest.fixture
def evaluation(tmp_path) -> Evaluation:
    vocabulary = Subwords(make_vocabulary(tmp_path / "vocabulary.model", size=ROWS - 9))
    experiment = make_experiment(logging={"bleu_sentences": SENTENCES})
    return Evaluation(experiment, random_text(1, 50, ids=len(vocabulary)), vocabulary, ALONE)


def test_bleu_is_that_of_an_independent_search(evaluation):
    model, dev, vocabulary = varied_model(), evaluation.dev, evaluation.vocabulary

    def translated(i: int) -> list[int]:
        source = dev.source[i].tolist()
        return [token for token in greedy(model, source, len(vocabulary), len(source) + 50) if token != EOS]

    hypotheses = [translated(i) for i in range(SENTENCES)]
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
