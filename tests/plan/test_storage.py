"""The disk space of a scale, against files really written and counts worked by hand."""

import os

import pytest
from support.project import own_corpus
from support.toy import make_experiment

from transformer.__main__ import main
from transformer.config import settings
from transformer.model import weights
from transformer.model.transformer import Transformer
from transformer.plan import storage
from transformer.runtime.threads import Writer
from transformer.training import states
from transformer.training.step import adam

SUM = "0" * 64
PAPER = "scale=paper"


def test_a_run_keeps_what_is_written(tmp_path):
    """Two states, checkpoints of which one has two names, and the average are really written; headers hardly count."""
    run = make_experiment(model={"d_model": 128, "d_ff": 512}, averaged_checkpoints=3)
    model = Transformer(run.model)
    saved = states.States(tmp_path / "state", model, adam(model, run.training))
    with Writer() as writer:
        for step in (1, 2, 3):
            saved.save(states.Progress("digest", step=step), writer)
            weights.save(tmp_path / f"checkpoints/{step}.safetensors", model.state_dict(), {})
    weights.save(tmp_path / "average.safetensors", model.state_dict(), {})
    os.link(tmp_path / "checkpoints/3.safetensors", tmp_path / "last.safetensors")
    files = {path.stat().st_ino: path.stat().st_size for path in tmp_path.rglob("*.safetensors")}
    assert states.KEPT == storage.STATES
    assert len(files) == 2 + 3 + 1
    assert storage.run_bytes(run) == pytest.approx(sum(files.values()), rel=0.03)


def test_own_corpora_count_as_large_as_they_are(tmp_path, capsys):
    file = own_corpus(tmp_path)
    config = settings.read([str(file)], ["scale=mine"])
    size = (tmp_path / "train.en").stat().st_size + (tmp_path / "train.cs").stat().st_size
    lines = storage.training_lines(config, config["scales"]["mine"]["tasks"]["en-cs"])
    assert lines * storage.LINE * 2 == pytest.approx(size, abs=300)
    (tmp_path / "train.en").unlink()
    main(["plan", "--configfile", str(file), "--config", "scale=mine"])
    shown = capsys.readouterr().out
    assert "table3" in shown
    assert "table4" not in shown  # the scale parses nothing


def test_downloads_are_those_of_the_tasks_and_languages():
    config = settings.read([], [PAPER])
    assert sum(filter(None, storage.download_sizes(config, {"en-de", "en-fr"}).values())) == 6_644_668_827
    german = storage.download_sizes(config, {"en-de"})
    assert "training-giga-fren.tar" not in german
    assert [name for name, size in german.items() if size is None] == ["wmt14-test-filtered.tgz"]
    assert storage.download_sizes(settings.read([], []), {"en-de", "semi-supervised"}) == {}
    multi30k = storage.download_sizes(settings.read([], ["scale=multi30k"]), ["en-fr"])
    assert {name[-5:] for name in multi30k} == {"en.gz", "fr.gz"}


def test_lines_are_those_known_or_near():
    """WMT's counts are known; one edition is estimated from its archive, near another edition's 270,769."""
    config = settings.read([], [PAPER])
    tasks = config["scales"]["paper"]["tasks"] | config["scales"]["paper"]["parsing"]["tasks"]
    assert storage.training_lines(config, tasks["en-de"]) == 4_520_620
    assert storage.training_lines(config, tasks["en-fr"]) == 40_842_333
    assert storage.training_lines(config, tasks["semi-supervised"]) == 39_832 + 1_000_000
    assert "lines" not in config["corpora"]["news-commentary-v13.de-en"]
    assert 270_769 < storage.corpus_lines(config, "news-commentary-v13.de-en") < 4 * 270_769
