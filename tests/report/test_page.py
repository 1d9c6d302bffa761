"""The page shows the contents of the files, and lists missing files."""

import re
from itertools import pairwise
from pathlib import Path
from unittest.mock import ANY
from urllib.parse import unquote

import lxml.html
import pytest
from support import page

from transformer.report.page import _Sample, build_page, choose


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    return page.write_page(tmp_path_factory.mktemp("page")).read_text("utf-8")


@pytest.fixture(scope="module")
def tree(text):
    return lxml.html.fromstring(text)


def test_ids_are_unique_references_resolve_and_headings_go_down_one_by_one(tree):
    ids = tree.xpath("//@id")
    assert len(ids) == len(set(ids))
    referred = {*tree.xpath("//@aria-labelledby"), *(href[1:] for href in tree.xpath("//@href") if href[0] == "#")}
    assert {"figure1-title", "runs"} < referred <= set(ids)
    levels = [int(heading.tag[1]) for heading in tree.iter("h1", "h2", "h3", "h4", "h5", "h6")]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_figures_are_images_with_a_text_within_the_page(tree):
    images = tree.xpath("//img")
    assert [image.get("alt") for image in images] == ["figure1 & so on", "curves & so on"]
    assert [image.get("class") for image in images] == [None, "wide"]
    for image, color in zip(images, ("#0072B2", "#D55E00"), strict=True):
        drawing = unquote(image.get("src").removeprefix("data:image/svg+xml,"), errors="strict")
        lines = page.SVG.format(color=color).split()
        assert drawing == " ".join(lines).replace("> <", "><").replace('"', "'")


def test_texts_of_others_are_text_and_nothing_is_fetched(tree, text: str):
    assert all(address.startswith("data:") for address in tree.xpath("//@src"))
    assert {href for href in tree.xpath("//@href") if not href.startswith("#")} == {"data:,"}
    assert "A cat &lt;b&gt;sees&lt;/b&gt; it." in text
    assert not re.search(r"@import|url\((?!#)|fetch\(|XMLHttpRequest|https?://(?!www\.w3\.org/)", text)


def gaps(text: str) -> dict[str, str]:
    return dict(re.findall(r"<li><strong>(.*?)</strong>: (.*?)</li>", text))


def test_what_is_not_there_is_named(text: str):
    assert gaps(text) == {
        "Table 4: parsing": page.LONG,
        "Figure 5: attention and structure": "old",
        "Runs": "no file en-de/base/2/run.json",
    }
    assert "This page has 1 table and 2 figures from 2 runs at scale <strong>test</strong>." in text
    assert "A grammar made up" not in text


def test_page_without_results_lists_everything_as_missing(tmp_path: Path):
    files, params = page.write_inputs(tmp_path)
    params |= {"data_of_paper": True, "made_up": True, "missing": {"Attention viewer": "none"}}
    build_page({key: [] for key in files}, params, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text("utf-8")
    assert gaps(text) == {
        "Attention viewer": "none",
        "Runs": "no file en-de/base/1/run.json, supervised/parser/1/run.json, en-de/base/2/run.json",
        "Scores": "no file en-de/base/1/test.json",
        "Sample translations of en-de/base/1": ANY,
    }
    assert "The data are the paper's." in text
    assert "The text of this scale is artificial." in text
    assert "<table" not in text


def test_hours_of_each_training_and_the_price_of_all(text: str, tree):
    """0.5 h on 2 cores, twice."""
    assert "2.00 core-hours of training, 2 runs on Abacus:\nEUR 4.00 at EUR 2 an hour." in text
    row, _ = tree.xpath('//details[@id="reviewers"]//tbody/tr')
    expected = ["1,900,544", "6,000", "1.50", "1.5·1015", "0.50", "1.00", "1 × Abacus, 2 of 4 cores"]
    assert [cell.text_content() for cell in row] == ["en-de/base/1", *expected]


def test_samples_are_the_best_the_worst_and_others():
    def chosen(*scores: float) -> dict[str, list[int]]:
        sentences = [_Sample(place, score, "", "", "") for place, score in enumerate(scores)]
        return {kind: [sample.line for sample in samples] for kind, samples in choose(sentences, 2).items()}

    samples = chosen(50.0, 90.0, 10.0, 90.0, 70.0, 10.0, 60.0)
    assert (samples["best"], samples["worst"]) == ([1, 3], [2, 5])
    assert len(set(samples["random"]) & {0, 4, 6}) == 2
    assert chosen(1.0, 2.0) == {"best": [1, 0], "worst": [], "random": []}
