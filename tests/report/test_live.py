"""`serve` as a real process: its answers equal the model's, and bad requests are refused."""

import json
import shutil
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from urllib.parse import urlsplit

import lxml.html
import numpy as np
import pytest
from msgspec import structs
from support.commands import do, error
from support.serving import PATIENCE, answering, ask, make_trial, question, served
from support.toy import random_lines, write_text

from transformer.config.experiment import EOS
from transformer.model.transformer import attention_weights
from transformer.report.live import _BODY, _LONGEST, Trial

pytestmark = pytest.mark.usefixtures("on_the_processor")

LINES = random_lines(5, 8)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_trial(tmp_path_factory.mktemp("run") / "1")


@pytest.fixture(scope="module")
def address(run):
    with served(run) as (process, address):
        yield address
        process.send_signal(signal.SIGINT)  # Ctrl-C
        assert process.communicate(timeout=60) == ("", "transformer serve: ended by SIGINT\n")
        assert process.returncode == 130


@pytest.fixture(scope="module")
def trial(run):
    return Trial(run)


# Answers


def test_translations_equal_those_of_translate(run, address, tmp_path):
    do("translate", "--run", run, "--input", write_text(tmp_path / "text", LINES), "--output", tmp_path / "out")
    expected = (tmp_path / "out").read_text("utf-8").splitlines()
    assert len(set(expected)) > 4
    with ThreadPoolExecutor(len(LINES)) as pool:  # all requests at once, and each gets its own answer
        found = list(pool.map(lambda line: question(address, line), LINES))
    assert [answer["translations"][0]["text"] for answer in found] == expected


def test_scores_and_attention_are_the_models(address, trial):
    """Weights are rounded to three digits. A line break is a space."""
    found, translator = question(address, LINES[0].replace(" ", "\n"), attention=True), trial.translator
    (source,) = translator.encode(LINES[:1])
    ((*ranked,),) = translator.search([source], translator.decoding.beam_size)
    assert [one["text"] for one in found["translations"]] == translator.decode([ids for ids, _ in ranked])
    scores = [one["score"] for one in found["translations"]]
    assert scores == pytest.approx([score for _, score in ranked], rel=1e-5)
    assert len(scores) == translator.decoding.beam_size
    target, (sentence,) = [*ranked[0][0], EOS], found["attention"]["sentences"]
    assert sentence["source"] == translator.vocabulary.names(source)
    assert sentence["target"] == translator.vocabulary.names(target)
    for kind, expected in attention_weights(translator.model, source, target).items():
        values = np.array(sentence[kind])
        assert values.shape == (found["attention"]["layers"], found["attention"]["heads"], *expected.shape[2:])
        assert values == pytest.approx(expected.numpy(), abs=6e-4)


def test_several_sentences_are_answered_at_once(address):
    """Attention is left out unless it is requested."""
    found = question(address, LINES)["sentences"]
    assert [set(one) for one in found] == [{"translations"}] * len(LINES)
    assert [one["translations"][0]["text"] for one in found] == [
        question(address, line)["translations"][0]["text"] for line in LINES
    ]


def test_a_service_tells_its_health_and_listens_on_other_addresses(run, address):
    assert json.loads(ask(address, "health", None)[2]) == {"run": "en-de/base/1", "source": "en", "target": "de"}
    with served(run, "--host", "127.0.0.2") as (_, other):
        assert urlsplit(other).hostname == "127.0.0.2"
        assert ask(other, Host="translator.example")[0] == 200
    assert error("serve", "--run", run, "--host", "x y").startswith("--host: expected an address of this machine")


def test_page_names_its_model_and_loads_nothing_else(trial):
    """The run's texts are shown as plain text."""
    trial = copy(trial)
    trial.experiment = structs.replace(trial.experiment, label="<script>alert(1)</script>")
    text = trial.page()
    assert "Test set of this scale: &lt;script&gt;alert(1)&lt;/script&gt;." in text
    page = lxml.html.fromstring(text)
    assert "With en-de/base/1 of scale toy." in " ".join(page.text_content().split())
    assert [page.get_element_by_id(name).get("lang") for name in ("text", "translation")] == ["en", "de"]
    assert set(page.xpath("//@src | //@href")) == {"data:,", "#main"}


