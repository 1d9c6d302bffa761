"""Numbers, options and texts that a command cannot use are refused in one line, and nothing takes for ever."""

import random
import signal
import socket
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.commands import do, error
from support.server import serving, status
from support.serving import ask, make_trial, served
from support.toy import PREPROCESSING, write_text

from transformer.commands.cluster import _read_job
from transformer.data import download
from transformer.data.corpus import learn
from transformer.data.tokenization import Tokenizer
from transformer.storage.files import InputError


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "place"
    make_trial(folder / "R")
    write_text(folder / "a", ["ab cd"] * 12)
    return folder


SCORE, ANALYSE = "score --hyp a --ref a --lang de", "analyse tuning --run R --source a --target a --output t"
REFUSED = {
    "translate --run R --n-best 2.9": "--n-best: expected whole numbers, found 2.9",
    "serve --run R --port 1.5": "--port: expected whole numbers, found 1.5",
    f"{ANALYSE} --alphas 1 --beams 1 2.5": "--beams: expected whole numbers, found 2.5",
    f"{ANALYSE} --beams 1 --alphas": "--alphas: expected one or more values, found none",
    f"{ANALYSE} --data .": "--data: tuning reads no training text; omit this option",
    f"{SCORE} --subset": "--subset: expected one or more values, found none",
    f"{SCORE} --subset x a x a": "--subset: expected each name once, found x x",
    f"{SCORE} --weights a": "--weights: goes with --run",
    "evalb --gold a --test a --weights a": "--weights: goes with --run",
    "plan --utilisation 0.5": "--utilisation: goes with --gpu",
    "plan --gpus 2": "--gpus: goes with --gpu, because this machine has no GPU",
    'attend --run R --text a --figures {"f":{}}': "--figures: f: missing key 'text'",
    'attend --run R --text a --figures {"f":{"text":"ab","to":3}}': "--figures: f.to: expected a list",
    "attend \udcff --run R": "expected text in UTF-8, found other bytes in an argument",
    "attend ab --target \udcff --run R": "expected text in UTF-8, found other bytes in an argument",
    "attend \u00a0 --run R": "expected a sentence, found a blank one",
    f"attend {'ab,' * 150} --run R": "expected up to 100 tokens in a sentence and in its translation, found ",
    f"attend ab --target {'cd,' * 150} --run R": "expected up to 100 tokens in a sentence and in its ",
}


@pytest.mark.parametrize(("words", "problem"), REFUSED.items(), ids=map(str, range(len(REFUSED))))
def test_it_is_refused(place, words: str, problem: str):
    assert error(*words.split(" ")).startswith(problem)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("train R --data a", "--threads: expected a value, found none."),
        ("serve --run", "--run: expected a value, found none."),
        ("train R --dta a --threads 1", "--data: expected a value, found none. Did you mean --data instead of --dta?"),
    ],
)
def test_a_missing_option_is_named(capsys, words: str, problem: str):
    with pytest.raises(SystemExit, match=r"^2$"):
        do(*words.split())
    assert capsys.readouterr().err == f"transformer {words.split()[0]}: error: {problem}\n"


@pytest.mark.parametrize(("lines", "words", "out"), [(20, 200, True), (40, 299, True), (60, 80, True), (60, 50, False)])
def test_ter_is_left_out_of_many_long_lines(tmp_path, capsys, lines, words, out):
    source = random.Random(1)
    text = write_text(
        tmp_path / "text", [" ".join(map(str, source.choices(range(900), k=words))) for _ in range(lines)]
    )
    do("score", "--hyp", text, "--ref", text, "--lang", "en")
    assert (
        "! TER is left out: expected lines of up to 300 words, and up to 3,000 words" in capsys.readouterr().out
    ) == out


