"""Unpacking: plain text out of whatever a corpus comes in, or one clear line."""

import gzip
import io
import re
import tarfile
import tracemalloc

import pytest

from transformer.files import InputError
from transformer.stages import unpack

TEXT = "Ein Hund läuft.\nZwei\u2028Hunde\x85laufen\rweg.\r\n\nLetzte Zeile"
LINES = "Ein Hund läuft.\nZwei\u2028Hunde\x85laufen\rweg.\n\nLetzte Zeile\n".encode()


def entry(name, content=b"", type=tarfile.REGTYPE, linkname=""):
    """A member of an archive, and its content."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = type, linkname, len(content)
    return info, content


def make_archive(path, *entries):
    """A .tar, or a .tgz whose gzip stores without compression, so that tests can tell what stands where in it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for info, content in entries:
            archive.addfile(info, io.BytesIO(content))
    path.write_bytes(buffer.getvalue() if path.suffix == ".tar" else gzip.compress(buffer.getvalue(), 0))
    return path


def run(path, output, *options, format="text"):
    unpack.main(["--input", str(path), "--format", format, "--output", str(output), *options])
    return output.read_bytes()


def failure(path, output, *options, format="text"):
    """The message of an input error, after checking that it is one line and that nothing was written."""
    before = sorted(output.parent.iterdir())
    with pytest.raises(InputError) as error:
        run(path, output, *options, format=format)
    assert sorted(output.parent.iterdir()) == before
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.fixture
def output(tmp_path):
    (tmp_path / "corpora").mkdir()
    return tmp_path / "corpora" / "corpus.de"


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_plain_files(tmp_path, output, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(TEXT.encode()) if name.endswith(".gz") else TEXT.encode())
    assert run(path, output, "--lines", "4") == LINES


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz"])
@pytest.mark.parametrize("prefix", ["", "./"])
@pytest.mark.parametrize("zipped", [False, True])
def test_archives(tmp_path, output, name, prefix, zipped):
    member = "training/c.de.gz" if zipped else "training/c.de"
    content = gzip.compress(TEXT.encode()) if zipped else TEXT.encode()
    path = make_archive(
        tmp_path / name,
        entry("training", type=tarfile.DIRTYPE),
        entry("training/c.en", b"other"),
        entry(prefix + member, content),
        entry("last", b"also other"),
    )
    assert run(path, output, "--member", member, "--lines", "4") == LINES
    assert [file.name for file in output.parent.iterdir()] == ["corpus.de"]


def test_sgm(tmp_path, output):
    path = make_archive(
        tmp_path / "dev.tgz", entry("dev/a.sgm", b"<doc>\n<seg id=1> R&amp;D </seg>\n<seg id=2>b</seg>\n")
    )
    assert run(path, output, "--member", "dev/a.sgm", "--lines", "2", format="sgm") == b"R&D\nb\n"


def test_sgm_without_segments(tmp_path, output):
    path = make_archive(tmp_path / "dev.tgz", entry("dev/a.sgm", b"plain\n"))
    assert f"{path}: dev/a.sgm: expected <seg>" in failure(path, output, "--member", "dev/a.sgm", format="sgm")


@pytest.mark.parametrize("suffix", [".tar", ".tgz"])
def test_an_archive_cut_short_anywhere(tmp_path, output, suffix):
    """Blocks of 512 bytes: first's header and content, wanted's header and content, zeros."""
    whole = make_archive(tmp_path / f"a{suffix}", entry("first", b"1\n" * 900), entry("wanted", b"2\n" * 900))
    content = whole.read_bytes()
    wanted_ends = 512 + 2048 + 512 + 1800
    for length in range(0, wanted_ends, 97):
        whole.write_bytes(content[:length])
        message = failure(whole, output, "--member", "wanted")
        assert message.startswith(f"{whole}: damaged or cut short: ")


def test_a_gzip_without_its_end(tmp_path, output):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(TEXT.encode())[:-9])
    assert failure(path, output).startswith(f"{path}: damaged or cut short: ")


def test_a_changed_byte_is_found_by_the_checksum(tmp_path, output):
    """Also when the archive goes on after the member."""
    path = make_archive(tmp_path / "a.tgz", entry("wanted", b"right\n"), entry("last", b"x" * 100_000))
    path.write_bytes(path.read_bytes().replace(b"right", b"wrong"))
    assert f"{path}: damaged or cut short: CRC check failed" in failure(path, output, "--member", "wanted")


def test_a_damaged_header(tmp_path, output):
    path = make_archive(tmp_path / "a.tar", entry("first", b"1\n"), entry("wanted", b"2\n"))
    path.write_bytes(path.read_bytes().replace(b"wanted", b"wasted"))
    assert failure(path, output, "--member", "wanted").startswith(f"{path}: damaged or cut short: ")


