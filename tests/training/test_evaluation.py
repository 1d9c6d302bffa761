"""Early BLEU: by an independent greedy search; the work divided, the answer the same."""

import json
import subprocess

import pytest
import torch
from sacrebleu.metrics import BLEU
from support.toy import PROCESSOR, TORCHRUN, make_data, make_experiment, make_run, random_lines

from transformer.config.experiment import EOS, PAD, load
from transformer.data.corpus import Subwords
from transformer.device import World
from transformer.model.packed import pack
from transformer.model.weights import load_model
from transformer.training.batches import open_text
from transformer.training.log import Evaluation

CPU = torch.device("cpu")
SENTENCES = 30


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Make the data, and a run that two processes have trained to copy, up to a point."""
    place = tmp_path_factory.mktemp("evaluation")
    data = make_data(place / "en-de", random_lines(1, 2000), random_lines(2, 50))
    model = {"N": 1, "d_model": 32, "d_ff": 64, "d_k": 16, "d_v": 16, "P_drop": 0.0}
    running = {"log_every": 100, "evaluate_every": 100, "bleu_sentences": SENTENCES, "save_every": 100}
    sizes = {"source_tokens": 400, "target_tokens": 400, "steps": 200, "warmup_steps": 100}
    run = make_run(place / "1", make_experiment(model=model, running=running, **sizes))
    command = [*TORCHRUN, "2", "-m", "transformer", "train", str(run), "--data", str(data), "--threads", "1"]
    subprocess.run(command, env=PROCESSOR, check=True)
    return data, run


def open_dev(run, data):
    return open_text(data, "dev", load(run / "experiment.yaml"))


def greedy(model, source, vocabulary, limit):
    """Translate by the likeliest token each time, with the whole decoder."""
    source, ids = pack([source], CPU), [PAD]
    while len(ids) <= limit and EOS not in ids:
        logits = (model(source, pack([ids], CPU)) @ model.embedding.weight.T)[-1, :vocabulary]
        logits[PAD] = -torch.inf
        ids.append(int(logits.argmax()))
    return [token for token in ids[1:] if token != EOS]


@torch.no_grad()
def test_dev_bleu_of_two_processes_is_that_of_an_independent_search(folders):
    data, run = folders
    dev, vocabulary = open_dev(run, data), Subwords(data / "vocabulary.model")
    model = load_model(run / "last.safetensors", model_of(run)).eval()
    translations = [greedy(model, dev.source[i], len(vocabulary), len(dev.source[i]) + 50) for i in range(SENTENCES)]
    references = vocabulary.decode([dev.target[i].tolist() for i in range(SENTENCES)])
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    expected = metric.corpus_score(vocabulary.decode(translations), [references]).score
    assert 0 < expected < 100
    scores = [json.loads(line) for line in (run / "metrics.jsonl").read_text().split("\n")[:-1]]
    assert [entry["step"] for entry in scores if "dev_bleu" in entry] == [100, 200]
    assert scores[-2]["dev_bleu"] == pytest.approx(expected)
    assert json.loads((run / "run.json").read_text())["dev_bleu"] == pytest.approx(expected)


def test_one_process_gets_the_same(folders):
    data, run = folders
    dev, vocabulary = open_dev(run, data), Subwords(data / "vocabulary.model")
    model = load_model(run / "last.safetensors", model_of(run))
    evaluation = Evaluation(dev, vocabulary, (400, 400), SENTENCES, World(0, 1, CPU))
    summary = json.loads((run / "run.json").read_text())
    assert evaluation.bleu(model) == pytest.approx(summary["dev_bleu"])
    assert evaluation.perplexity(model, torch.float32) == pytest.approx(summary["dev_perplexity"], rel=0.01)


def model_of(run):
    return load(run / "experiment.yaml").model