@pytest.mark.parametrize(
    ("text", "size", "problem"),
    [
        ("", 50, "expected text, found no words"),
        (" \n\n", 50, "expected text, found no words"),
        ("ab cd\n", 4, "expected a vocabulary of 8 or more for 3 special symbols and 5 characters, found 4"),
    ],
)
def test_a_vocabulary_that_cannot_be_learned(tmp_path, text, size, problem):
    (tmp_path / "text").write_text(text)
    with pytest.raises(InputError, match=f"text: {problem}$"):
        learn([tmp_path / "text"], size, 10, tmp_path / "model")


def body_by_bytes(handler):
    handler.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while not handler.server.over.wait(0.05):
        handler.wfile.write(b"x")


def by_bytes(handler):
    """Send a header without end, byte by byte."""
    handler.wfile.write(b"HTTP/1.0 200 OK\r\nX-Slow: ")
    while not handler.server.over.wait(0.05):
        handler.wfile.write(b"x")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (by_bytes, "ConnectionError: expected an answer within 0.3 s, found none, 5 times"),
        (body_by_bytes, "SlowServer: expected 100 bytes per second, found fewer, 5 times"),
        (status(302, Location="http://["), "ValueError: Invalid IPv6 URL"),
        (status(302, Location="/a"), "TooManyRedirects: Exceeded 30 redirects."),
    ],
)
def test_a_server_that_never_answers(tmp_path, monkeypatch, answer, problem):
    monkeypatch.setattr(download, "_PAUSE_SECONDS", 0.001)
    if answer in (by_bytes, body_by_bytes):
        monkeypatch.setattr(download, "_ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(download, "_TIMEOUTS", (5, 5))
    monkeypatch.setenv("no_proxy", "*")
    with serving() as server:
        server.script = {"/a": [answer]}
        assert error("fetch", "--url", f"{server.address}/a", "--output", tmp_path / "x").endswith(f"/a: {problem}")


@pytest.mark.parametrize(("count", "sent", "leaves"), [(1, 5, False), (100, 14, False), (1, 5, True)])
def test_requests_that_the_end_cuts_off_say_nothing(place, count, sent, leaves):
    with served(place / "R") as (process, address):
        found = b'{"error":"expected GET /, GET /health or POST /translate, found GET /x"}'
        assert ask(address, "x", None)[::2] == (404, found)
        host = address.split("/")[2]
        sockets = [socket.create_connection(host.split(":")) for _ in range(count)]
        for each in sockets:
            head = f"POST /translate HTTP/1.1\r\nHost: {host}\r\nContent-Length: 14\r\n\r\n"
            each.sendall(head.encode() + b'{"text": "ab"}'[:sent])
        time.sleep(0.5)
        for each in sockets if leaves else ():
            each.close()
        time.sleep(0.5 * leaves)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[1] == "transformer serve: ended by SIGINT\n"
        for each in sockets:
            each.close()


@pytest.mark.parametrize(
    ("runtime", "minutes"),
    [("5 hours", 300), ("24H", 1440), ("1.5h", 90), ("2 days", 2880), (90, 90), ("30s", 1), ("f(x)", 0)],
)
def test_runtimes_are_read_as_by_snakemake(runtime, minutes):
    assert _read_job({"runtime": runtime}).minutes == minutes


@pytest.mark.parametrize(
    ("language", "word", "small"),
    [
        ("tr", "İzmir", "izmir"),
        ("tr", "Isparta", "\u0131sparta"),
        ("en", "ﬁle", "ﬁle"),
        ("ar", "ßa", "ßa"),
        ("ar", "Éa", "éa"),
    ],
)
def test_a_first_letter_comes_back(language, word, small):
    how = Tokenizer(language, replace(PREPROCESSING, decapitalize=True, tokenizer="none"))
    assert how.tokenize(word) == small
    assert how.detokenize(small) == word


@pytest.mark.parametrize(("language", "told"), [("th", True), ("lo", True), ("my", True), ("de", False)])
def test_a_score_says_that_letters_are_counted(place, capsys, language, told):
    do("score", "--hyp", "a", "--ref", "a", "--lang", language)
    shown = capsys.readouterr().out
    assert (f"! {language}: BLEU counts characters, not words" in shown) == told
    assert "English abbreviations" not in shown
