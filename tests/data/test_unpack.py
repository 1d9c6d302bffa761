"""Unpacking: plain text out of whatever a corpus comes in, or one clear line."""

import gzip
import io
import itertools
import re
import stat
import tarfile
import tracemalloc
import zipfile

import pytest

from transformer.common.files import InputError
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


def make_zip(path, *members, compression=zipfile.ZIP_DEFLATED):
    """An archive of names and contents that is a .zip, whatever its name."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
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


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tgz"])
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("zipped", [False, True])
def test_a_zip_by_any_name(tmp_path, output, name, compression, zipped):
    """A download keeps its name, however the archive that came instead is packed."""
    member = "training/c.de.gz" if zipped else "training/c.de"
    content = gzip.compress(TEXT.encode()) if zipped else TEXT.encode()
    members = [("training/", b""), ("training/c.en", b"other"), ("./" + member, content), ("last", b"also other")]
    path = make_zip(tmp_path / name, *members, compression=compression)
    assert run(path, output, "--member", member, "--lines", "4") == LINES


@pytest.mark.parametrize(("name", "packed"), [("a.zip", ".tgz"), ("a.tgz", ".tar"), ("a.tar", ".tgz")])
def test_a_tar_by_any_name(tmp_path, output, name, packed):
    path = make_archive(tmp_path / f"as{packed}", entry("first", b"no\n"), entry("m", TEXT.encode()))
    assert run(path.rename(tmp_path / name), output, "--member", "m", "--lines", "4") == LINES


def test_a_zip_cut_short_anywhere(tmp_path, output):
    whole = make_zip(tmp_path / "a.tgz", ("first", b"1\n" * 900), ("m", b"2\n" * 900), compression=zipfile.ZIP_STORED)
    content = whole.read_bytes()
    for length in [*range(0, len(content), 97), len(content) - 1]:
        whole.write_bytes(content[:length])
        assert failure(whole, output, "--member", "m").startswith(f"{whole}: damaged or cut short: ")


def test_a_changed_byte_in_a_zip(tmp_path, output):
    """Anywhere: the text is right or there is none."""
    whole = make_zip(tmp_path / "a.zip", ("m", LINES * 9), compression=zipfile.ZIP_DEFLATED)
    content = whole.read_bytes()
    outcomes = []
    for where, change in itertools.product(range(len(content)), (0x01, 0x80, 0xFF)):
        whole.write_bytes(content[:where] + bytes([content[where] ^ change]) + content[where + 1 :])
        try:
            outcomes.append(run(whole, output, "--member", "m"))
        except InputError as error:
            outcomes.append(str(error).startswith(f"{whole}: "))
    assert [outcome for outcome in outcomes if outcome not in (True, LINES * 9)] == []
    assert outcomes.count(True) > len(content)


def test_a_missing_member_of_a_zip(tmp_path, output):
    path = make_zip(tmp_path / "a.tgz", ("training/c.de", b"a\n"))
    message = failure(path, output, "--member", "c.de")
    assert message == f"{path}: expected a member c.de, found none; the nearest are training/c.de"


@pytest.mark.parametrize("name", ["/m", "../m", "a/../m"])
def test_a_member_of_a_zip_outside_its_folder(tmp_path, output, name):
    path = make_zip(tmp_path / "a.zip", (name, b"a\n"))
    message = failure(path, output, "--member", "m")
    assert message == f"{path}: expected a member's path within its folder, found {name}"


@pytest.mark.parametrize(
    ("mode", "name", "found"),
    [(stat.S_IFLNK, "m", "link or device"), (stat.S_IFIFO, "m", "link or device"), (stat.S_IFDIR, "m/", "folder")],
)
def test_a_member_of_a_zip_that_is_no_file(tmp_path, output, mode, name, found):
    info = zipfile.ZipInfo(name)
    info.external_attr = (mode | 0o777) << 16
    path = make_zip(tmp_path / "a.zip", (info, b"/etc/passwd"))
    message = failure(path, output, "--member", "m")
    assert message == f"{path}: expected the member m to be a file, found a {found}"


def test_a_member_of_a_zip_that_is_packed_otherwise(tmp_path, output):
    path = make_zip(tmp_path / "a.zip", ("m", b"a\n"), compression=zipfile.ZIP_LZMA)
    assert failure(path, output, "--member", "m").endswith(
        "the member m to be stored or deflated, found it encrypted or packed otherwise"
    )


def sgm(*ids):
    """A test set whose segments have these documents and ids."""
    return "".join(f'<doc docid="{doc}"><seg id="{number}">{doc}{number}</seg></doc>\n' for doc, number in ids).encode()


def test_sgm_beside_the_other_side(tmp_path, output):
    order = [("a", 1), ("a", 2), ("b", 1)]
    path = make_zip(tmp_path / "a.tgz", ("src", sgm(*order)), ("ref", sgm(*order)), ("wrong", sgm(*reversed(order))))
    assert run(path, output, "--member", "ref", "--beside", str(path), "src", format="sgm") == b"a1\na2\nb1\n"
    output.unlink()
    message = failure(path, output, "--member", "wrong", "--beside", str(path), "src", format="sgm")
    assert message == (f"{path}: wrong, <seg> 1: expected document a, id 1 as in {path}: src, found document b, id 1")


def test_only_sgm_says_what_is_beside_what(tmp_path, output, capsys):
    with pytest.raises(SystemExit):
        run(tmp_path / "a.txt", output, "--beside", "b.txt")
    assert "--beside takes FILE [MEMBER], with --format sgm" in capsys.readouterr().err


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


@pytest.mark.parametrize("name", ["a.7z", "a.tar.xz", "a.tar.bz2"])
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


@pytest.mark.parametrize("packed", ["tar", "zip"])
def test_memory_is_constant(tmp_path, output, packed):
    content = b"sixty-three bytes of text and a line feed, many times over, ok.\n" * 250_000  # 16 MB
    if packed == "tar":
        path = make_archive(tmp_path / "a.tgz", entry("first", content), entry("m", content))
    else:
        path = make_zip(tmp_path / "a.tgz", ("first", content), ("m", content))
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
