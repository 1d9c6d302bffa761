"""The table `measures`: made-up translations by hand, and real ones against what their makers published."""

import json
from pathlib import Path

import pytest
import sacrebleu
from support.commands import error
from support.mirror import mirrored, system_entry
from support.scored import by, cells, make_table, read_csv

PAPER = Path(__file__).parents[3] / "workflow/paper/table2.csv"
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
        expected["mistake", "sacreBLEU of split tokens against text"] = bleu(TOKENS, CHOSEN_REFERENCES)
    assert len(set(expected.values())) >= 4
    for choice, value in expected.items():
        assert float(rows[choice]["value"]) == pytest.approx(value), choice
        assert float(rows[choice]["difference"]) == pytest.approx(value - by_words(TOKENS, PLAIN)), choice
    assert ("published", "as its makers scored it") not in rows
    assert cells(markdown)[0]["Ours"] == f"{ours:.2f}"
    assert cells(markdown)[0]["Published"] == ""
    assert cells(markdown)[0]["Paper's − sacreBLEU"] == f"{by_words(TOKENS, PLAIN) - text:+.2f}".replace("-", "−")


def test_quotation_marks_are_counted_in_the_whole_and_in_what_was_scored(folder):
    rows, _ = folder.make()
    counts = {choice: int(float(row["value"])) for (kind, choice), row in rows.items() if kind == "quotes"}
    assert counts == {"reference, Unicode": 2, "reference, plain": 0, "output, Unicode": 0, "output, plain": 2}
    everything = by([row for row in read_csv(folder.path / "tables/measures.csv") if not row["system"]], "choice")
    assert [float(row["value"]) for row in everything.values()] == [2, 0]


def test_of_a_sentence_with_two_references_the_first_is_taken_and_said_so(folder):
    _, markdown = folder.make()
    assert "`toy`: sentences whose source the test set has more than once, with different references: 1;" in markdown
    folder.entry["files"]["target"] = folder.write("set.de", [*REFERENCES[:4], REFERENCES[2]])
    assert "with different references" not in folder.make()[1]
    folder.entry["files"]["target"] = folder.write("set.de", REFERENCES)
    folder.entry["files"]["input"] = folder.write("input.en", [SOURCES[place] for place in (2, 1, 0, 4)])
    folder.entry["files"]["output"] = folder.write("output.de", [REFERENCES[place] for place in (2, 1, 0, 4)])
    rows, markdown = folder.make()
    assert float(rows["measure", "sacrebleu"]["value"]) == pytest.approx(100)
    assert "with different references" not in markdown


def test_escapes_and_quotation_marks_in_the_output_are_said(folder):
    """Not in the one that is as people write it."""
    assert "Where measures mislead" not in folder.make()[1]
    folder.entry["files"]["output"] = folder.write("output.de", ["„Der&quot;", *OUTPUT[1:]])
    _, markdown = folder.make()
    assert "- `toy`: the output has 1 Unicode quotation marks or apostrophes" in markdown
    assert "- `toy`: the output has escapes such as `&quot;` in 1 of 4 lines" in markdown


def test_a_step_that_is_not_taken_is_blank(folder):
    """Compounds are split in German alone; the step of the quotation marks then starts at the tokens."""
    for language, blank in (("de", False), ("fr", True)):
        folder.entry["language"] = language
        rows, markdown = folder.make()
        (row,) = [row for row in grid(markdown, "Text") if row["Text"] == "toy"]
        assert (row["Compounds"] == "") == blank
        steps = [float(row[name].replace("−", "-")) for name in ("Tokeniser", "Compounds", "Quotes") if row[name]]
        assert sum(steps) == pytest.approx(float(row["Sum"].replace("−", "-")), abs=0.011 * len(steps))
        scores = [float(rows["measure", name]["value"]) for name in ("sacrebleu", "tokenized", "plain_quotes")]
        assert float(row["Sum"].replace("−", "-")) == pytest.approx(scores[2] - scores[0], abs=0.006)
        if blank:
            assert float(row["Quotes"].replace("−", "-")) == pytest.approx(scores[2] - scores[1], abs=0.006)


