"""The page to try a model, served by a real process: its answers are the model's, and what is wrong is refused."""

import base64
import ctypes
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import lxml.html
import numpy as np
import pytest
from msgspec import structs
from support.commands import do, error
from support.made import RUN, train_run
from support.page import about_run, score
from support.serving import Live, answering, exchange, make_trial, post, question, served, wait_until
from support.toy import ROWS, random_lines

from transformer.commands import translate
from transformer.config.experiment import EOS
from transformer.data.subwords import learn
from transformer.model.overheard import weights
from transformer.report.figures.tokens import names
from transformer.report.page import request
from transformer.report.page.live import LONGEST, open_trial
from transformer.translation.translator import search, search_n_best

pytestmark = pytest.mark.usefixtures("on_the_processor")

LINES = random_lines(5, 8)
SHORT = 3.0  # seconds for a request: a busy machine sends one within them


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the folder of a run that has learned nothing, whose translations differ from each other."""
    run = make_trial(tmp_path_factory.mktemp("run") / "1")
    (run / "test.json").write_text(json.dumps(score(about_run())))
    return run


@pytest.fixture(scope="module")
def port(run):
    with served(run) as (process, address):
        yield int(address.rpartition(":")[2].strip("/"))
        assert process.poll() is None


@pytest.fixture(scope="module")
def trial(run):
    return open_trial(run)


# Answers.


def test_translations_are_those_of_translate(run, port, tmp_path):
    (tmp_path / "text").write_text("".join(line + "\n" for line in LINES))
    translate.main(["--run", str(run), "--input", str(tmp_path / "text"), "--output", str(tmp_path / "out")])
    expected = (tmp_path / "out").read_text("utf-8").splitlines()
    assert len(set(expected)) > 4
    assert [question(port, line)["translations"][0]["text"] for line in LINES] == expected


def test_line_breaks_count_as_spaces(port):
    assert question(port, "ab\ncd\r\nef")["translations"] == question(port, "ab cd  ef")["translations"]


@pytest.mark.parametrize("line", LINES[:4])
def test_the_best_and_their_scores_are_those_of_the_search(port, trial, line):
    translator = trial.translator
    encoded = translator.encode([line])
    sizes = len(translator.vocabulary), encoded, translator.decoding
    (expected,) = search_n_best(translator.model, *sizes, translator.decoding.beam)
    assert expected[0] == search(translator.model, *sizes)[0]
    found = question(port, line)["translations"]
    texts = [
        translator.target.detokenize(words) for words in translator.vocabulary.decode([ids for ids, _ in expected])
    ]
    assert [one["text"] for one in found] == texts
    scores = [one["score"] for one in found]
    assert scores == pytest.approx([score for _, score in expected], rel=1e-5)
    assert len(scores) == translator.decoding.beam
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("line", LINES[:4])
def test_attention_is_the_models(port, trial, line):
    """Weights are rounded to three digits."""
    translator, attention = trial.translator, question(port, line)["attention"]
    (source,) = translator.encode([line])
    ((target, _),) = search(translator.model, len(translator.vocabulary), [source], translator.decoding)
    (sentence,) = attention["sentences"]
    assert sentence["title"] == line
    assert sentence["source"] == names(translator.vocabulary, source)
    assert sentence["target"] == names(translator.vocabulary, [*target, EOS])
    for kind, expected in weights(translator.model, source, [*target, EOS]).items():
        found = np.array(sentence[kind])
        assert found.shape == (attention["layers"], attention["heads"], *expected.shape[2:])
        assert found == pytest.approx(expected.numpy(), abs=6e-4)
        assert found.sum(axis=3) == pytest.approx(1, abs=5e-4 * found.shape[3])


def test_questions_at_once_get_their_own_answers(port):
    expected = [question(port, line) for line in LINES]
    with ThreadPoolExecutor(len(LINES)) as pool:
        assert list(pool.map(lambda line: question(port, line), LINES)) == expected


def test_page_says_which_model_it_is_and_runs_no_other_script(port):
    status, headers, content = exchange(port, f"GET / HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
    assert status == 200
    text = content.decode()
    page = lxml.html.fromstring(text)
    assert "With en-de/base/1 of scale toy. Data: toy: sentences to copy." in " ".join(page.text_content().split())
    assert "27.2 BLEU on its test set: nrefs:1|tok:13a" in page.text_content()
    assert [page.get_element_by_id(name).get("lang") for name in ("text", "translation")] == ["en", "de"]
    policy = headers["Content-Security-Policy"]
    for kind in ("style", "script"):
        (inline,) = re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "Access-Control-Allow-Origin" not in headers
    assert set(page.xpath("//@src | //@href")) == {"data:,", "#main"}


def test_what_a_run_says_of_itself_is_text_on_the_page(trial):
    label = "<script>alert(1)</script>"
    text = replace(trial, experiment=structs.replace(trial.experiment, label=label)).page().html
    assert label not in text
    assert "Data: &lt;script&gt;alert(1)&lt;/script&gt;." in text


def test_an_exported_model_is_served_until_ctrl_c(tmp_path):
    """Its folder has no score; its translations are those that `translate` made of the run."""
    train_run(tmp_path)
    do("export", "--run", tmp_path / RUN, "--to", tmp_path / "exported")
    with served(tmp_path / "exported") as (process, address):
        port = int(address.rpartition(":")[2].strip("/"))
        content = exchange(port, f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())[2].decode()
        assert "The model's folder holds no score of it (test.json)." in content
        for line, expected in zip(
            (tmp_path / "test.en").read_text().splitlines(),
            (tmp_path / RUN / "test.hyp").read_text("utf-8").splitlines(),
            strict=True,
        ):
            assert question(port, line)["translations"][0]["text"] == expected
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == ("", "transformer serve: ended by SIGINT\n")
        assert process.returncode == 130


def test_ctrl_c_ends_a_wait_that_the_signal_did_not_interrupt(run):
    """Another thread takes it here; one that comes just before the main thread waits is as little heard."""
    with served(run) as (process, address):
        question(int(address.rpartition(":")[2].strip("/")), "ab")
        time.sleep(1)  # by when the main thread waits for the next
        threads = Path(f"/proc/{process.pid}/task")
        newest = max(int(thread.name) for thread in threads.iterdir())
        assert ctypes.CDLL(None).tgkill(process.pid, newest, signal.SIGINT) == 0
        assert process.communicate(timeout=60) == ("", "transformer serve: ended by SIGINT\n")


# Refusals at the start.


def test_a_port_that_is_taken_is_named(run, port):
    expected = f"port {port}: cannot be listened on: Address already in use; --port 0 takes one that is free"
    assert error("serve", "--run", run, "--port", port) == expected


def test_a_run_without_weights_is_refused(run, tmp_path):
    shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("*.safetensors"))
    assert error("serve", "--run", tmp_path / "run", "--port", "0").startswith(
        f"{tmp_path}/run/average.safetensors: cannot be read"
    )


def test_a_parser_is_refused(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    learn([run / "vocabulary.txt"], ROWS, 1000, tmp_path / "run/vocabulary.model", symbols=["(S", ")S"])
    assert error("serve", "--run", tmp_path / "run", "--port", "0").endswith("expected a translator, found a parser")


def test_a_score_that_cannot_be_read_is_named(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run/test.json").write_text("{")
    assert "run/test.json: cannot be read as JSON" in error("serve", "--run", tmp_path / "run", "--port", "0")


@pytest.mark.parametrize("port", ["65536", "-1", "http"])
def test_a_port_that_is_none_is_refused(capsys, port):
    with pytest.raises(SystemExit, match="2"):
        do("serve", "--run", "none", f"--port={port}")
    assert f"expected a number from 0 to 65535, found {port}" in capsys.readouterr().err


# Refusals of requests.

TEXT = b'{"text": "ab"}'
REFUSED = {
    "path": ({"path": "/x"}, 404, "expected the path / or /translate, found /x"),
    "get": ({"method": "GET"}, 405, "/translate: expected POST, found GET"),
    "post of the page": ({"path": "/"}, 405, "/: expected GET, found POST"),
    "preflight": ({"method": "OPTIONS"}, 405, "Unsupported method ('OPTIONS')"),
    "put": ({"method": "PUT"}, 405, "Unsupported method ('PUT')"),
    "no method": ({"method": "\x00\x01"}, 405, "Unsupported method"),
    "host": ({"Host": "evil.example:{port}"}, 403, "Host: expected 127.0.0.1:"),
    "host without port": ({"Host": "localhost"}, 403, "found localhost"),
    "no host": ({"Host": None}, 403, "found none"),
    "two hosts": ({"Host": "localhost:{port}\r\nHost: evil.example"}, 403, ", evil.example"),
    "origin": ({"Origin": "http://evil.example"}, 403, "expected a page of this server, found http://evil.example"),
    "secret origin": ({"Origin": "null"}, 403, "expected a page of this server, found null"),
    "another port": ({"Origin": "http://localhost:1"}, 403, "expected a page of this server"),
    "form": ({"Content-Type": "text/plain"}, 415, "expected application/json, found text/plain"),
    "no kind": ({"Content-Type": None}, 415, "expected application/json"),
    "no length": ({"Content-Length": None}, 411, "expected a number of bytes, found none"),
    "negative length": ({"Content-Length": "-1"}, 411, "expected a number of bytes, found -1"),
    "chunks": ({"Content-Length": None, "Transfer-Encoding": "chunked"}, 411, "found none"),
    "a byte too many": ({"body": b" " * (request.BODY + 1)}, 413, "expected at most 10,000 bytes, found 10001"),
    "a large body": ({"body": b" " * 500_000}, 413, "found 500000"),
    "a length of many digits": ({"Content-Length": "9" * 5000}, 413, "expected at most 10,000 bytes"),
    "broken JSON": ({"body": b"{"}, 400, "the request: cannot be read as JSON"),
    "no object": ({"body": b"[]"}, 400, "the request: expected"),
    "no text": ({"body": b"{}"}, 400, "text"),
    "a number": ({"body": b'{"text": 5}'}, 400, "text"),
    "depth": ({"body": b'{"text": ' + b"[" * 9000}, 400, "nested too deeply"),
    "invalid UTF-8": ({"body": b'{"text": "\xff"}'}, 400, "'utf-8' codec"),
    "half a character": ({"body": rb'{"text": "\ud800"}'}, 400, "text"),
    "less than announced": ({"Content-Length": str(len(TEXT) + 1), "end": True}, 400, "expected 15 bytes, found 14"),
    "nothing": ({"body": b'{"text": ""}'}, 400, "of 1 to 80 words, as the tokeniser cuts them, found 0"),
    "blanks": ({"body": rb'{"text": " \n "}'}, 400, "found 0"),
    "too many words": ({"body": b'{"text": "' + b"ab " * 81 + b'"}'}, 400, "cuts them, found 81"),
    "too many words and marks": ({"body": b'{"text": "' + b"ab, " * 41 + b'"}'}, 400, "cuts them, found 82"),
    "too many subwords": ({"body": b'{"text": "' + b"ab" * 999 + b'"}'}, 400, f"at most {LONGEST} subwords, found"),
    "a long line": ({"path": "/" + "x" * 70_000}, 414, "Request-URI Too Long"),
    "many headers": ({f"X-{number}": "x" for number in range(200)}, 431, "Too many headers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_requests_are_refused_in_one_line_of_json(port, case):
    changes, expected, words = REFUSED[case]
    status, headers, content = exchange(port, *post(port, **({"body": TEXT} | changes)))
    assert (status, headers["Content-Type"]) == (expected, "application/json; charset=utf-8")
    (message,) = json.loads(content).values()
    assert words in message
    assert message.isprintable()
    assert "Access-Control-Allow-Origin" not in headers
    assert ("Allow" in headers) == (expected == 405)


def test_head_gets_no_content(port):
    status, _, content = exchange(port, f"HEAD / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode(), head=True)
    assert (status, content) == (405, b"")


def test_a_page_of_the_server_itself_may_ask(port):
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        assert exchange(port, *post(port, body=TEXT, Host=host, Origin=f"http://{host}"))[0] == 200


def test_after_a_body_without_end_it_goes_on(port):
    """Nobody reads on for ever: the connection is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(post(port, body=b"", **{"Content-Length": "999999999"})[0])
        with pytest.raises(ConnectionError):
            client.sendall(b" " * 2**27)
    assert question(port, "ab")


