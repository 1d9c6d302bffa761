"""Outputs replace no input, no other output, and no file that the command did not write."""

import json
import os

import pytest
from support.commands import do, error
from support.toy import write_text

SCORE, ANALYSE = "score --hyp a --ref b --lang de", "analyse smoothing --run R --source a --target b --beams 1"
TAKEN = {  # a command, the output, and the other option that has this path
    "two outputs": ("parse --run R --input a --json x --output x", "--json", "--output"),
    "a file of parses": ("parse --run R --input a --json a", "--json", "--input"),
    "a text": ("translate --run R --input a --output ./a", "--output", "--input"),
    "a link": ("translate --run R --input a --output link", "--output", "--input"),
    "weights": ("translate --run R --input a --output R/average.safetensors", "--output", "--run"),
    "other weights": ("translate --run R --weights b --input a --output b", "--output", "--weights"),
    "a translation": (f"{SCORE} --json a", "--json", "--hyp"),
    "a subset": (f"{SCORE} --subset s trees --json trees", "--json", "--subset"),
    "a treebank": ("evalb --gold trees --test a --json trees", "--json", "--gold"),
    "a vocabulary": (f"{ANALYSE} --output R/vocabulary.model", "--output", "--run"),
    "a dev set": (f"{ANALYSE} --output b", "--output", "--target"),
    "a sample": ("attend --run R --text a --output a", "--output", "--text"),
    "a mirror": ("fetch --url http://host/file --mirror mirror --output mirror/host/file", "--output", "--mirror"),
}


@pytest.mark.parametrize(("command", "output", "other"), TAKEN.values(), ids=TAKEN)
def test_no_output_replaces_what_is_read_or_written_besides(place, command: str, output: str, other: str):
    os.link(place / "a", place / "link")
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    problem = error(*command.split())
    assert problem.startswith(f"{output}: expected a path of its own, found ")
    assert problem.endswith(f", which {other} names or contains")
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("output", "files"),
    [
        ("x.svg", {"x.svg", "x.json", "x.png", "x.pdf"}),
        ("v1.2", {"v1.2", "v1.2.svg", "v1.2.png", "v1.2.pdf"}),
        ("a.b.json", {"a.b.json", "a.b.svg", "a.b.png", "a.b.pdf"}),
    ],
)
def test_pictures_have_the_whole_name(place, output: str, files: set[str]):
    """And are replaced by those of the next sentence."""
    mine, before = write_text(place / "v1.svg", ["mine"]), set(place.iterdir())
    for _ in range(2):
        do("attend", "ab", "--target", "cd", "--run", "R", "--output", output)
    assert {path.name for path in place.iterdir()} - {path.name for path in before} == files - {"v1.svg"}
    assert mine.read_text() == "mine\n"
    pictures = [path for path in files if path.endswith(".svg")]
    assert all(b"<svg" in (place / path).read_bytes() for path in pictures)


@pytest.mark.parametrize(("output", "mine"), [("x.json", "x.pdf"), ("x.svg", "x.json"), ("v1.2", "v1.2.png")])
def test_a_picture_replaces_no_file_of_somebody_else(place, output: str, mine: str):
    (place / mine).write_text("mine")
    problem = error("attend", "ab cd", "--run", "R", "--output", output)
    assert problem == f"{mine}: refusing to replace a file that this command did not write; move it elsewhere"
    assert (place / mine).read_text() == "mine"


@pytest.mark.parametrize("name", ["report.html", "tables/table2.csv", "config.yaml"])
def test_a_record_replaces_no_file_of_somebody_else(place, name: str):
    mine = place / "u/demo" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine: 1\n")
    problem = error("record", "demo", "--to", "u/demo")
    assert problem == f"u/demo/{name}: refusing to replace a file that this command did not write; move it elsewhere"
    assert mine.read_text() == "mine: 1\n"
    assert [path for path in (place / "u").rglob("*") if path.is_file()] == [mine]
    mine.unlink()
    for text in ("old", "new"):  # its own record is replaced
        (place / "results/demo/report.html").write_text(text)
        do("record", "demo", "--to", "u/demo")
        assert (place / "u/demo/report.html").read_text() == text


def test_devices_may_be_named(place, capfd):
    do("score", "--hyp", "a", "--ref", "b", "--lang", "de", "--json", "/dev/stdout")
    assert len(json.loads(capfd.readouterr().out.partition("docs/bleu.md explains the metrics.\n")[2])["sha256"]) == 64
