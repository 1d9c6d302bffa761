"""Text files: what a line is, and what is an error."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.files import InputError
from transformer.text import (
    GROUP,
    LONGEST_LINE,
    Segment,
    count_lines,
    find_segments,
    groups,
    in_order,
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


@given(st.binary(max_size=30), st.integers(0, 9), st.none() | st.integers(0, 9))
def test_a_slice_is_one_of_all_lines(tmp_path_factory, content, start, stop):
    path = tmp_path_factory.mktemp("text") / "text"
    path.write_bytes(content.decode("latin-1").encode())
    assert list(read_lines(path, start, stop)) == list(read_lines(path))[start:stop]


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


def test_a_slice_names_the_line_as_the_whole_does(write):
    path = write(b"one\n\xfe\nthree\n\xff\n")
    assert list(read_lines(path, 2, 3)) == ["three"]
    with pytest.raises(InputError, match=rf"{path}, line 4: expected UTF-8"):
        list(read_lines(path, 2))


@pytest.mark.parametrize("start", [0, 1, 3])
def test_a_line_that_is_too_long_is_named_wherever_a_slice_begins(write, start):
    """One that is as long as it may be is read."""
    most = "a" * LONGEST_LINE
    assert list(read_lines(write(f"{most}\nb\n{most}"))) == [most, "b", most]
    path = write(f"one\n{most}a\nthree\nfour\n")
    with pytest.raises(InputError, match=rf"{path}, line 2: expected at most {LONGEST_LINE:,} bytes, found more"):
        list(read_lines(path, start))


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


def test_segments(write):
    sgm = (
        '<srcset setid="newstest" srclang="any">\n<doc docid="a&amp;b">\n<hl>\n'
        '<seg id="1">Fish &amp; chips &lt;3, he said: &quot;&#252;ber&quot;</seg>\n</hl>\n'
        '<p>\n<seg id="2"> &amp;quot; stays an entity </seg><seg id="3">x\u2028y</seg>\n'
        '<SEG id="4"></SEG>\n<seg id="5">a&#10;b</seg>\n</p></doc></srcset>\n'
    )
    expected = ['Fish & chips <3, he said: "über"', "&quot; stays an entity", "x\u2028y", "", "a b"]
    segments = list(find_segments(read_lines(write(sgm)), "a.sgm"))
    assert [segment.text for segment in segments] == expected
    assert [segment[:2] for segment in segments] == [("a&b", str(number)) for number in range(1, 6)]


def test_segments_of_documents(write):
    """Tags and attributes may have any case, order and quotes, several may be on a line; no id is read from a docid."""
    sgm = (
        '<REFSET trglang="de" setid="newstest2014" srclang="any">\r\n<DOC SYSID="ref" DOCID=\'x y\' origlang="de">\r\n'
        '<seg id=1>a</seg>\r\n<SEG Id = "2">b <doc docid=no> c</SEG></doc><doc docid=z><seg>d</seg>\r\n</doc>\r\n'
        '<doc genre="news">\r\n<seg docid="no" id="3">e</seg></doc></refset>\r\n'
    )
    assert list(find_segments(read_lines(write(sgm)), "a.sgm")) == [
        Segment("x y", "1", "a"),
        Segment("x y", "2", "b <doc docid=no> c"),
        Segment("z", None, "d"),
        Segment(None, "3", "e"),
    ]


HERE = [Segment("a", "1", "eins"), Segment("a", "2", "zwei"), Segment("b", "1", "drei")]


def test_segments_in_order():
    there = [Segment("a", "1", "one"), Segment(None, "2", "two"), Segment("b", None, "three")]  # as far as it says
    assert list(in_order(HERE, there, "ref", "src")) == HERE


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ([HERE[0], HERE[2], HERE[1]], "ref, <seg> 2: expected document b, id 1 as in src, found document a, id 2"),
        ([HERE[1], HERE[0], HERE[2]], "ref, <seg> 1: expected document a, id 2 as in src, found document a, id 1"),
        (HERE[:2], "ref, <seg> 3: expected none as in src, found document b, id 1"),
        ([*HERE, HERE[0]], "ref, <seg> 4: expected document a, id 1 as in src, found none"),
    ],
    ids=["documents", "ids", "fewer", "more"],
)
def test_segments_in_another_order(there, message):
    with pytest.raises(InputError) as error:
        list(in_order(HERE, there, "ref", "src"))
    assert str(error.value) == message


def test_a_file_without_segments_is_an_error(write):
    path = write("plain\ntext\n")
    with pytest.raises(InputError, match=rf"{path}: expected <seg> elements, found none"):
        list(find_segments(read_lines(path), path))


@pytest.mark.parametrize("line", ["<seg id=2>a", "<seg id=2>a <seg id=3>b</seg>"])
def test_a_segment_that_does_not_end_is_an_error(write, line):
    path = write(f"<seg id=1>a</seg>\n{line}\n")
    with pytest.raises(InputError, match=rf"{path}, line 2: expected every <seg>"):
        list(find_segments(read_lines(path), path))
