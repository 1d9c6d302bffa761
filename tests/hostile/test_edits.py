"""A file that was edited after it was written is refused where it is read; older files without a checksum are read."""

import json
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.commands import do
from support.page import attention
from support.project import ROOT
from support.scored import score
from support.serving import make_trial
from support.toy import write_text

from transformer.commands.score import _write_score
from transformer.evaluation.analyses.smoothing import Smoothing
from transformer.evaluation.attention import Attention
from transformer.report.figures.attention import figure5
from transformer.report.figures.curves import Measured
from transformer.storage.files import InputError
from transformer.storage.records import read_of_run, read_scored, read_summed, read_translated


def written_score(path: Path) -> None:
    content = score(27.25)
    _write_score(path, content, content.pop("draws"))


def written_attention(path: Path) -> None:
    do("attend", "--text", write_text(path.with_name("text"), ["ab"]), "--run", path.parent / "R", "--output", path)


def written_by_script(name: str, path: Path) -> None:
    """Run a script of the workflow whose measurement is a recorded one."""
    code = (ROOT / f"workflow/scripts/{name}.py").read_text("utf-8")
    recorded = {"times": [{"seconds": 1.25}], "models": []}
    code = re.sub(r"from transformer\.evaluation\.\w+ import (\w+)", r"\1 = lambda _: recorded", code)
    code = re.sub(r"structured\(snakemake\.params\.\w+, \w+, \"\w+\"\)", "None", code)
    code = code.replace(f'with job("{name}", snakemake.log[0]):', "if True:")
    exec(code, {"snakemake": SimpleNamespace(output=[str(path)]), "recorded": recorded})


FILES = {  # what writes it, what reads it, and an edit of one digit
    "a score": (written_score, read_translated, ("27.25", "77.25")),
    "a score on the page": (written_score, read_scored, ("27.25", "77.25")),
    "its draws": (written_score, partial(read_of_run, kind=dict), ("26.75", "27.75")),
    "attention": (written_attention, partial(read_summed, kind=Attention), ("0.", "1.")),
    "a measurement": (partial(written_by_script, "measure"), partial(read_summed, kind=dict), ("1.25", "7.25")),
    "recall": (partial(written_by_script, "recall"), partial(read_summed, kind=dict), ("1.25", "7.25")),
}


@pytest.mark.parametrize(("write", "read", "edit"), FILES.values(), ids=FILES)
def test_a_changed_digit_is_refused(tmp_path: Path, write, read, edit):
    make_trial(tmp_path / "R")
    write(path := tmp_path / "a.json")
    expected, text = read(path), path.read_text()
    path.write_text(text.replace(*edit, 1))
    with pytest.raises(InputError, match=f"^{path}: damaged or edited: expected content of SHA-256 "):
        read(path)
    content = json.loads(text)
    del content["sha256"]
    path.write_text(json.dumps(content))  # as older versions wrote it
    assert read(path) == expected


def test_readers_of_files_of_a_scale_compare_them(tmp_path: Path):
    path = tmp_path / "attention.json"
    path.write_text(json.dumps(attention() | {"sha256": "ab" * 32}))
    with pytest.raises(InputError, match=f"^{path}: damaged or edited"):
        figure5(attention=str(path))
    path.write_text(json.dumps(score(27.25) | {"sha256": "ab" * 32}))
    for kind in (Smoothing.Result, Measured):
        with pytest.raises(InputError, match=f"^{path}: damaged or edited"):
            (read_of_run if kind is Smoothing.Result else read_summed)(path, kind)
