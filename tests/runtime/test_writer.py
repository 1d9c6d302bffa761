"""Files written beside the training: in order, and no error is lost."""

import threading
from pathlib import Path

import pytest

from transformer.runtime.writer import Writer


def test_tasks_run_elsewhere_in_order():
    done, go = [], threading.Event()
    with Writer() as writer:
        writer.do(lambda: (go.wait(10), done.append(threading.current_thread())))
        assert done == []  # and yet `do` came back
        go.set()
        writer.do(done.append, 2)
    assert done[1] == 2
    assert done[0] is not threading.current_thread()


@pytest.mark.parametrize("call", ["do", "wait"])
def test_an_error_is_raised_by_the_next_call(call):
    with Writer() as writer:
        writer.do(open, "/nowhere/at/all")
        with pytest.raises(FileNotFoundError, match="/nowhere/at/all"):
            getattr(writer, call)(*([print] if call == "do" else []))


def test_an_error_is_raised_at_the_end():
    with pytest.raises(FileNotFoundError, match="/nowhere/at/all"), Writer() as writer:
        writer.do(open, "/nowhere/at/all")


def test_an_error_hides_none_before_it(capsys):
    def both():
        with Writer() as writer:
            writer.do(open, "/nowhere/at/all")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        both()
    assert "and FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/at/all'" in capsys.readouterr().err


def test_check_raises_what_is_known_and_waits_for_nothing():
    writer, go = Writer(), threading.Event()
    writer.do(lambda: go.wait(10) and Path("/nowhere/at/all").read_text())
    writer.check()
    go.set()
    while not writer.task.done():
        pass
    with pytest.raises(FileNotFoundError):
        writer.check()
