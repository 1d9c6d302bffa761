"""Archives piece by piece, so that tests can give any of them any content."""

import io
import tarfile
import zipfile

BLOCK = tarfile.BLOCKSIZE
TEXT = "".join(f"Satz {number}: ein Hund läuft.\n" for number in range(300)).encode()


def header(kind: bytes, size: int, name: bytes = b"m", at: dict[int, bytes] | None = None) -> bytes:
    """Return a header of a .tar, with the right checksum; `at` has other bytes for it by their positions."""
    block = bytearray(tarfile.TarInfo(name.decode("latin-1")).tobuf(tarfile.GNU_FORMAT, "latin-1"))
    sign = b"\xff" if size < 0 else b"\x80"
    number = b"%011o\0" % size if 0 <= size < 8**11 else sign + size.to_bytes(11, "big", signed=True)
    for position, content in {124: number, 156: kind, **(at or {})}.items():
        block[position : position + len(content)] = content
    return signed(block)


def signed(block: bytearray) -> bytes:
    """Return a header with its checksum."""
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % BLOCK)


def member(content: bytes = TEXT, name: bytes = b"m") -> bytes:
    return header(b"0", len(content), name) + padded(content)


def pax(content: bytes, kind: bytes = b"x") -> bytes:
    """Return a header of a .tar that describes the next member, or for kind g all that follow."""
    return header(kind, len(content)) + padded(content)


def record(key: bytes, value: bytes) -> bytes:
    """Return a line of such a header, which begins with its own length of three digits."""
    return b"%03d %s=%s\n" % (len(key) + len(value) + 6, key, value)


def tar(*blocks: bytes) -> bytes:
    return b"".join(blocks) + bytes(2 * BLOCK)


def zipped(*members: tuple[str, bytes], compression: int = zipfile.ZIP_DEFLATED, mode: int = 0) -> bytes:
    """Pack a .zip; mode: what the members are, as for a file of Unix."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members:
            entry = zipfile.ZipInfo(name)
            entry.compress_type, entry.external_attr = compression, mode << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


def changed(content: bytes, signature: bytes, position: int, new: bytes) -> bytes:
    """Return a .zip with other bytes, so far behind its last such signature."""
    at = content.rindex(signature) + position
    return content[:at] + new + content[at + len(new) :]
