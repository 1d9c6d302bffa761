"""Files are complete or absent. These tests also define lines of text and errors."""

import gzip
import hashlib
import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.storage.files import GROUP, LONGEST_LINE, InputError, groups, read_lines, read_pairs, replacing, sha256

OLD = "old\n"


@pytest.fixture
def path(tmp_path):
    """A file with the content OLD, the only one in its folder."""
    path = tmp_path / "name.txt"
    path.write_text(OLD)
    return path


def assert_untouched(path):
    """Check that the old file exists, and nothing else."""
    assert path.read_text() == OLD
    assert os.listdir(path.parent) == [path.name]


def test_replaces(path):
    with replacing(path) as file:
        file.write("Straße\r\u2028\x85\n")
        file.flush()
        assert path.read_text() == OLD
    assert path.read_bytes() == "Straße\r\u2028\x85\n".encode()
    assert sha256(path) == hashlib.sha256("Straße\r\u2028\x85\n".encode()).hexdigest()
    assert os.listdir(path.parent) == [path.name]


def write_half(path):
    with replacing(path) as file:
        file.write("half")
        raise KeyboardInterrupt


def test_an_interrupted_writer_leaves_the_old_file(path):
    with pytest.raises(KeyboardInterrupt):
        write_half(path)
    assert_untouched(path)


@contextmanager
def full_disk():
    """Let writes beyond 4 KiB fail like on a full disk: a part is written, then OSError is raised."""
    handler, limits = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("size", [5000, 1_000_000])  # within a write buffer, where only the flush fails; beyond it
def test_a_full_disk_leaves_the_old_file(path, size):
    with pytest.raises(OSError, match="File too large"), full_disk(), replacing(path) as file:
        file.write("x" * size)
    assert_untouched(path)


def test_an_output_that_cannot_be_made_is_named_and_not_its_temporary_file():
    with pytest.raises(OSError, match=r": '/proc/out\.de'"), replacing("/proc/out.de"):
        pytest.fail("opened")  # nobody can make a file here, not even root


def test_a_folder_is_refused_before_anything_is_made(tmp_path):
    for path in (tmp_path, ""):
        with pytest.raises(IsADirectoryError), replacing(path):
            pytest.fail("opened")  # the result of hours would be lost


def test_a_pipe_stays_one(tmp_path):
    os.mkfifo(pipe := tmp_path / "pipe")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with replacing(pipe) as file:
        file.write("text")
    assert (os.read(reader, 9), pipe.is_fifo(), os.listdir(tmp_path)) == (b"text", True, ["pipe"])
    os.close(reader)


def test_standard_output_keeps_earlier_and_later_content(tmp_path):
    program = "from transformer.storage.files import write; write('/dev/stdout', 'text, '); print('and more')"
    path = tmp_path / "out"
    path.write_text("kept\n")
    with path.open("a") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True)
    assert path.read_text() == "kept\ntext, and more\n"


# For str.splitlines or Python's text files, each of these characters ends a line. Here none does.
INSIDE = ["\u2028", "\u2029", "\x85", "\r", "\x0b", "\x0c", "\x1c", "\x1e"]


@pytest.fixture
def write(tmp_path):
    def write(content, name="text"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def test_only_a_line_feed_ends_a_line(write):
    for mark in INSIDE:
        assert list(read_lines(write(f"a{mark}b\nc\n"))) == [f"a{mark}b", "c"]
    assert list(read_lines(write("a\r\nb\r\r\n\r\nc"))) == ["a", "b\r", "", "c"]


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))))
def test_every_text_survives(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("text") / "text"
    path.write_bytes(b"".join(line.encode() + b"\r\n" for line in lines))
    assert list(read_lines(path)) == lines


@pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"caf\xe9"])
def test_what_is_not_utf8_is_named_with_its_line(write, bad):
    path = write(b"one\ntwo\n" + bad + b"\nfour\n")
    with pytest.raises(InputError, match=rf"{path}, line 3: expected UTF-8"):
        list(read_lines(path))


def test_a_file_that_is_packed_is_called_so(write):
    with pytest.raises(InputError, match="line 1: expected UTF-8, found gzip"):
        list(read_lines(write(gzip.compress(b"a sentence\n"))))


def test_a_line_that_is_too_long_is_named(write):
    """A line of the maximum length is read."""
    most = "a" * LONGEST_LINE
    assert list(read_lines(write(f"{most}\nb\n{most}"))) == [most, "b", most]
    path = write(f"one\n{most}a\nthree\nfour\n")
    with pytest.raises(InputError, match=rf"{path}, line 2: expected up to {LONGEST_LINE:,} bytes, found more"):
        list(read_lines(path))


@given(st.lists(st.integers(0, GROUP + 1)), st.integers(1, 5))
def test_groups_have_all_items_and_start_none_beyond_the_limit(sizes, most):
    lists = list(groups(sizes, most, lambda size: size))
    assert [size for group in lists for size in group] == sizes
    for number, group in enumerate(lists):
        assert 1 <= len(group) <= most
        assert sum(group[:-1]) < GROUP
        assert number == len(lists) - 1 or len(group) == most or sum(group) >= GROUP


def test_what_comes_before_a_bad_line_is_not_lost(write):
    path = write(b"one\ntwo\nthree\n\xff\nfive\n")
    lists = groups(read_lines(path), 2, len)
    assert [next(lists), next(lists)] == [["one", "two"], ["three"]]
    with pytest.raises(InputError, match="line 4"):
        next(lists)


def test_pairs_side_by_side(write):
    assert list(read_pairs(write("a\nb\n", "en"), write("x\n\n", "de"))) == [("a", "x"), ("b", "")]


@pytest.mark.parametrize(("source", "target"), [(2, 5), (5, 2), (0, 3), (3, 0), (0, 0)])
def test_what_is_no_pairs_is_named(write, source, target):
    en, de = write("a\n" * source, "en"), write("x\n" * target, "de")
    problem = f"{en} has {source}, {de} has {target}" if source or target else f"found none: {en} and {de} are empty"
    with pytest.raises(InputError, match=problem):
        list(read_pairs(en, de))