def test_no_other_address_of_this_machine_is_served(port):
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", port), timeout=20)


# Clients that are slow, many or gone; the server runs in this process.


def test_a_client_has_so_long_to_send(monkeypatch):
    """A request that has no end, of which some comes all the time, is not read for ever."""
    monkeypatch.setattr(request, "PATIENCE", SHORT)
    with answering(lambda text: {"text": text}) as server:
        assert exchange(server.port, post(server.port, body=TEXT)[0][:-1])[0::2] == (
            408,
            b'{"error": "expected 14 bytes within 3 seconds, found fewer"}',
        )
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:

            def refused():
                try:
                    client.sendall(b"x")
                except ConnectionError:
                    return True

            wait_until(refused)
        assert question(server.port, "ab") == {"text": "ab"}


def test_many_silent_clients_lock_nobody_out(monkeypatch):
    monkeypatch.setattr(request, "PATIENCE", SHORT)
    with answering(lambda text: {"text": text}) as server:
        clients = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(40)]
        assert question(server.port, "ab") == {"text": "ab"}
        for client in clients:
            client.close()


def test_questions_whose_client_has_left_are_not_worked_out():
    """The model is busy with the first; the page gives the second up for the third."""
    live = Live()
    with answering(live.answer) as server, ThreadPoolExecutor(2) as pool:
        first = pool.submit(question, server.port, "first")
        assert live.begun.wait(60)
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
            client.sendall(post(server.port, body=b'{"text": "second"}')[0])
            wait_until(server.questions.qsize)
        third = pool.submit(question, server.port, "third")
        wait_until(lambda: server.questions.qsize() == 2)
        live.go.set()
        assert (first.result(60), third.result(60)) == ({"text": "first"}, {"text": "third"})
    assert live.asked == ["first", "third"]


def test_an_error_in_the_model_is_told_and_the_server_goes_on(capfd):
    def answer(text):
        if text == "bad":
            raise RuntimeError("something broke")
        return {"text": text}

    with answering(answer) as server:
        message = post(server.port, body=b'{"text": "bad"}')[0]
        assert exchange(server.port, message)[0::2] == (500, b'{"error": "something broke"}')
        assert question(server.port, "ab") == {"text": "ab"}
    shown = []

    def told():
        shown.append(capfd.readouterr().err)
        return "RuntimeError: something broke" in "".join(shown)

    wait_until(told)  # it is written after the answer


def test_descriptors_of_any_number_are_asked_about():
    """What a process opens has numbers from 1,024 on where lower ones are taken."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1024):
            stack.enter_context(open(os.devnull))
        server = stack.enter_context(answering(lambda text: {"text": text}))
        assert server.fileno() >= 1024
        assert question(server.port, "ab") == {"text": "ab"}