def test_choices_are_compared_with_the_papers_measure(folder):
    rows, markdown = folder.make()
    shown = {row["Choice"]: row["toy"] for row in grid(markdown, "Choice")}
    paper = by_words(TOKENS, PLAIN)
    for choice, name in {"sacreBLEU": "sacrebleu", "the reference's quotes left as they are": "compound_split"}.items():
        expected = float(rows["measure", name]["value"]) - paper
        assert float(shown[choice].replace("−", "-")) == pytest.approx(expected, abs=0.006)
    assert "the paper's measure" not in shown


def grid(markdown: str, heading: str) -> list[dict[str, str]]:
    """Return the rows of the Markdown table whose first column is called so."""
    (found,) = [part for part in markdown.split("\n\n") if part.startswith(f"| {heading} ")]
    return cells(f"\n\n{found}")


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


def test_a_form_that_is_not_known_is_refused(folder):
    """And not taken for text."""
    folder.entry["form"] = "token"
    said = error("table", "measures", *folder.options, "--output", folder.path / "tables/measures")
    assert said == "--system, form: invalid enum value 'token', found 'token'"


# Real ones, where TRANSFORMER_MIRROR names a folder of them.


def real(folder: Folder, name: str) -> tuple[dict, str]:
    """Return the rows and the Markdown of one of config.yaml's systems."""
    folder.entry = system_entry(name)
    return folder.make()


@pytest.mark.parametrize(
    ("name", "score", "others"),
    [
        ("marian-16-en-de", "30.2", [25.90, 25.76, 26.57, 27.54, 26.64, 20.71]),
        ("marian-8-en-de", "29.5", [25.32, 25.17, 25.91, 26.90, 25.97]),
        pytest.param("bergamot-en-de", "29.8", [29.82, 29.92, 30.53, 31.63, 30.70], marks=pytest.mark.slow),
        pytest.param("google-en-de", None, [35.88, 35.75, 36.42, 35.42, 36.60], marks=pytest.mark.slow),
        pytest.param("bergamot-en-fr", "41.1", [41.06, 42.02, None, 43.03, 43.88], marks=pytest.mark.slow),
    ],
)
def test_real_outputs_score_what_their_makers_published(folder, name, score, others):
    """And, by other measures, what a second computation of the same files gave."""
    rows, _ = real(folder, name)
    published = rows.get(("published", "as its makers scored it"))
    assert score == (published and published["value"])
    if score:
        assert f"{float(rows['ours', 'as its makers scored it']['value']):.1f}" == score
    choices = [("measure", key) for key in ("sacrebleu", "tokenized", "compound_split", "plain_quotes", "intl")]
    choices.append(("mistake", "sacreBLEU of split tokens against text"))
    for choice, value in zip(choices, others, strict=False):
        assert (choice in rows) == (value is not None)
        assert value is None or float(rows[choice]["value"]) == pytest.approx(value, abs=0.005)


def test_marians_precisions_and_lengths_come_out_again(folder):
    rows, _ = real(folder, "marian-16-en-de")
    published, ours = (rows[kind, "as its makers scored it"] for kind in ("published", "ours"))
    precisions = [f"precision_{order}" for order in (1, 2, 3, 4)]
    assert [published[name] for name in precisions] == ["55.4", "34.6", "24.0", "18.2"]
    assert [f"{float(ours[name]):.1f}" for name in precisions] == ["55.4", "34.6", "24.0", "18.2"]
    for row in (published, ours):
        assert (row["tokens"], row["reference_tokens"]) == ("2606", "2442")


def test_the_german_reference_of_2014_has_unicode_marks_and_that_of_2013_none(folder):
    for name in ("newstest2013-opus", "newstest2014-opus.de-en"):
        folder.quotes += ["--quotes", name, str(mirrored(f"{name}.de"))]
    folder.make()
    rows = by(read_csv(folder.path / "tables/measures.csv"), "test", "choice")
    counts = {key: float(row["value"]) for key, row in rows.items() if not row["system"] and key[0] != "set"}
    assert list(counts.values()) == [0, 1057, 659, 492]
