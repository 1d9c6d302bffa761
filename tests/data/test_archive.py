"""Unpacking: plain text out of whatever a corpus comes in, or one clear line."""

import gzip
import io
import tarfile
import zipfile

import pytest
from support.commands import do, error

from transformer.data.archive import Segment, find_segments
from transformer.files import LONGEST_LINE, InputError

TEXT = "Ein Hund läuft.\nZwei\u2028Hunde\x85laufen\rweg.\r\n\nLetzte Zeile"
LINES = "Ein Hund läuft.\nZwei\u2028Hunde\x85laufen\rweg.\n\nLetzte Zeile\n".encode()
LINK = object()  # a member's content: it is a link to /etc/passwd
MEMBER = ("--member", "m")


def tar(*members, packed=False):
    """Return a .tar, or a .tgz whose gzip stores without compression, so that tests know what is where in it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if content is LINK:
                info.type, info.linkname, content = tarfile.SYMTYPE, "/etc/passwd", b""
            elif name.endswith("/"):
                info.type = tarfile.DIRTYPE
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), 0) if packed else buffer.getvalue()


def tgz(*members):
    return tar(*members, packed=True)


def zipped(*members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.fixture
def output(tmp_path):
    (tmp_path / "corpora").mkdir()
    return tmp_path / "corpora" / "corpus.de"


@pytest.fixture
def unpacked(tmp_path, output):
    """Return the text that is unpacked from a file of this name and content."""

    def unpacked(name, content, *options, format="text"):
        (tmp_path / name).write_bytes(content)
        do("unpack", "--input", tmp_path / name, "--format", format, "--output", output, *options)
        assert list(output.parent.iterdir()) == [output]
        return output.read_bytes()

    return unpacked


@pytest.fixture
def refused(tmp_path, output):
    """Return the one line with which a file of this name and content is refused, its own path as FILE."""

    def refused(name, content, *options, format="text"):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        message = error("unpack", "--input", tmp_path / name, "--format", format, "--output", output, *options)
        assert list(output.parent.iterdir()) == []
        return message.replace(str(tmp_path / name), "FILE")

    return refused


@pytest.mark.parametrize(("name", "pack"), [("a.txt", bytes), ("a.txt.gz", gzip.compress)])
def test_plain_files(unpacked, name, pack):
    assert unpacked(name, pack(TEXT.encode()), "--lines", "4") == LINES


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("pack", [tar, tgz, zipped])
@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz", "a.zip"])
def test_archives_by_any_name(unpacked, name, pack, ending):
    """A download keeps its name, however it is packed."""
    member = f"training/c.de{ending}"
    content = gzip.compress(TEXT.encode()) if ending else TEXT.encode()
    members = [("training/", b""), ("training/c.en", b"other"), ("./" + member, content), ("last", b"also other")]
    assert unpacked(name, pack(*members), "--member", member, "--lines", "4") == LINES


WHOLE = (("first", b"1\n" * 900), ("m", b"2\n" * 900))
DAMAGED = "FILE: damaged or cut short: "
NONE = "FILE: expected a member m, found none; the nearest are "
PAGE = b"<html>Not found</html>" * 99
REFUSED = {  # a name, a content, options, and the message
    "html instead of a .gz": ("a.gz", PAGE, (), DAMAGED),
    "an empty archive": ("a.tgz", b"", MEMBER, DAMAGED),
    "garbage as gzip": ("a.tgz", b"\x1f\x8b\x08\0garbage" * 99, MEMBER, DAMAGED),
    "a .gz cut short": ("a.gz", gzip.compress(TEXT.encode())[:-9], (), DAMAGED),
    "a .gz in a .tar cut short": ("a.tar", tar(("m.gz", gzip.compress(b"a\n")[:-9])), ("--member", "m.gz"), DAMAGED),
    "a wrong CRC": ("a.tgz", tgz(("m", b"right\n"), ("n", bytes(9**5))).replace(b"right", b"wrong"), MEMBER, DAMAGED),
    "a missing member": ("a.tgz", tgz(("folder/m", b"a\n")), MEMBER, f"{NONE}folder/m"),
    "a link": ("a.tgz", tgz(("m", LINK), ("other", b"a\n")), MEMBER, f"{NONE}other"),
    "not UTF-8": ("a.tgz", tgz(("m", b"a\nb\nc\xe9\n")), MEMBER, "FILE: m, line 3: expected UTF-8, found an invalid"),
    "an endless line": ("a.gz", gzip.compress(bytes(1 << 26)), (), f"FILE, line 1: expected at most {LONGEST_LINE:,}"),
    "nothing": ("a.txt", b"", (), "FILE: expected some lines, found 0"),
    "too few lines": ("a.txt", b"a\nb\nc\n", ("--lines", "4"), "FILE: expected 4 lines, found 3"),
    "too many lines": ("a.txt", b"a\nb\nc\n", ("--lines", "2"), "FILE: expected 2 lines, found more"),
    "a member of a .gz": ("a.gz", b"", MEMBER, "FILE: expected an archive (.tar, .tar.gz, .tgz, .zip) to hold the"),
    "no file": ("a.gz", None, (), "FILE: cannot be read: No such file"),
    "text beside text": ("a", b"a", ("--beside", "b"), "--beside: expected FILE [MEMBER], with --format sgm only"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(refused, case):
    name, content, options, message = REFUSED[case]
    assert refused(name, content, *options).startswith(message)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tar", tar(*WHOLE)[: 3072 + 1800]),  # two headers, 2048 bytes of the first member, 1800 of the second
        ("a.tgz", tgz(*WHOLE)),
        ("a.zip", zipped(*WHOLE)),
    ],
)
def test_an_archive_cut_short_anywhere(refused, name, content):
    for length in [*range(0, len(content), 97), len(content) - 1]:
        message = refused(name, content[:length], *MEMBER)
        assert message.startswith(DAMAGED) or (name == "a.tar" and message.startswith(NONE))


def sgm(*ids):
    """Return a test set whose segments have these documents and ids."""
    return "".join(f'<doc docid="{doc}"><seg id="{number}">{doc}{number}</seg></doc>\n' for doc, number in ids).encode()


def test_sgm_beside_the_other_side(tmp_path, unpacked, output, refused):
    order = [("a", 1), ("a", 2), ("b", 1)]
    members = [("src", sgm(*order)), ("ref", sgm(*order)), ("wrong", sgm(*reversed(order))), ("b", b"x\n")]
    beside = ["--beside", tmp_path / "a.tgz", "src"]
    assert unpacked("a.tgz", zipped(*members), "--member", "ref", *beside, format="sgm") == b"a1\na2\nb1\n"
    assert unpacked("a.tgz", zipped(*members), "--member", "wrong", format="sgm") == b"b1\na2\na1\n"
    output.unlink()
    message = refused("a.tgz", zipped(*members), "--member", "wrong", *beside, format="sgm")
    assert message == "FILE: wrong, <seg> 1: expected document a, id 1 as in FILE: src, found document b, id 1"
    assert "FILE: b: expected <seg>" in refused("a.tgz", zipped(*members), "--member", "b", format="sgm")


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


@pytest.mark.parametrize("line", ["<seg id=2>a", "<seg id=2>a <seg id=3>b</seg>"])
def test_a_segment_that_does_not_end_is_an_error(line):
    with pytest.raises(InputError, match=r"a\.sgm, line 2: expected every <seg>"):
        list(find_segments(["<seg id=1>a</seg>", line], "a.sgm"))
