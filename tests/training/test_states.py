"""Files written beside the training: in order, and no error is lost."""

import threading

import pytest

from transformer.training.states import Writer


def test_tasks_run_elsewhere_in_order():
    done, go = [], threading.Event()
    with Writer() as writer:
        writer.do(lambda: (go.wait(10), done.append(threading.current_thread())))
        writer.check()  # waits for nothing
        assert done == []
        go.set()
        writer.do(done.append, 2)
    assert done[1] == 2
    assert done[0] is not threading.current_thread()


@pytest.mark.parametrize("call", ["do", "wait", "check", "__exit__"])
def test_an_error_is_raised_by_the_next_call(call):
    writer = Writer()
    writer.do(open, "/nowhere/at/all")
    while not writer.task.done():
        pass
    with pytest.raises(FileNotFoundError, match="/nowhere/at/all"):
        getattr(writer, call)(*{"do": [print], "__exit__": [None] * 3}.get(call, []))


def test_an_error_hides_none_before_it(caplog):
    def both():
        with Writer() as writer:
            writer.do(open, "/nowhere/at/all")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        both()
    assert "and FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/at/all'" in caplog.text