@pytest.mark.parametrize(
    ("name", "options"), [("a.gz", []), ("a.tgz", ["--member", "m"]), ("a.tar", ["--member", "m"])]
)
@pytest.mark.parametrize("content", [b"<html>Not found</html>" * 99, b"\x1f\x8b\x08\0garbage" * 99])
def test_something_else_by_that_name(tmp_path, output, name, options, content):
    path = tmp_path / name
    path.write_bytes(content)
    assert failure(path, output, *options).startswith(f"{path}: damaged or cut short: ")


def test_a_damaged_gzip_within_an_archive(tmp_path, output):
    path = make_archive(tmp_path / "a.tar", entry("m.gz", gzip.compress(b"some text\n")[:-9]))
    assert failure(path, output, "--member", "m.gz").startswith(f"{path}: damaged or cut short: ")


def test_a_missing_member(tmp_path, output):
    path = make_archive(tmp_path / "a.tgz", entry("training/c.de-en.de", b"a\n"), entry("README", b"b\n"))
    message = failure(path, output, "--member", "c.de-en.de")
    assert f"{path}: expected a member c.de-en.de, found none; the nearest are training/c.de-en.de, README" == message


@pytest.mark.parametrize(
    ("type", "found"),
    [
        (tarfile.SYMTYPE, "a link to /etc/passwd"),
        (tarfile.LNKTYPE, "a link to /etc/passwd"),
        (tarfile.CHRTYPE, "a device"),
        (tarfile.BLKTYPE, "a device"),
        (tarfile.FIFOTYPE, "a device"),
        (tarfile.DIRTYPE, "a folder"),
    ],
)
def test_a_member_that_is_no_file(tmp_path, output, type, found):
    path = make_archive(tmp_path / "a.tgz", entry("m", type=type, linkname="/etc/passwd"))
    assert f"{path}: expected the member m to be a file, found {found}" == failure(path, output, "--member", "m")


@pytest.mark.parametrize("name", ["/m", "../m", "a/../m", "a/../../m", "/../m"])
@pytest.mark.parametrize("asked_for", [False, True])
def test_a_member_outside_its_folder(tmp_path, output, name, asked_for):
    asked, stored = (name, "m") if asked_for else ("m", name)
    path = make_archive(tmp_path / "a.tgz", entry(stored, b"a\n"))
    message = failure(path, output, "--member", asked)
    assert f"{path}: expected a member's path within its folder, found {name}" == message


def test_invalid_utf8(tmp_path, output):
    path = make_archive(tmp_path / "a.tgz", entry("m", b"a\nb\nc\xe9\n"))
    assert f"{path}: m, line 3: expected UTF-8" in failure(path, output, "--member", "m")


def test_an_empty_file(tmp_path, output):
    path = tmp_path / "empty.txt"
    path.touch()
    assert failure(path, output) == f"{path}: expected text, found an empty file"


@pytest.mark.parametrize("lines", [2, 4])
def test_another_number_of_lines(tmp_path, output, lines):
    path = tmp_path / "a.txt"
    path.write_text("a\nb\nc\n")
    output.write_text("older\n")
    assert failure(path, output, "--lines", str(lines)) == f"{path}: expected {lines} lines, found 3"
    assert output.read_text() == "older\n"


@pytest.mark.parametrize("name", ["a.txt", "a.gz"])
def test_a_member_of_what_is_no_archive(tmp_path, output, name):
    message = failure(tmp_path / name, output, "--member", "m")
    assert re.fullmatch(rf"{tmp_path / name}: expected an archive \(.*\) to hold the member m", message)


@pytest.mark.parametrize("name", ["a.zip", "a.tar.xz", "a.tar.bz2"])
def test_what_is_packed_otherwise(tmp_path, output, name):
    path = tmp_path / name
    path.write_bytes(b"PK")
    with pytest.raises(InputError, match=rf"^{path}: expected plain text, \.gz or an archive \(\.tar, "):
        unpack.main(["--input", str(path), "--format", "text", "--output", str(output)])
    assert not output.exists()


def test_an_archive_without_a_member(tmp_path, output):
    path = make_archive(tmp_path / "a.tgz", entry("m", b"a\n"))
    assert f"{path}: expected the name of one member" in failure(path, output)


@pytest.mark.parametrize("name", ["a.txt", "a.gz"])
def test_a_missing_file(tmp_path, output, name):
    assert failure(tmp_path / name, output) == f"{tmp_path / name}: cannot be read: No such file or directory"


def test_memory_is_constant(tmp_path, output):
    content = b"sixty-three bytes of text and a line feed, many times over, ok.\n" * 250_000  # 16 MB
    path = make_archive(tmp_path / "a.tgz", entry("first", content), entry("m", content))
    size = len(content)
    del content
    tracemalloc.start()
    try:
        unpack.main(["--input", str(path), "--member", "m", "--format", "text", "--output", str(output)])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert output.stat().st_size == size
    assert peak < size / 3
