"""The page shows what the files say, and names what is not there."""

import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import lxml.html
import numpy as np
import pandas as pd
import pytest
from markupsafe import Markup
from support import page

from transformer.commands import report as stage
from transformer.files import InputError
from transformer.parsing.trees import parse
from transformer.report.figures.attention import read_attention
from transformer.report.page import page as report
from transformer.report.page import samples, summary
from transformer.report.page.cards import Card
from transformer.report.page.chain import SCORES
from transformer.report.tables.cells import Cell
from transformer.report.tables.render import Grid, Table, write

VOID = {"meta", "link", "input", "img", "br"}  # elements without an end


class Nesting(HTMLParser):
    """The elements that are open; every element must end where it should."""

    open: tuple[str, ...] = ()

    def handle_starttag(self, tag, attributes):
        self.open += () if tag in VOID else (tag,)

    def handle_endtag(self, tag):
        assert self.open[-1] == tag
        self.open = self.open[:-1]


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    return page.write_page(tmp_path_factory.mktemp("page")).read_text("utf-8")


@pytest.fixture(scope="module")
def tree(text):
    return lxml.html.fromstring(text)


def test_elements_end_in_order(text: str):
    nesting = Nesting()
    nesting.feed(text)
    assert list(nesting.open) == []


def test_ids_are_unique_and_references_resolve(tree):
    ids = tree.xpath("//@id")
    assert len(ids) == len(set(ids))
    referred = {*tree.xpath("//@aria-labelledby"), *(href[1:] for href in tree.xpath("//@href") if href[0] == "#")}
    assert {"figure1-title", "runs"} < referred <= set(ids)


def test_figures_are_images_with_a_text_within_the_page(tree):
    images = tree.xpath("//img")
    assert [image.get("alt") for image in images] == ["figure1 & so on", "curves & so on"]
    assert [image.get("class") for image in images] == [None, "wide"]
    for image, color in zip(images, ("#0072B2", "#D55E00"), strict=True):
        drawing = unquote(image.get("src").removeprefix("data:image/svg+xml,"), errors="strict")
        assert drawing == " ".join(page.SVG.format(color=color).split())


def test_nothing_is_fetched(tree, text: str):
    assert all(address.startswith("data:") for address in tree.xpath("//@src"))
    assert {href for href in tree.xpath("//@href") if not href.startswith("#")} == {"data:,"}
    assert not re.search(r"@import|url\((?!#)|fetch\(|XMLHttpRequest|https?://(?!www\.w3\.org/)", text)


def test_headings_go_down_one_by_one(tree):
    levels = [int(heading.tag[1]) for heading in tree.iter("h1", "h2", "h3", "h4", "h5", "h6")]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_texts_of_others_are_text(text: str):
    """One holds <b>, another </script>."""
    assert "A cat &lt;b&gt;sees&lt;/b&gt; it." in text
    (weights,) = re.findall('<script type="application/json" id="weights">(.*?)</script>', text)
    assert json.loads(weights)["sentences"][0]["title"] == page.attention()["sentences"][0]["title"]


def test_weights_are_whole_numbers_of_a_unit(text: str):
    """Digits are most of what a page weighs."""
    (weights,) = re.findall('<script type="application/json" id="weights">(.*?)</script>', text)
    shown, given = json.loads(weights), page.attention()
    assert shown.pop("unit") == 1000
    for sentence, expected in zip(shown.pop("sentences"), given.pop("sentences"), strict=True):
        for kind in ("encoder", "decoder", "cross"):
            numbers = np.array(sentence.pop(kind))
            assert numbers.dtype == int
            assert numbers / 1000 == pytest.approx(np.array(expected.pop(kind)), abs=0.0005)
        assert sentence == expected
    assert shown == given


def test_what_is_not_there_is_named(text: str):
    """There is a file of Figure 5, from an earlier run with more."""
    gaps = text.partition('<ul id="gaps">')[2].partition("</ul>")[0]
    named = re.findall(r"<li><strong>(.*?)</strong>: not made: (.*?)</li>", gaps)
    assert [name for name, _ in named] == [
        "Table 4: parsing",
        "Figure 5: attention and structure",
        "Table 3: variations on the model",
        "Runs",
    ]
    assert (named[0][1], named[1][1]) == (page.LONG, "old")
    assert named[3][1] == "no file en-de/base/2/run.json"
    assert 'id="figure5"' not in text
    assert "On this page are 1 table and 2 figures, from 2 trainings at scale <strong>test</strong>." in text


def test_page_of_nothing_says_so(tmp_path: Path):
    words = "--scale paper --data-of-paper --title T --label L --samples 1 --table table2.json --run a/b/1/run.json"
    words += " --missing attention none --attention --output"
    stage.main([*words.split(), str(tmp_path / "report.html")])
    text = (tmp_path / "report.html").read_text("utf-8")
    assert "Table 2: translation</strong>: not made: no file table2.json" in text
    assert "Attention viewer</strong>: not made: none" in text
    assert "The data are the paper's." in text
    assert "<table" not in text


