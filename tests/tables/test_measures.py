"""The table `measures`: made-up translations by hand, and real ones against what their makers published."""

import json
import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import sacrebleu
from support.commands import error
from support.scored import by, cells, make_table, read_csv

from transformer.config.yamlfile import read_yaml

ROOT = Path(__file__).parents[2]
PAPER = ROOT / "workflow/paper/table2.csv"
# The third sentence stands there twice, with other references.
SOURCES = ["He said “no”.", "A text-only file is here.", "Yes.", "The last one is long enough.", "Yes."]
REFERENCES = ["Er sagte: „Nein“.", "Eine Text-Datei ist jetzt hier.", "Ja.", "Der letzte Satz ist lang genug.", "Doch."]
CHOSEN = [3, 1, 0, 2]  # what was translated, in this order
OUTPUT = ["Der letzte Satz ist lang genug.", "Eine Text-Datei ist hier.", 'Er sagte: "Nein".', "Ja."]
# The same, and the references, as tokens with compounds split.
TOKENS = [
    "Der letzte Satz ist lang genug .",
    "Eine Text ##AT##-##AT## Datei ist hier .",
    'Er sagte : " Nein " .',
    "Ja .",
]
SPLIT = [
    "Der letzte Satz ist lang genug .",
    "Eine Text ##AT##-##AT## Datei ist jetzt hier .",
    "Er sagte : „ Nein “ .",
    "Ja .",
]
CHOSEN_REFERENCES = [REFERENCES[place] for place in CHOSEN]
PLAIN = [line.replace("„", '"').replace("“", '"') for line in SPLIT]


class Folder:
    """A folder with a test set and what one system made of it."""

    def __init__(self, path: Path):
        self.path = path
        self.entry = {"name": "toy", "label": "a toy", "language": "de", "test": "set", "note": None}
        self.entry |= {"sentences": 4, "form": "text"}
        self.entry["files"] = {
            "source": self.write("set.en", SOURCES),
            "target": self.write("set.de", REFERENCES),
            "input": self.write("input.en", [SOURCES[place] for place in CHOSEN] + ["not translated"]),
            "output": self.write("output.de", OUTPUT),
        }
        self.quotes = ["--quotes", "set", self.entry["files"]["target"]]

    def write(self, name: str, lines: list[str]) -> str:
        (self.path / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return str(self.path / name)

    @property
    def options(self) -> list[str]:
        return ["--paper", str(PAPER), "--system", json.dumps(self.entry), *self.quotes]

    def make(self) -> tuple[dict, str]:
        """Run the stage, and return the system's rows by kind and choice, and the Markdown."""
        rows, markdown = make_table("measures", self.path / "tables/measures", *self.options)
        return by([row for row in rows if row["system"]], "kind", "choice"), markdown


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def bleu(hypotheses: list[str], references: list[str], **options) -> float:
    """Return sacreBLEU's own answer; without options, that on text."""
    return sacrebleu.corpus_bleu(hypotheses, [references], force=True, **options).score


def by_words(hypotheses: list[str], references: list[str]) -> float:
    return bleu(hypotheses, references, tokenize="none", smooth_method="none")


@pytest.mark.parametrize("form", ["text", "tokens"])
def test_every_measure_by_hand(folder, form):
    """Tokens are undone for the text's measures; as published, they are scored as they are."""
    folder.entry["form"] = form
    if form == "tokens":
        folder.entry["files"]["output"] = folder.write("output.tok", TOKENS)
    rows, markdown = folder.make()
    text = bleu(OUTPUT, CHOSEN_REFERENCES)
    ours = text if form == "text" else bleu(TOKENS, SPLIT)
    unsplit = [[line.replace(" ##AT##-##AT## ", "-") for line in side] for side in (TOKENS, SPLIT)]
    expected = {
        ("ours", "as its makers scored it"): ours,
        ("measure", "sacrebleu"): text,
        ("measure", "tokenized"): by_words(*unsplit),
        ("measure", "compound_split"): by_words(TOKENS, SPLIT),
        ("measure", "plain_quotes"): by_words(TOKENS, PLAIN),
        ("measure", "intl"): bleu(OUTPUT, CHOSEN_REFERENCES, tokenize="intl"),
    }
    if form == "tokens":
        expected["slip", "sacreBLEU of the split tokens, not of text"] = bleu(TOKENS, CHOSEN_REFERENCES)
    assert len(set(expected.values())) >= 4
    for choice, value in expected.items():
        assert float(rows[choice]["value"]) == pytest.approx(value), choice
        assert float(rows[choice]["difference"]) == pytest.approx(value - text), choice
    assert ("published", "as its makers scored it") not in rows
    assert cells(markdown)[0]["Ours"] == f"{ours:.2f}"
    assert cells(markdown)[0]["Published"] == ""


def test_quotation_marks_are_counted_in_the_whole_and_in_what_was_scored(folder):
    rows, _ = folder.make()
    counts = {choice: int(float(row["value"])) for (kind, choice), row in rows.items() if kind == "quotes"}
    assert counts == {"reference, Unicode": 2, "reference, plain": 0, "output, Unicode": 0, "output, plain": 2}
    everything = by([row for row in read_csv(folder.path / "tables/measures.csv") if not row["system"]], "choice")
    assert [float(row["value"]) for row in everything.values()] == [2, 0]


def test_of_a_sentence_with_two_references_the_first_is_taken_and_said_so(folder):
    _, markdown = folder.make()
    assert "`toy`: sentences whose source the test set has twice, with different references: 1;" in markdown
    folder.entry["files"]["input"] = folder.write("input.en", [SOURCES[place] for place in (2, 1, 0, 4)])
    folder.entry["files"]["output"] = folder.write("output.de", [REFERENCES[place] for place in (2, 1, 0, 4)])
    rows, markdown = folder.make()
    assert float(rows["measure", "sacrebleu"]["value"]) == pytest.approx(100)
    assert "with different references" not in markdown


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("41.1", {"value": "41.1", "precision_1": "", "tokens": "", "signature": ""}),
        (
            "BLEU+tok.13a = 30.2 55.4/34.6/24.0/18.2 (BP = 0.998 ratio = 1.067 hyp_len = 2606 ref_len = 2442)",
            {"value": "30.2", "precision_4": "18.2", "brevity_penalty": "0.998", "tokens": "2606"}
            | {"reference_tokens": "2442", "signature": "BLEU+tok.13a", "difference": ""},
        ),
    ],
)
def test_what_was_published_is_shown_as_it_was(folder, line, expected):
    folder.entry["files"]["published"] = folder.write("score", [line])
    rows, markdown = folder.make()
    assert rows["published", "as its makers scored it"].items() >= expected.items()
    assert cells(markdown)[0]["Published"] == expected["value"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sentences": 5}, "output.de: expected 5 sentences, found 4"),
        ({"input": ["x"]}, "input.en: expected 4 sentences or more, found 1"),
        ({"input": [SOURCES[1]] * 4}, f"input.en, line 2: expected a sentence of {{}}/set.en, found '{SOURCES[1]}'"),
        ({"published": ["BLEU 27"]}, "score: expected a BLEU score or a line of sacreBLEU, found 'BLEU 27'"),
    ],
)
def test_files_that_do_not_fit_are_named(folder, changes, message):
    for name, value in changes.items():
        if name == "sentences":
            folder.entry[name] = value
        else:
            file = {"input": "input.en", "published": "score"}[name]
            folder.entry["files"][name] = folder.write(file, value)
    said = error("table", "measures", *folder.options, "--output", folder.path / "tables/measures")
    assert said == f"{folder.path}/{message.format(folder.path)}"
    assert not (folder.path / "tables").exists()