def test_page_begins_with_a_sentence_of_the_scales_page(run, tmp_path):
    """It is the shortest sentence in the model's language. Without such a page, the text is empty."""
    folder = tmp_path / "runs/en-de/base/1"
    shutil.copytree(run, folder)
    assert Trial(folder).example() == ""
    one = {"figures": {}, "source": [], "target": [], "shifted": [], "encoder": [], "decoder": [], "cross": []}
    sentences = [one | {"title": text, "text": text} for text in ("ab cd", "ef")]
    content = {"run": "en-de/base/1", "label": "", "layers": 2, "heads": 2, "sentences": sentences}
    (tmp_path / "attention.json").write_text(json.dumps(content))
    page = lxml.html.fromstring(Trial(folder).page())
    assert page.get_element_by_id("text").text == "ef"
    (tmp_path / "attention.json").write_text(json.dumps(content | {"run": "base/1"}))
    assert Trial(folder).example() == ""


def test_requests_of_disconnected_clients_are_not_answered():
    """The model is busy with the first request. The page replaces the second request by the third."""
    asked, begun, go = [], threading.Event(), threading.Event()

    def answer(text):
        asked.append(text)
        begun.set()
        go.wait(PATIENCE)
        return {"text": text}

    with answering(answer) as address, ThreadPoolExecutor(2) as pool:
        first = pool.submit(question, address, "first")
        assert begun.wait(60)
        body = b'{"text": "second"}'
        head = f"Host: {urlsplit(address).netloc}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        with socket.create_connection(("127.0.0.1", urlsplit(address).port)) as client:
            client.sendall(f"POST /translate HTTP/1.1\r\n{head}\r\n\r\n".encode() + body)
            ask(address, "", None)  # its answer shows that the server has read the second request
        ask(address, "", None)  # and has seen that its client has left
        third = pool.submit(question, address, "third")
        go.set()
        assert (first.result(60), third.result(60)) == ({"text": "first"}, {"text": "third"})
    assert asked == ["first", "third"]


# Refusals

REFUSED = {
    "path": ({"path": "x"}, 404, "expected GET /, GET /health or POST /translate, found POST /x"),
    "origin": ({"Origin": "http://evil.example"}, 403, "a page of this server, found http://evil.example"),
    "a byte too many": ({"body": b" " * (_BODY + 1)}, 413, "expected up to 50,000 bytes, found more"),
    "an unknown field": ({"body": b'{"text": "ab", "beam": 5}'}, 400, "unknown key 'beam'"),
    "too many sentences": ({"body": b'{"text": [' + b'"ab", ' * 100 + b'"ab"]}'}, 400, "text"),
    "broken JSON": ({"body": b"{"}, 400, "the request: cannot be read as JSON"),
    "a number": ({"body": b'{"text": 5}'}, 400, "text"),
    "half a character": ({"body": rb'{"text": "\ud800"}'}, 400, "cannot be read as JSON"),
    "blanks": ({"body": rb'{"text": " \n "}'}, 400, "of 1 to 80 words, as the tokeniser cuts them, found 0"),
    "too many words and marks": ({"body": b'{"text": "' + b"ab, " * 41 + b'"}'}, 400, "cuts them, found 82"),
    "too many subwords": ({"body": b'{"text": "' + b"ab" * 999 + b'"}'}, 400, f"up to {_LONGEST} subwords, found"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_requests_are_refused_in_one_line_of_json(address, case):
    changes, expected, words = REFUSED[case]
    status, headers, content = ask(address, **changes)
    assert (status, headers["Content-Type"]) == (expected, "application/json")
    (message,) = json.loads(content).values()
    assert words in message
    assert message.isprintable()
    assert "Access-Control-Allow-Origin" not in headers


def test_only_this_machine_may_ask_by_its_own_name(address):
    """A foreign name may resolve to this machine."""
    port = urlsplit(address).port
    assert ask(address, Host="evil.example")[::2] == (400, b"Invalid host header")
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        assert ask(address, Host=host, Origin=f"http://{host}")[0] == 200
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", port), timeout=20)


def test_what_cannot_be_served_is_named(run, address):
    port = urlsplit(address).port
    expected = f"port {port}: cannot be listened on: Address already in use; --port 0 takes one that is free"
    assert error("serve", "--run", run, "--port", port) == expected