def test_stale_numbers_say_so_in_words(text: str):
    """Twelve are in Table 2, three in the summary."""
    cells = re.findall(r"<td[^>]*data-runs=.*?</td>", text)
    assert len(cells) == 15
    assert all('<em class="stale">stale</em>' in cell for cell in cells)
    assert '<a href="#run-en-de-base-1">en-de/base/1</a>.</p>' in text  # and of no other run
    assert re.search('<em class="stale">stale</em> test.json: .*experiment cannot be checked', text)
    assert re.search("<p>Table 2: translation, en-de/base: cannot be checked: .*en-de/base/2/test.json", text)


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Path]:
    """Write Tables 2 and 3, each from a score of the same run: 27.25 of test.json, and of dev.last.json."""
    run = "en-de/base/1"
    (tmp_path / "runs" / run).mkdir(parents=True)
    (tmp_path / "tables").mkdir()
    frames = {"table2": {"model": "Transformer (base)", "by": "ours", "en-de_bleu": 27.25, "en-de_runs": run}}
    frames |= {"table3": {"experiment": "base", "bleu": 27.25, "runs": run}}
    for name, frame in frames.items():
        (tmp_path / "runs" / run / SCORES[name]).write_text(json.dumps(page.score(page.about_run())))
        rows = [{"Model": "base", "BLEU": Cell("27.2", (run,))}]
        table = Table(name, "A heading", "A table.", Grid(("Model",), rows), [])
        write(table, str(tmp_path / "tables" / name), pd.DataFrame([frame]))
    return {name: tmp_path / f"tables/{name}.json" for name in frames}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, set()),
        ({"test.json": "hyp has changed since"}, {"table2"}),
        ({"dev.last.json": "hyp has changed since"}, {"table3"}),
    ],
)
def test_a_stale_score_marks_its_own_table(tables: dict[str, Path], changed: dict[str, str], expected: set[str]):
    card = Card("en-de/base/1", {}, [], changed)
    assert {name for name, path in tables.items() if "data-stale" in report.table_part(path, [card]).body} == expected


def test_a_table_older_than_its_scores_is_marked(tables: dict[str, Path], tmp_path: Path):
    score = tmp_path / "runs/en-de/base/1/test.json"
    score.write_text(score.read_text().replace("27.25", "26.5"))
    parts = {name: report.table_part(path, []) for name, path in tables.items()}
    assert parts["table2"].changed == {"en-de/base": "its scores make 26.5000 now"}
    assert "data-stale" in parts["table2"].body
    assert (parts["table3"].changed, parts["table3"].stale) == ({}, frozenset())


def test_card_of_a_run_has_what_its_files_say(text: str):
    card = text.partition('<details id="run-en-de-base-1">')[2].partition("</details>")[0]
    run = page.about_run()
    for fact in (run["commit"], run["data_sha256"], run["digest"], "6,000", "1.5·10<sup>15</sup>", "1,800 s", "Abacus"):
        assert fact in card
    assert "2 checkpoints from step 5,800; beam 4, alpha 0.6" in card
    assert re.search(r"tokenized \*</th><td>27.25</td>.*nrefs:1\|tok:13a", card)


def test_hours_are_time_by_cores_or_by_gpus():
    """0.5 h · 2 cores, twice; 0.5 h · 8 GPUs."""
    gpus = [{"hardware": "NVIDIA H200", "processes": 8}]
    runs = {"a": page.about_run(), "b": page.about_run(), "c": page.about_run(starts=gpus)}
    assert summary.usage(runs) == [
        summary.Usage("GPU", 4.0, 1, ["NVIDIA H200"]),
        summary.Usage("core", 2.0, 2, ["Abacus"]),
    ]
    assert summary.moved(runs) == []
    there, here = page.about_run()["starts"][0], gpus[0]
    runs = {"a": page.about_run(starts=[there, there]), "b": page.about_run(starts=[there, here])}
    assert summary.moved(runs) == ["b"]


def test_price_by_the_hour(text: str):
    assert "2.00 core-hours of training, 2 runs on Abacus:\nEUR 4.00 at EUR 2 an hour." in text


def test_how_close(tmp_path: Path):
    """A single run has no deviation, a task that was not run no line; each number of a stale run says so."""
    (tmp_path / "table2.csv").write_text(
        "model,by,en-de_bleu,en-de_bleu_sd,en-de_low,en-de_high,en-de_paper,en-de_difference,en-de_runs,"
        "en-fr_bleu,en-fr_difference\nTransformer (big),paper,28.4,,,,,,,41.8,\n"
        "Transformer (big),ours,26.9,0.25,26.1,27.7,28.4,-1.5,en-de/big/1 en-de/big/2,,\n"
    )
    (tmp_path / "table4.csv").write_text(
        "by,training,f1,f1_sd,low,high,paper,difference,runs\npaper,WSJ,91.3,,,,,,\n"
        "ours,GUM,72.1,,71,73,91.3,-19.2,gum/parser/1\n"
    )
    paths = [tmp_path / f"table{number}.json" for number in (2, 3, 4)]
    stale = report.TablePart("table4", "", Markup(), frozenset({"gum/parser/1"}), {})
    fragment = lxml.html.fromstring(report.close(paths, [stale]))
    assert [[cell.text_content() for cell in row] for row in fragment.findall(".//tbody/tr")] == [
        ["Transformer (big)", "EN-DE, BLEU", "28.4", "26.9 ± 0.2", "26.1 – 27.7", "−1.5"],
        ["Parser (GUM)", "parsing, F1", "91.3", "72.1 stale", "71.0 – 73.0 stale", "−19.2 stale"],
    ]
    assert [cell.text for cell in fragment.find(".//thead/tr")][-2:] == ["95 %", "− paper"]
    assert [cell.get("data-runs") for cell in fragment.iterfind(".//td[@data-runs]")] == [
        *["en-de/big/1 en-de/big/2"] * 3,
        *["gum/parser/1"] * 3,
    ]


