"""Hostile archives and texts: each ends in one line that says why, or in the right text."""

import bz2
import gzip
import lzma
import os
import re
import stat
import struct

import pytest
import torch
from support.commands import error
from support.packing import TEXT, changed, header, member, pax, record, tar, zipped

from transformer import text
from transformer.commands import unpack
from transformer.data import bounds

LONG = text.LONGEST_LINE


ZIP = zipped(("other", b"x"), ("m", TEXT))


CENTRAL, LOCAL, END = b"PK\1\2", b"PK\3\4", b"PK\5\6"
SPARSE = record(b"GNU.sparse.major", b"1") + record(b"GNU.sparse.minor", b"0")
MANY_ENTRIES = changed(zipped(*((f"{number:0200}", b"") for number in range(5000))), END, 12, struct.pack("<I", 2**31))
NONE = "expected a member m, found none; the nearest are "
HEADERS = f"expected headers of at most {bounds.HEADERS:,} bytes, found more"
BELOW = "damaged or cut short: a member's size is below zero"
MAP = b"00000000001\0" * 42 + b"\1" + bytes(7)  # a block of a sparse member's map, after which comes another
EITHER = re.compile("damaged or cut short: .|m: expected text, found an empty file")  # or the right text: as Python's
# versions differ in what they take for damage.
ARCHIVES = {  # a file's ending, its bytes, and what is said of it, or the text in it
    # A .tar whose headers say much.
    "a header of 8 GiB": (".tar", header(b"x", 8**11 - 1) + member(), HEADERS),
    "a header of no end": (".tar", header(b"x", 2**62) + member(), HEADERS),
    "a header below zero": (".tar", header(b"x", -2048) + member(), HEADERS),
    "a name of 1 GiB": (".tgz", gzip.compress(header(b"L", 1 << 30) + bytes(1 << 20)), HEADERS),
    "a name for a name, and so on": (".tgz", gzip.compress(header(b"L", 0) * 99_999), HEADERS),
    "headers for all, and so on": (".tar", tar(*[pax(record(b"a", b"b"), b"g")] * 999, member()), HEADERS),
    "headers for all, each its own": (
        ".tar",
        tar(*(pax(record(b"key%d" % number, b""), b"g") + member(b"", b"x") for number in range(200)), member()),
        "expected at most 100 global headers, found more",
    ),
    "a number of 15,000 digits": (".tar", tar(pax(b"1" * 15_000), member()), "expected numbers"),
    "keys within keys": (".tar", tar(pax(b"2 " * 7000 + b"="), member()), EITHER),
    "a size that is no number": (".tar", tar(pax(record(b"size", b"many")), member()), EITHER),
    "a size below zero": (
        ".tar",
        tar(pax(record(b"size", b"-9999")), member()),
        BELOW,
    ),
    "a name that is no text": (".tar", tar(member(), member(b"", b"\xff\xfe\x1b")), TEXT),
    "names that move the cursor": (".tar", tar(member(b"", b"\x1b[2J\x9b")), r".* nearest are \\x1b\[2J"),
    "a name of 15,000 bytes": (".tar", tar(pax(b"15000 path=" + b"m" * 14_988 + b"\n"), member()), f"{NONE}m{{255}}$"),
    "another character set": (".tar", tar(pax(record(b"hdrcharset", b"\xff")), member()), "damaged or cut short: "),
    # Sparse members, whose maps say which bytes are not zero.
    "an old sparse member": (".tar", tar(header(b"S", 0, at={483: b"77777777777\0"}), member()), TEXT),
    "a sparse member alone": (".tar", tar(header(b"S", 0, at={483: b"77777777777\0"})), f"{NONE}none"),
    "a sparse map of no end": (".tgz", gzip.compress(header(b"S", 0, at={482: b"\1"}) + MAP * (1 << 12)), HEADERS),
    "a sparse map that is short": (".tar", header(b"S", 0, at={482: b"\1"}), "damaged or cut short: "),
    "a newer sparse map": (".tar", tar(pax(SPARSE), member(b"no number")), "damaged or cut short: "),
    "a newer sparse map of no end": (
        ".tgz",
        gzip.compress(pax(SPARSE) + member(b"9" * 9 + b"\n" + b"1\n" * (1 << 20))),
        HEADERS,
    ),
    "a sparse map of words": (".tar", tar(pax(record(b"GNU.sparse.map", b"a,b")), member()), "damaged or cut short: "),
    # Members that are no files, or not where they say.
    "a link": (".tar", tar(header(b"2", 0, at={157: b"/etc/passwd"})), f"{NONE}none"),
    "a hard link": (".tar", tar(header(b"1", 0, at={157: b"/etc/passwd"})), f"{NONE}none"),
    "a device": (".tar", tar(header(b"3", 0)), f"{NONE}none"),
    "a pipe": (".tar", tar(header(b"6", 0)), f"{NONE}none"),
    "a link in a .zip": (".zip", zipped(("m", b"/etc/passwd"), mode=stat.S_IFLNK | 0o777), f"{NONE}none"),
    "a member below zero": (
        ".tar",
        tar(header(b"0", -2048), member()),
        BELOW,
    ),
    "a member of no end": (".tar", header(b"0", 2**62) + TEXT, "damaged or cut short: "),
    "an absolute path": (".tar", tar(member(b"", b"/etc/passwd"), member(b"", b"../../m"), member()), TEXT),
    # What unpacks to too much.
    "a line of no end": (
        ".tgz",
        gzip.compress(header(b"0", 1 << 31)) + gzip.compress(bytes(1 << 26)) * 32,
        f"m, line 1: expected at most {LONG:,} bytes",
    ),
    "a line of no end in a .zip": (
        ".zip",
        zipped(("m", bytes(1 << 27))),
        f"m, line 1: expected at most {LONG:,} bytes",
    ),
    "lines of no end": (".tgz", gzip.compress(member(b"a\n" * (1 << 24))), "m: expected 300 lines, found more"),
    # Other packings, and damage.
    "bzip2": (".tgz", bz2.compress(tar(member())), "damaged or cut short: "),
    "xz": (".tgz", lzma.compress(tar(member())), "damaged or cut short: "),
    "damage in the middle": (".tgz", gzip.compress(tar(member()))[:-99] + b"?" * 99, "damaged or cut short: "),
    "cut in the middle": (".tgz", gzip.compress(tar(member()))[:-99], "damaged or cut short: "),
    "gzip of nothing": (".tgz", gzip.compress(b""), "damaged or cut short: empty"),
    "gzip and more": (".tgz", gzip.compress(tar(member())) + b"more", "damaged or cut short: "),
    "nothing": (".zip", b"", "damaged or cut short: empty"),
    "a sheet of zeros": (".tar", bytes(1 << 16), f"{NONE}none"),
    # A .zip that does not tell the truth.
    "a .zip without members": (".zip", zipped(), f"{NONE}none"),
    "a name in no encoding": (".zip", changed(zipped(("ü", b"")), CENTRAL, 46, b"\xff\xff"), "damaged or cut short: "),
    "another name": (".zip", changed(ZIP, LOCAL, 30, b"x"), "damaged or cut short: File name in directory"),
    "an encrypted member": (".zip", changed(ZIP, CENTRAL, 8, b"\1"), "expected the member m to be .* encrypted"),
    "a made-up packing": (".zip", changed(ZIP, CENTRAL, 10, b"\x63\0"), "expected the member m to be stored"),
    "strong encryption": (".zip", changed(ZIP, CENTRAL, 8, b"\x40"), "damaged or cut short: "),
    "a patch": (".zip", changed(ZIP, CENTRAL, 8, b"\x20"), "damaged or cut short: "),
    "a place beyond the end": (".zip", changed(ZIP, CENTRAL, 42, b"\xff\xff\xff\x7f"), "damaged or cut short: "),
    "a member of other size": (".zip", changed(ZIP, CENTRAL, 24, struct.pack("<I", 9)), "damaged or cut short: "),
    "a larger member": (".zip", changed(ZIP, CENTRAL, 24, struct.pack("<I", 2**31)), EITHER),
    "other packed size": (".zip", changed(ZIP, CENTRAL, 20, struct.pack("<I", 2**31)), EITHER),
    "a checksum": (".zip", changed(ZIP, CENTRAL, 16, b"\0\0\0\0"), "damaged or cut short: Bad CRC-32"),
    "a list of no end": (".zip", changed(ZIP, END, 12, b"\xff\xff\xff\x7f"), "damaged or cut short: "),
    "a list that is longer": (".zip", MANY_ENTRIES, "damaged or cut short: "),
    "a list elsewhere": (".zip", changed(ZIP, END, 16, b"\0\0\0\x7f"), "damaged or cut short: "),
    "long sizes that are not there": (".zip", changed(ZIP, CENTRAL, 24, b"\xff" * 4), EITHER),
    "a comment that is cut": (".zip", changed(ZIP, END, 20, b"\xff\xff"), EITHER),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_a_hostile_archive_is_one_line_or_the_right_text(name, run, tmp_path):
    ending, content, expected = ARCHIVES[name]
    path, output = tmp_path / f"a{ending}", tmp_path / "out"
    path.write_bytes(content)
    options = ["--input", path, "--member", "m", "--format", "text", "--lines", "300", "--output", output]
    result = run("unpack", *options)
    if isinstance(expected, bytes) or (expected is EITHER and result.status == 0):
        assert result.status == 0, result.printed
        assert output.read_bytes() == TEXT
    else:
        assert result.status == 1
        expected = getattr(expected, "pattern", expected)
        assert re.match(rf"transformer unpack: error: {path}: ({expected})", result.printed)
        assert len(result.printed.splitlines()) == 1
        assert os.listdir(tmp_path) == [path.name]


SEGMENTS = '<doc docid="a"><seg id=1>ein &amp; zwei</seg></doc>'
TEXTS = {  # the format of a text, its bytes, and what is said of it, or what is unpacked
    "a line of the longest": ("text", b"a" * LONG + b"\nb\n", b"a" * LONG + b"\nb\n"),
    "the longest at the end": ("text", b"b\n" + b"a" * LONG, b"b\n" + b"a" * LONG + b"\n"),
    "a longer line": (
        "text",
        b"b\n" + b"a" * (LONG + 1) + b"\n",
        f", line 2: expected at most {LONG:,} bytes, found more",
    ),
    "a longer line at the end": ("text", b"a" * (LONG + 1), f", line 1: expected at most {LONG:,} bytes, found more"),
    "segments that never end": ("sgm", b"<seg id=1>" * 100_000, ", line 1: expected every <seg> to end"),
    "tags that never end": ("sgm", b"<seg " * 200_000, ", line 1: expected every <seg> to end"),
    "documents that never end": ("sgm", b"<doc " * 200_000, ": expected <seg> elements, found none"),
    "segments that end before": (
        "sgm",
        b"</seg>" * 80_000 + b"<seg>" * 80_000,
        ", line 1: expected every <seg> to end",
    ),
    "a character of many digits": ("sgm", b"<seg>&#" + b"9" * 9999 + b";</seg>", ", line 1: expected entities"),
    "quotes that never end": ("sgm", b"<seg " + b"id='" * 200_001 + b">a</seg>", b"a\n"),
    "segments": ("sgm", SEGMENTS.encode(), b"ein & zwei\n"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_hostile_text_is_one_line_or_the_right_text(name, run, tmp_path):
    form, content, expected = TEXTS[name]
    path, output = tmp_path / "a.txt", tmp_path / "out"
    path.write_bytes(content)
    result = run("unpack", "--input", path, "--format", form, "--output", output)
    if isinstance(expected, bytes):
        assert (result.status, output.read_bytes()) == (0, expected), result.printed[:999]
    else:
        assert result.status == 1
        assert result.printed.startswith(f"transformer unpack: error: {path}{expected}")


def test_what_unpacks_to_far_more_than_text_is_no_text(run, tmp_path):
    """It is refused before it fills the disk."""
    path, lines = tmp_path / "a.gz", b"%1023d\n" % 1 * (1 << 10)
    path.write_bytes(gzip.compress(lines * 2))
    for least, status in ((1 << 20, 1), (1 << 22, 0)):
        constants = {"transformer.data.bounds.AT_LEAST": least}
        result = run("unpack", "--input", path, "--format", "text", "--output", tmp_path / "out", constants=constants)
        assert result.status == status
        assert bool(status) == (f"{path}: expected to unpack to at most {least:,} bytes, found more" in result.printed)


@pytest.mark.parametrize("sizes", [[(1 << 26) + 1], [1 << 25, 1 << 24, 1 << 25]], ids=["one", "together"])
def test_members_that_are_read_whole_are_not_too_large(run, tmp_path, sizes):
    path = tmp_path / "gum.tar.gz"
    members = [member(bytes(size), b"gum/const/%d.ptb" % number) for number, size in enumerate(sizes)]
    path.write_bytes(gzip.compress(tar(*members), 1))
    result = run("treebank", "--format", "gum", "--input", path, "--split", "dev", "--output", tmp_path / "out")
    assert result.status == 1
    name = f"gum/const/{len(sizes) - 1}.ptb"
    assert result.last_line.endswith(f"{path}: expected members of at most {1 << 26:,} bytes, found more at {name}")


def test_memory_that_is_full_is_one_line(monkeypatch):
    for raised, line in ((MemoryError(), "not enough memory"), (MemoryError("9 GiB"), "not enough memory: 9 GiB")):
        monkeypatch.setattr(unpack, "main", lambda argv, raised=raised: (_ for _ in ()).throw(raised))
        assert error("unpack") == line


@pytest.mark.parametrize("raised", [RuntimeError("CUDA out of memory. Tried 9 GiB"), RuntimeError("std::bad_alloc")])
def test_torch_s_full_memory_is_one_line(monkeypatch, raised):
    monkeypatch.setattr(unpack, "main", lambda argv: (_ for _ in ()).throw(raised))
    assert error("unpack") == f"not enough memory: {raised}"


def test_a_tensor_that_is_too_large_is_one_line(monkeypatch):
    monkeypatch.setattr(unpack, "main", lambda argv: torch.empty(1 << 50))
    assert re.match("not enough memory: .*you tried to allocate 4503599627370496 bytes", error("unpack"))


def test_another_error_of_torch_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(unpack, "main", lambda argv: torch.ones(2) @ torch.ones(3))
    with pytest.raises(RuntimeError, match="inconsistent tensor size"):
        error("unpack")


def test_other_lines_cannot_be_forged(tmp_path):
    """Whatever may end a line or turn its direction is escaped; other text stays as it is."""
    assert text.printable("a\nb\r\x85\u2028\u202e\x1b[2J\x7f\udcff") == r"a\nb\r\x85\u2028\u202e\x1b[2J\x7f\udcff"
    assert text.printable("Übung – naïve 文") == "Übung – naïve 文"
    assert error("unpack", "--input", tmp_path / "\x1b[2J\n.txt", "--format", "text", "--output", "o").startswith(
        rf"{tmp_path}/\x1b[2J\n.txt: cannot be read"
    )
