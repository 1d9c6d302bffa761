"""Numbers, options and texts that a command cannot use are refused in one line, and nothing takes for ever."""

import signal
import socket
import time

import pytest
from support.commands import do, error
from support.serving import ask, served

from transformer.commands.cluster import _read_job

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