def test_scores_on_other_data_have_no_difference_from_the_papers(tmp_path: Path):
    (tmp_path / "table4.csv").write_text(
        "by,training,f1,f1_sd,low,high,paper,difference,runs\nours,GUM,72.1,,71,73,91.3,,gum/parser/1\n"
    )
    fragment = lxml.html.fromstring(report.close([tmp_path / "table4.json"], []))
    headings = ["Model", "Task", "Paper", "Ours", "95 %"]
    assert [cell.text for cell in fragment.find(".//thead/tr")] == headings


def test_how_close_a_table_of_another_time_was_is_not_told(tmp_path: Path):
    """Nothing more is asked of a Table 4 without ours."""
    (tmp_path / "table4.csv").write_text("by,training,f1\npaper,WSJ,91.3\n")
    assert summary.closeness_of_table_4(tmp_path / "table4.csv") == []
    (tmp_path / "table4.csv").write_text("by,training,f1\nours,GUM,72.1\n")
    with pytest.raises(InputError, match=r"table4.csv: missing key 'f1_sd'"):
        summary.closeness_of_table_4(tmp_path / "table4.csv")


def test_samples_are_the_best_the_worst_and_others():
    scores = [50.0, 90.0, 10.0, 90.0, 70.0, 10.0, 60.0]
    chosen = samples.choose(scores, 2)
    assert chosen["best"] == [1, 3]
    assert chosen["worst"] == [2, 5]
    assert len(chosen["random"]) == 2
    assert set(chosen["random"]) < {0, 4, 6}
    assert samples.choose(scores, 2) == chosen
    assert samples.choose([1.0, 2.0], 2) == {"best": [1, 0], "worst": [], "random": []}


def test_parses_are_ranked_by_their_brackets(tmp_path: Path):
    """Line 1: S of three brackets each is right, 2 · 1 / 6. Line 2: all. Line 3: no tree."""
    gold = "(S (NP (DT A) (NN dog)) (VP (VBZ sleeps)))"
    (tmp_path / "gold").write_text(f"{gold}\n{gold}\n{gold}\n")
    (tmp_path / "ours").write_text(f"(S (NP (DT A)) (VP (NN dog) (VBZ sleeps)))\n{gold}\n\n")
    kinds = samples.parses("run", tmp_path / "ours", tmp_path / "gold", 1).kinds
    ranked = [(sample.line, round(sample.score, 1)) for chosen in kinds.values() for sample in chosen]
    assert ranked == [(2, 100.0), (3, 0.0), (1, 33.3)]


def test_a_tree_is_indented_by_its_constituents():
    ((_, tree),) = parse(["(TOP (S (NP (DT A) (NN dog)) (VP (VBZ sees) (NP (PRP it))) (. .)))"], "a test")
    assert samples.indented(tree).splitlines() == [
        "(TOP",
        "  (S",
        "    (NP (DT A) (NN dog))",
        "    (VP",
        "      (VBZ sees)",
        "      (NP (PRP it)))",
        "    (. .)))",
    ]


def test_weights_must_fit_the_words(tmp_path: Path):
    attention = page.attention()
    attention["sentences"][1] = attention["sentences"][1] | {"target": ["one", "too", "few", "or many"]}
    (tmp_path / "attention.json").write_text(json.dumps(attention))
    expected = r"sentence 2, decoder: expected weights of shape \(2, 3, 4, 3\), found \(2, 3, 3, 3\)"
    with pytest.raises(InputError, match=expected):
        read_attention(tmp_path / "attention.json")


def test_score_whose_training_is_gone_tells_of_it(tmp_path: Path):
    (tmp_path / "test.json").write_text(json.dumps(page.score(page.about_run(experiment="big"))))
    (card,) = report.cards({}, [str(tmp_path / "test.json")])
    assert (card.run, card.facts["Steps"]) == ("en-de/big/1", "6,000")
    assert "run cannot be checked" in card.stale["test.json"]


def test_file_that_is_no_score_is_refused(tmp_path: Path):
    (tmp_path / "test.json").write_text(json.dumps(page.score(page.about_run()) | {"scores": {}}))
    with pytest.raises(InputError, match=r"test.json, scores: missing key 'paper'"):
        report.cards({}, [str(tmp_path / "test.json")])
