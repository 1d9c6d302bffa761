"""Files are whole or absent: the old one until the new one is complete, and nothing left lying beside it."""

import hashlib
import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from transformer.files import replacing, sha256

ROOT = Path(__file__).parents[1]
OLD = "old\n"


@pytest.fixture
def path(tmp_path):
    """A file that holds OLD, alone in its folder."""
    path = tmp_path / "name.txt"
    path.write_text(OLD)
    return path


def assert_untouched(path):
    """The old file is there and nothing else."""
    assert path.read_text() == OLD
    assert os.listdir(path.parent) == [path.name]


def test_replaces(path):
    with replacing(path) as file:
        file.write("Straße\r\u2028\x85\n")
        file.flush()
        assert path.read_text() == OLD
    assert path.read_bytes() == "Straße\r\u2028\x85\n".encode()
    assert os.listdir(path.parent) == [path.name]


def test_makes_file_and_folders(tmp_path):
    path = tmp_path / "new" / "folder" / "name.txt"
    with replacing(str(path), "wb") as file:
        file.write(bytes(range(256)))
        assert not path.exists()
    assert path.read_bytes() == bytes(range(256))
    assert sha256(path) == hashlib.sha256(bytes(range(256))).hexdigest()


def write_half(path, error):
    with replacing(path) as file:
        file.write("half")
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_leaves_the_old_file(path, error):
    with pytest.raises(error):
        write_half(path, error)
    assert_untouched(path)


@contextmanager
def full_disk():
    """Let the system refuse what goes beyond 4 KiB in a file, as a full disk does: part is written, then OSError.

    Only around what is tested: pytest's own report may go to a file, too.
    """
    handler, limits = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("size", [5000, 1_000_000])  # within a write buffer, so that only the flush fails; beyond it
def test_a_full_disk_leaves_the_old_file(path, size):
    with pytest.raises(OSError, match="File too large"), full_disk(), replacing(path) as file:
        file.write("x" * size)
    assert_untouched(path)


def test_two_writers_do_not_mix(path):
    """Each process has its own temporary file; the last to end wins."""
    program = "import sys; from transformer.files import replacing\nwith replacing(sys.argv[1]) as f: f.write('child')"
    with replacing(path) as file:
        file.write("parent")
        file.flush()
        subprocess.run([sys.executable, "-c", program, path], cwd=ROOT, check=True)
        assert path.read_text() == "child"
    assert path.read_text() == "parent"
