"""WMT's test sets: segments, their documents and numbers."""

import pytest

from transformer.data.archive import Segment, find_segments, in_order
from transformer.files import InputError


def test_segments():
    sgm = (
        '<srcset setid="newstest" srclang="any">\n<doc docid="a&amp;b">\n<hl>\n'
        '<seg id="1">Fish &amp; chips &lt;3, he said: &quot;&#252;ber&quot;</seg>\n</hl>\n'
        '<p>\n<seg id="2"> &amp;quot; stays an entity </seg><seg id="3">x\u2028y</seg>\n'
        '<SEG id="4"></SEG>\n<seg id="5">a&#10;b</seg>\n</p></doc></srcset>\n'
    )
    expected = ['Fish & chips <3, he said: "über"', "&quot; stays an entity", "x\u2028y", "", "a b"]
    segments = list(find_segments(sgm.split("\n"), "a.sgm"))
    assert [segment.text for segment in segments] == expected
    assert [segment[:2] for segment in segments] == [("a&b", str(number)) for number in range(1, 6)]


def test_segments_of_documents():
    """Tags and attributes may have any case, order and quotes, several may be on a line; no id is read from a docid."""
    sgm = (
        '<REFSET trglang="de" setid="newstest2014" srclang="any">\r\n<DOC SYSID="ref" DOCID=\'x y\' origlang="de">\r\n'
        '<seg id=1>a</seg>\r\n<SEG Id = "2">b <doc docid=no> c</SEG></doc><doc docid=z><seg>d</seg>\r\n</doc>\r\n'
        '<doc genre="news">\r\n<seg docid="no" id="3">e</seg></doc></refset>\r\n'
    )
    assert list(find_segments(sgm.split("\n"), "a.sgm")) == [
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


def test_a_file_without_segments_is_an_error():
    with pytest.raises(InputError, match=r"a\.sgm: expected <seg> elements, found none"):
        list(find_segments(["plain", "text"], "a.sgm"))


@pytest.mark.parametrize("line", ["<seg id=2>a", "<seg id=2>a <seg id=3>b</seg>"])
def test_a_segment_that_does_not_end_is_an_error(line):
    with pytest.raises(InputError, match=r"a\.sgm, line 2: expected every <seg>"):
        list(find_segments(["<seg id=1>a</seg>", line], "a.sgm"))
