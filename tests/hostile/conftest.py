"""Fixture: a folder with all that the commands read."""

import shutil
from pathlib import Path

import pytest
from support.project import ROOT
from support.serving import make_trial
from support.toy import write_text

TREE = "(TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps))))"


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """Make a folder with a run that has learned nothing, texts, a mirror, results, and a copy of config.yaml."""
    folder = tmp_path_factory.mktemp("made") / "place"
    make_trial(folder / "R")
    for name in ("a", "b", "mirror/host/file", "results/demo/report.html", "results/demo/tables/table2.csv"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_text(folder / name, ["ab cd"] * 12)
    write_text(folder / "trees", [TREE])
    shutil.copy(ROOT / "config.yaml", folder)
    return folder
