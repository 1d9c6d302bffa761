"""Mutated archives: each is refused in one line, or gives the right text.

`TRANSFORMER_FUZZ=50000 pytest tests/hostile -k mutat` tries so many of them.
"""

import gzip
import random
import re
import resource
import signal
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from support.limited import MUTATIONS
from support.packing import BLOCK, TEXT, header, member, padded, pax, record, signed, tar, zipped

from transformer import text
from transformer.data.archive import open_bytes, read_members
from transformer.files import InputError

PLAIN = tar(
    pax(record(b"comment", b"made by git"), b"g"),
    member(b"before\n", b"first"),
    pax(record(b"path", b"a/" + b"long" * 50) + record(b"mtime", b"1.5")),
    member(b"x" * 700, b"long"),
    header(b"L", 200) + padded(b"n" * 200),
    member(b"y", b"n"),
    header(b"5", 0, b"folder/"),
    member(),
    member(b"after\n", b"last"),
)
WHOLE = {".tar": PLAIN, ".tgz": gzip.compress(PLAIN), ".zip": zipped(("first", b"before"), ("m", TEXT), ("last", b"z"))}


def mutated(ending: str, chance: random.Random) -> bytes:
    """Return an archive with some changes; headers of a .tar mostly get the right checksum again."""
    content = bytearray(WHOLE[ending])
    for _ in range(chance.choice((1, 1, 2, 5))):
        start = chance.randrange(len(content))
        if ending == ".tar" and chance.random() < 0.7:
            start -= start % BLOCK
            where = chance.choice((start + 124, start + 156, start + 156, start + chance.randrange(BLOCK)))
            content[where : where + 1] = bytes([chance.choice((*b"x0gLKS125\0", chance.randrange(256)))])
            if len(content) >= start + BLOCK and chance.random() < 0.9:
                content[start : start + BLOCK] = signed(content[start : start + BLOCK])
            continue
        length = chance.choice((1, 1, 4, 8, BLOCK))
        change = chance.choice(("bytes", "bytes", "big", "cut", "remove", "repeat"))
        if change == "bytes":
            content[start : start + length] = chance.randbytes(length)
        elif change == "big":
            content[start : start + length] = b"\xff" * length
        elif change == "cut" and start:
            del content[start:]
        elif change == "remove" and start:
            del content[start : start + length]
        elif change == "repeat":
            content[start:start] = content[start : start + length] * chance.choice((1, 9))
    return bytes(content)


@contextmanager
def bounded():
    """Allow 512 MiB more memory than is in use, and fail when a timer that the block sets runs out."""

    def late(*_):
        pytest.fail("not ended in time")  # no Exception, which would be taken for a library's complaint

    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, late)
    resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 29), before[1]))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


def outcome(path: Path, read: Callable[[], bytes | None]) -> str:
    """Return how reading a mutated archive ended."""
    try:
        content = read()
        return {TEXT: "right", None: "missing"}.get(content, "changed")
    except InputError as problem:
        said = text.reason(problem)
    assert said.startswith(f"{path}: ")
    assert not re.search(r"[\0-\x1f]", said)
    return "refused"


def read_stream(path: Path) -> bytes:
    with open_bytes(path, "m") as stream:
        return b"".join(text.split_lines(stream))


def read_whole(path: Path) -> bytes | None:
    """Return None where the archive is whole but does not list the member, as callers notice."""
    return dict(read_members(path, lambda name: True)).get("m")


def test_mutated_archives_are_refused_or_right(tmp_path):
    """No other exception, and no hang. Only a .tar has no checksum, so that its text may have changed unseen."""
    outcomes = {ending: [] for ending in WHOLE}
    with bounded():
        for number in range(MUTATIONS):
            ending = [*WHOLE][number % 3]
            path = tmp_path / f"a{ending}"
            path.write_bytes(mutated(ending, random.Random(number)))
            signal.setitimer(signal.ITIMER_REAL, 10)
            try:
                outcomes[ending] += [outcome(path, partial(read, path)) for read in (read_stream, read_whole)]
            except Exception as raised:
                raise AssertionError(f"mutation {number}: {raised!r}") from raised
    print({ending: {kind: kinds.count(kind) for kind in set(kinds)} for ending, kinds in outcomes.items()})
    assert {"refused", "right"} <= set(outcomes[".zip"]) & set(outcomes[".tar"])
    assert "changed" not in outcomes[".tgz"] + outcomes[".zip"]
