"""A file that was edited after it was written is refused where it is read; older files without a checksum are read."""

import json
import re
from functools import partial
from pathlib import Path

import pytest
from support.page import attention

from transformer.evaluation.analyses.smoothing import Smoothing
from transformer.evaluation.attention import Attention
from transformer.layout import Results
from transformer.report.figures.attention import figure5
from transformer.report.figures.curves import Measured
from transformer.storage.files import InputError
from transformer.storage.records import read_of_run, read_scored, read_summed, read_translated

SMALL = Results("results/small")
RUN = SMALL.run("en-de", "base", 1)
FILES = {  # a file of the pipeline, and what reads it
    "a score": (RUN.scores("test"), read_translated),
    "a score on the page": (RUN.scores("test"), read_scored),
    "an analysis": (RUN.folder / "smoothing.json", partial(read_of_run, kind=Smoothing.Result)),
    "attention": (SMALL.attention, partial(read_summed, kind=Attention)),
    "a measurement": (SMALL.layers, partial(read_summed, kind=Measured)),
    "recall": (SMALL.recall, partial(read_summed, kind=dict)),
}


@pytest.mark.parametrize(("name", "read"), FILES.values(), ids=FILES)
def test_a_changed_digit_is_refused(small, tmp_path: Path, name: Path, read):
    path, text = tmp_path / "a.json", (small / name).read_text("utf-8")
    content = json.loads(text)
    del content["sha256"]
    path.write_text(json.dumps(content))  # as older versions wrote it
    expected = read(path)
    path.write_text(text)
    assert read(path) == expected
    path.write_text(re.sub(r"\d(?=[,}\]])", lambda digit: str(9 - int(digit[0])), text, count=1))
    with pytest.raises(InputError, match=f"^{path}: damaged or edited: expected content of SHA-256 "):
        read(path)


def test_a_figure_of_edited_attention_is_refused(tmp_path: Path):
    path = tmp_path / "attention.json"
    path.write_text(json.dumps(attention() | {"sha256": "ab" * 32}))
    with pytest.raises(InputError, match=f"^{path}: damaged or edited"):
        figure5(attention=str(path))
