"""Unpacking: plain text out of whatever a corpus comes in, or one clear line."""

import gzip
import io
import itertools
import re
import tarfile
import tracemalloc
import zipfile

import pytest

from transformer.commands import unpack
from transformer.files import InputError

TEXT = "Ein Hund läuft.\nZwei\u2028Hunde\x85laufen\rweg.\r\n\nLetzte Zeile"
LINES = "Ein Hund läuft.\nZwei\u2028Hunde\x85laufen\rweg.\n\nLetzte Zeile\n".encode()
LINK = object()  # a member's content: it is a link to /etc/passwd


def make_tar(path, *members):
    """Write a .tar, or a .tgz whose gzip stores without compression, so that tests know what is where in it."""
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
    path.write_bytes(buffer.getvalue() if path.suffix == ".tar" else gzip.compress(buffer.getvalue(), 0))
    return path


def make_zip(path, *members, compression=zipfile.ZIP_DEFLATED):
    """Write an archive of names and contents that is a .zip, whatever its name."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def run(path, output, *options, format="text"):
    unpack.main(["--input", str(path), "--format", format, "--output", str(output), *options])
    return output.read_bytes()


def failure(path, output, *options, format="text"):
    """Return the message of an input error, after checking that it is one line and that nothing was written."""
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


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        *((make_tar, name) for name in ("a.tar", "a.tar.gz", "a.tgz")),
        *((make_zip, name) for name in ("a.zip", "a.tar", "a.tgz")),  # a download keeps its name, however it is packed
    ],
)
def test_archives(tmp_path, output, make, name, zipped):
    member = "training/c.de.gz" if zipped else "training/c.de"
    content = gzip.compress(TEXT.encode()) if zipped else TEXT.encode()
    members = [("training/", b""), ("training/c.en", b"other"), ("./" + member, content), ("last", b"also other")]
    assert run(make(tmp_path / name, *members), output, "--member", member, "--lines", "4") == LINES
    assert [file.name for file in output.parent.iterdir()] == ["corpus.de"]


@pytest.mark.parametrize(("name", "packed"), [("a.zip", ".tgz"), ("a.tgz", ".tar"), ("a.tar", ".tgz")])
def test_a_tar_by_any_name(tmp_path, output, name, packed):
    path = make_tar(tmp_path / f"as{packed}", ("first", b"no\n"), ("m", TEXT.encode()))
    assert run(path.rename(tmp_path / name), output, "--member", "m", "--lines", "4") == LINES


def test_a_zip_cut_short_anywhere(tmp_path, output):
    whole = make_zip(tmp_path / "a.tgz", ("first", b"1\n" * 900), ("m", b"2\n" * 900), compression=zipfile.ZIP_STORED)
    content = whole.read_bytes()
    for length in [*range(0, len(content), 97), len(content) - 1]:
        whole.write_bytes(content[:length])
        assert failure(whole, output, "--member", "m").startswith(f"{whole}: damaged or cut short: ")


def test_a_changed_byte_in_a_zip(tmp_path, output):
    """Wherever it is, the text is right or there is none."""
    whole = make_zip(tmp_path / "a.zip", ("m", LINES * 9))
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


def test_a_member_of_a_zip_that_is_packed_otherwise(tmp_path, output):
    path = make_zip(tmp_path / "a.zip", ("m", b"a\n"), compression=zipfile.ZIP_LZMA)
    assert failure(path, output, "--member", "m").endswith(
        "the member m to be stored or deflated, found it encrypted or packed otherwise"
    )


@pytest.mark.parametrize(("make", "name"), [(make_tar, "a.tgz"), (make_zip, "a.zip")])
def test_a_missing_member(tmp_path, output, make, name):
    path = make(tmp_path / name, ("training/c.de-en.de", b"a\n"), ("README", b"b\n"))
    message = failure(path, output, "--member", "c.de-en.de")
    assert message == f"{path}: expected a member c.de-en.de, found none; the nearest are training/c.de-en.de, README"


@pytest.mark.parametrize(("member", "content"), [("m", LINK), ("m/", b"")], ids=["link", "folder"])
def test_a_member_that_is_no_file_is_missing(tmp_path, output, member, content):
    path = make_tar(tmp_path / "a.tgz", (member, content), ("other", b"a\n"))
    assert failure(path, output, "--member", "m") == f"{path}: expected a member m, found none; the nearest are other"


def sgm(*ids):
    """Return a test set whose segments have these documents and ids."""
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


def test_sgm_alone(tmp_path, output):
    path = make_tar(tmp_path / "dev.tgz", ("a.sgm", b"<seg id=1> R&amp;D </seg>\n<seg id=2>b</seg>\n"), ("b", b"x\n"))
    assert run(path, output, "--member", "a.sgm", "--lines", "2", format="sgm") == b"R&D\nb\n"
    output.unlink()
    assert f"{path}: b: expected <seg>" in failure(path, output, "--member", "b", format="sgm")


@pytest.mark.parametrize("suffix", [".tar", ".tgz"])
def test_an_archive_cut_short_anywhere(tmp_path, output, suffix):
    """It has blocks of 512 bytes: first's header and content, wanted's header and content, zeros."""
    whole = make_tar(tmp_path / f"a{suffix}", ("first", b"1\n" * 900), ("wanted", b"2\n" * 900))
    content = whole.read_bytes()
    wanted_ends = 512 + 2048 + 512 + 1800
    for length in range(0, wanted_ends, 97):
        whole.write_bytes(content[:length])
        message = failure(whole, output, "--member", "wanted")
        assert message.startswith(f"{whole}: damaged or cut short: ")


@pytest.mark.parametrize(
    ("name", "right", "wrong", "problem"),
    [
        ("a.tgz", b"right", b"wrong", "CRC check failed"),  # though the archive goes on after the member
        ("a.tar", b"wanted", b"wasted", "no end mark"),  # within a header
    ],
)
def test_a_damaged_tar(tmp_path, output, name, right, wrong, problem):
    path = make_tar(tmp_path / name, ("first", b"1\n"), ("wanted", b"right\n"), ("last", b"x" * 100_000))
    path.write_bytes(path.read_bytes().replace(right, wrong))
    message = failure(path, output, "--member", "wanted")
    assert message.startswith(f"{path}: damaged or cut short: {problem}")


@pytest.mark.parametrize(
    ("name", "options"), [("a.gz", []), ("a.tgz", ["--member", "m"]), ("a.tar", ["--member", "m"])]
)
@pytest.mark.parametrize("content", [b"<html>Not found</html>" * 99, b"\x1f\x8b\x08\0garbage" * 99])
def test_something_else_by_that_name(tmp_path, output, name, options, content):
    path = tmp_path / name
    path.write_bytes(content)
    assert failure(path, output, *options).startswith(f"{path}: damaged or cut short: ")


def test_a_gzip_without_its_end(tmp_path, output):
    """It is an error as a file of its own and within an archive."""
    short = gzip.compress(TEXT.encode())[:-9]
    (tmp_path / "a.gz").write_bytes(short)
    assert failure(tmp_path / "a.gz", output).startswith(f"{tmp_path}/a.gz: damaged or cut short: ")
    path = make_tar(tmp_path / "a.tar", ("m.gz", short))
    assert failure(path, output, "--member", "m.gz").startswith(f"{path}: damaged or cut short: ")


def test_invalid_utf8(tmp_path, output):
    path = make_tar(tmp_path / "a.tgz", ("m", b"a\nb\nc\xe9\n"))
    assert f"{path}: m, line 3: expected UTF-8" in failure(path, output, "--member", "m")


def test_an_empty_file(tmp_path, output):
    path = tmp_path / "empty.txt"
    path.touch()
    assert failure(path, output) == f"{path}: expected text, found an empty file"


def test_another_number_of_lines(tmp_path, output):
    path = tmp_path / "a.txt"
    path.write_text("a\nb\nc\n")
    output.write_text("older\n")
    assert failure(path, output, "--lines", "4") == f"{path}: expected 4 lines, found 3"
    assert output.read_text() == "older\n"


def test_what_does_not_fit_its_name(tmp_path, output):
    """Errors name a member of what is no archive, an archive without a member, another packing, a missing file."""
    message = failure(tmp_path / "a.gz", output, "--member", "m")
    assert re.fullmatch(rf"{tmp_path}/a.gz: expected an archive \(.*\) to hold the member m", message)
    assert f"{tmp_path}/a.tgz: expected the name of one member" in failure(tmp_path / "a.tgz", output)
    for name in ("a.7z", "a.tar.xz"):
        message = failure(tmp_path / name, output)
        assert message.startswith(f"{tmp_path}/{name}: expected plain text, .gz or an archive (.tar, ")
    for name in ("a.txt", "a.gz"):
        assert failure(tmp_path / name, output) == f"{tmp_path}/{name}: cannot be read: No such file or directory"


@pytest.mark.parametrize("make", [make_tar, make_zip])
def test_memory_is_constant(tmp_path, output, make):
    content = b"sixty-three bytes of text and a line feed, many times over, ok.\n" * 100_000  # 6.4 MB
    path = make(tmp_path / "a.tgz", ("first", content), ("m", content))
    size = len(content)
    del content
    tracemalloc.start()
    try:
        unpack.main(["--input", str(path), "--member", "m", "--format", "text", "--output", str(output)])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert output.stat().st_size == size
    assert peak < 0.7 * size
