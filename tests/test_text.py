"""Text files: what a line is, and what is an error."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.files import InputError
from transformer.text import (
    GROUP,
    LONGEST_LINE,
    count_lines,
    groups,
    read_lines,
    read_pairs,
    split_lines,
)

# Each of these ends a line for str.splitlines or for a text file of Python; none does here.
INSIDE = ["\u2028", "\u2029", "\x85", "\r", "\x0b", "\x0c", "\x1c", "\x1e"]


@pytest.fixture
def write(tmp_path):
    def write(content, name="text"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.mark.parametrize("mark", INSIDE)
def test_only_a_line_feed_ends_a_line(write, mark):
    assert list(read_lines(write(f"a{mark}b\nc\n"))) == [f"a{mark}b", "c"]


def test_one_carriage_return_is_stripped(write):
    assert list(read_lines(write("a\r\nb\r\r\n\r\nc"))) == ["a", "b\r", "", "c"]


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))))
def test_every_text_survives(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("text") / "text"
    path.write_bytes(b"".join(line.encode() + b"\r\n" for line in lines))
    assert list(read_lines(path)) == lines
    assert count_lines(path) == len(lines)


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\n", b"\xff\n\n", b"a\n" * 10**6 + b"b"])
def test_lines_are_counted_whatever_they_hold(write, content):
    assert count_lines(write(content)) == len(content.splitlines())


@pytest.mark.parametrize(
    "bad", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"caf\xe9"], ids=["ff", "cut", "surrogate", "latin1"]
)
def test_what_is_not_utf8_is_named_with_its_line(write, bad):
    path = write(b"one\ntwo\n" + bad + b"\nfour\n")
    with pytest.raises(InputError, match=rf"{path}, line 3: expected UTF-8"):
        list(read_lines(path))


def test_a_line_that_is_too_long_is_named(write):
    """One that is as long as it may be is read."""
    most = "a" * LONGEST_LINE
    assert list(read_lines(write(f"{most}\nb\n{most}"))) == [most, "b", most]
    path = write(f"one\n{most}a\nthree\nfour\n")
    with pytest.raises(InputError, match=rf"{path}, line 2: expected at most {LONGEST_LINE:,} bytes, found more"):
        list(read_lines(path))


def test_no_more_than_a_line_is_held_of_one_without_end():
    class Endless(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            buffer[:] = b"x" * len(buffer)
            return len(buffer)

    assert next(split_lines(io.BufferedReader(Endless()))) == b"x" * (LONGEST_LINE + 1)


@given(st.lists(st.integers(0, GROUP + 1)), st.integers(1, 5))
def test_groups_are_all_items_and_begin_no_item_beyond_what_is_held_together(sizes, most):
    lists = list(groups(sizes, most, lambda size: size))
    assert [size for group in lists for size in group] == sizes
    for number, group in enumerate(lists):
        assert 1 <= len(group) <= most
        assert sum(group[:-1]) < GROUP
        assert number == len(lists) - 1 or len(group) == most or sum(group) >= GROUP


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nothing: cannot be read: No such file"):
        list(read_lines(tmp_path / "nothing"))


def test_pairs_side_by_side(write):
    assert list(read_pairs(write("a\nb\n", "en"), write("x\n\n", "de"))) == [("a", "x"), ("b", "")]


@pytest.mark.parametrize(("source", "target"), [(2, 5), (5, 2), (0, 3), (3, 0), (0, 0)])
def test_what_is_no_pairs_is_named(write, source, target):
    en, de = write("a\n" * source, "en"), write("x\n" * target, "de")
    problem = f"{en} has {source}, {de} has {target}" if source or target else f"found none: {en} and {de} are empty"
    with pytest.raises(InputError, match=problem):
        list(read_pairs(en, de))