# Real ones, where TRANSFORMER_MIRROR names a folder of downloads as `transformer fetch --mirror` reads it.
CONFIG = read_yaml(ROOT / "config.yaml")
MIRROR = Path(os.environ.get("TRANSFORMER_MIRROR", "no mirror"))


def mirrored(download: str) -> str:
    """Return the path of a download in the mirror."""
    url = urlsplit(CONFIG["downloads"][download]["urls"][0])
    path = MIRROR / url.netloc / url.path.lstrip("/")
    if not path.exists():
        pytest.skip(f"TRANSFORMER_MIRROR names no folder with {url.netloc}{url.path}")
    return str(path)


def real(folder: Folder, name: str) -> dict:
    """Return the rows of one of config.yaml's systems."""
    system = CONFIG["systems"][name]
    sides = CONFIG["corpora"][system["test"]]["files"]
    files = {side: mirrored(sides[system[side]]["download"]) for side in ("source", "target")}
    files |= {key: mirrored(system[key]["download"]) for key in ("input", "output", "published") if key in system}
    about = {key: system.get(key) for key in ("label", "test", "sentences", "form", "note")}
    folder.entry = {"name": name, "language": system["target"], "files": files} | about
    return folder.make()[0]


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("marian-16-en-de", [25.90, 25.76, 26.57, 27.54, 26.64, 20.71]),
        ("marian-8-en-de", []),
        pytest.param("bergamot-en-de", [29.82, 29.92, 30.53, 31.63, 30.70], marks=pytest.mark.slow),
        pytest.param("google-en-de", [35.88, 35.75, 36.42, 35.42, 36.60], marks=pytest.mark.slow),
        pytest.param("bergamot-en-fr", [41.06, 42.02, None, 43.03, 43.88], marks=pytest.mark.slow),
    ],
)
def test_real_outputs_score_what_their_makers_published(folder, name, others):
    """And, by other measures, what a second computation of the same files gave."""
    rows = real(folder, name)
    ours = rows["ours", "as its makers scored it"]
    if published := rows.get(("published", "as its makers scored it")):
        assert f"{float(ours['value']):.1f}" == published["value"]
        for number in ("precision_1", "precision_2", "precision_3", "precision_4"):
            assert published[number] in ("", f"{float(ours[number]):.1f}")
        for length in ("tokens", "reference_tokens"):
            assert published[length] in ("", ours[length])
    choices = [("measure", key) for key in ("sacrebleu", "tokenized", "compound_split", "plain_quotes", "intl")]
    choices.append(("slip", "sacreBLEU of the split tokens, not of text"))
    for choice, value in zip(choices, others, strict=False):
        assert value is None or float(rows[choice]["value"]) == pytest.approx(value, abs=0.005)


def test_marian_published_precisions_and_lengths(folder):
    """That the comparison above is one of all of them."""
    published = real(folder, "marian-16-en-de")["published", "as its makers scored it"]
    numbers = [published[f"precision_{order}"] for order in (1, 2, 3, 4)] + [published["tokens"]]
    assert numbers == ["55.4", "34.6", "24.0", "18.2", "2606"]
    assert published["reference_tokens"] == "2442"


def test_the_german_reference_of_2014_has_unicode_marks_and_that_of_2013_none(folder):
    for name in ("newstest2013-opus", "newstest2014-opus.de-en"):
        folder.quotes += ["--quotes", name, mirrored(f"{name}.de")]
    folder.make()
    rows = by(read_csv(folder.path / "tables/measures.csv"), "test", "choice")
    counts = {key: float(row["value"]) for key, row in rows.items() if not row["system"] and key[0] != "set"}
    assert list(counts.values()) == [0, 1057, 659, 492]
