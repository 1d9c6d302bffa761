"""Unpacking: plain text from every archive format of a corpus, or one clear line."""

import gzip
import io
import itertools
import tarfile

import pytest
from support import archives

from transformer.data.archive import _find_segments, unpack
from transformer.storage.files import LONGEST_LINE, InputError

TEXT = "Ein Hund läuft.\nZwei\u2028Hunde\x85laufen\rweg.\r\n\nLetzte Zeile"
LINES = "Ein Hund läuft.\nZwei\u2028Hunde\x85laufen\rweg.\n\nLetzte Zeile\n".encode()
LINK = object()  # content of a member that is a link to /etc/passwd
MEMBER = {"member": "m"}


def tar(*members, packed=False):
    """Return a .tar or .tgz. The gzip stores without compression, so that tests can find the bytes in it."""
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
    return archives.zipped(dict(members))


@pytest.fixture
def output(tmp_path):
    (tmp_path / "corpora").mkdir()
    return tmp_path / "corpora" / "corpus.de"


@pytest.fixture
def unpacked(tmp_path, output):

    def unpacked(name, content, **options):
        (tmp_path / name).write_bytes(content)
        unpack(tmp_path / name, output, "text", **options)
        return output.read_bytes()

    return unpacked


@pytest.fixture
def refused(tmp_path, output):
    """Return the error line for a file with this name and content. FILE replaces its path."""

    def refused(name, content, **options):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError) as caught:
            unpack(tmp_path / name, output, **{"format": "text"} | options)
        assert list(output.parent.iterdir()) == []
        return str(caught.value).replace(str(tmp_path / name), "FILE")

    return refused


@pytest.mark.parametrize(("ending", "pack"), [("", bytes), (".gz", gzip.compress)])
def test_plain_files_and_archives_by_any_name(unpacked, ending, pack):
    """A download keeps its name in every archive format."""
    content, member = pack(TEXT.encode()), f"training/c.de{ending}"
    assert unpacked(f"a.txt{ending}", content, lines=4) == LINES
    members = [("training/", b""), ("training/c.en", b"other"), ("./" + member, content), ("last", b"also other")]
    for name, archive in itertools.product(("a.tar.gz", "a.tgz", "a.zip"), (tar, tgz, zipped)):
        assert unpacked(name, archive(*members), member=member, lines=4) == LINES


ENCRYPTED = zipped(("m", b"a\n")).replace(b"PK\1\2\x14\3\x14\0\0", b"PK\1\2\x14\3\x14\0\1")  # the bit that says so
DAMAGED = "FILE: damaged or truncated: "
NONE = "FILE: expected a member m, found none; the most similar are "
PAGE = b"<html>Not found</html>" * 99
REFUSED = {  # a name, a content, options, and the message
    "html instead of a .gz": ("a.gz", PAGE, {}, DAMAGED),
    "a .gz in a .tar cut short": ("a.tar", tar(("m.gz", gzip.compress(b"a\n")[:-9])), {"member": "m.gz"}, DAMAGED),
    "a wrong CRC": ("a.tgz", tgz(("m", b"right\n"), ("n", bytes(9**5))).replace(b"right", b"wrong"), MEMBER, DAMAGED),
    "a missing member": ("a.tgz", tgz(("folder/m", b"a\n")), MEMBER, f"{NONE}folder/m"),
    "encrypted": ("a.zip", ENCRYPTED, MEMBER, "FILE: cannot be read: File <ZipInfo filename='m'"),
    "a link": ("a.tgz", tgz(("m", LINK), ("other", b"a\n")), MEMBER, f"{NONE}other"),
    "not UTF-8": ("a.tgz", tgz(("m", b"a\nb\nc\xe9\n")), MEMBER, "FILE: m, line 3: expected UTF-8, found an invalid"),
    "an endless line": ("a.gz", gzip.compress(bytes(1 << 26)), {}, f"FILE, line 1: expected up to {LONGEST_LINE:,}"),
    "nothing": ("a.txt", b"", {}, "FILE: expected some lines, found 0"),
    "too few lines": ("a.txt", b"a\nb\nc\n", {"lines": 4}, "FILE: expected 4 lines, found 3"),
    "too many lines": ("a.txt", b"a\nb\nc\n", {"lines": 2}, "FILE: expected 2 lines, found more"),
    "a member of a .gz": ("a.gz", b"", MEMBER, "FILE: expected a member's name for an archive (.tar"),
    "no file": ("a.gz", None, {}, "FILE: cannot be read: No such file"),
    "no segments": ("a.sgm", b"x\n", {"format": "sgm"}, "FILE: expected some lines, found 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(refused, case):
    name, content, options, message = REFUSED[case]
    assert refused(name, content, **options).startswith(message)


@pytest.mark.parametrize("pack", [tgz, zipped])
def test_an_archive_cut_short_anywhere(refused, pack):
    content = pack(("first", b"1\n" * 900), ("m", b"2\n" * 900))
    for length in [*range(0, len(content), 97), len(content) - 1]:
        assert refused("a.zip", content[:length], **MEMBER).startswith(DAMAGED)


def test_segments():
    """Tags may have any case. A line may have several segments. Entities are resolved after segments are found."""
    sgm = (
        '<srcset setid="newstest" srclang="any">\n<doc docid="a&amp;b">\n<hl>\n'
        '<seg id="1">Fish &amp; chips &lt;3, he said: &quot;&#252;ber&quot;</seg>\n</hl>\r\n'
        '<p>\n<seg id="2"> &amp;quot; stays an entity </seg><seg id="3">x\u2028y</seg>\n'
        '<SEG Id = "4">b <doc docid=no> c</SEG></doc>\n<seg>a&#10;b</seg>\n<seg id=6></seg></p></doc></srcset>\n'
    )
    expected = [
        'Fish & chips <3, he said: "über"',
        "&quot; stays an entity",
        "x\u2028y",
        "b <doc docid=no> c",
        "a b",
        "",
    ]
    assert list(_find_segments(sgm.split("\n"), "a.sgm")) == expected


def test_a_segment_that_does_not_end_is_an_error():
    with pytest.raises(InputError, match=r"a\.sgm, line 2: expected </seg> on"):
        list(_find_segments(["<seg id=1>a</seg>", "<seg id=2>a <seg id=3>b</seg>"], "a.sgm"))
