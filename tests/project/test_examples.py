"""Examples in Python in docs/ print the output that the docs show. The tour's plain model equals this project's.

Those of README.md and of docs/export.md run in test_environment.py, in the smallest installation.
"""

import doctest
import re
from pathlib import Path

import pytest
import torch

import transformer
from transformer.config.experiment import PAD
from transformer.model.packed import pack

pytestmark = pytest.mark.usefixtures("on_the_processor")

ROOT = Path(__file__).parents[2]
PAGES = sorted({*(ROOT / "docs").glob("*.md")} - {ROOT / "docs/export.md"})
BLOCKS = {page: re.findall(r"```(python|pycon)\n(.*?)```", page.read_text("utf-8"), re.DOTALL) for page in PAGES}
PAGES = [page for page in PAGES if "pycon" in dict(BLOCKS[page])]


def run(page: Path) -> dict:
    """Run a page's blocks in order, prompts as doctests. Return the names that they define."""
    names, runner = {}, doctest.DocTestRunner()
    for kind, code in BLOCKS[page]:
        if kind == "pycon":
            test = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), 0)
            runner.run(test, clear_globs=False)
            names |= test.globs
        elif page.name == "tour.md":  # other pages need libraries and folders: tests/translation/test_export.py
            exec(code, names)
    assert runner.summarize().failed == 0
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_print_their_documented_output(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    run(page)


@torch.inference_mode()
def test_the_tours_plain_model_has_the_logits_of_the_fast_one(monkeypatch):
    """The comparison uses float64, so that rounding does not matter."""
    monkeypatch.chdir(ROOT)
    plain = run(ROOT / "docs/tour.md")["plain"]
    model = transformer.load("results/record/multi30k/runs/en-de/base/1")
    fast = model.model.double()
    (source,) = model.encode(["A man in a blue shirt stands on a ladder."])
    (target,) = model.vocabulary.encode([model.target.tokenize("Ein Mann im blauen Hemd steht auf einer Leiter.")])
    target = [PAD, *target[:-1]]
    arrays = [pack([torch.tensor(ids).numpy()], torch.device("cpu")) for ids in (source, target)]
    expected = fast(*arrays) @ fast.output_weight().T
    found = plain(fast.state_dict(), source, target, fast.config.N, fast.config.h)
    assert expected.abs().max() > 5
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
