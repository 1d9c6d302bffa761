"""Files from the network, checked before they get their name.

The bytes are collected in `NAME.SUM.part` beside the output; SUM is the beginning of the expected checksum. That file
outlives a failure: the next attempt resumes from it, and bytes with another checksum are never mixed into it.
"""

import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import requests  # redirects, TLS, proxies and time-outs
import urllib3
from tqdm import tqdm

from transformer.common.files import InputError, checksum, naming

CONNECT_SECONDS = 20  # long enough for a packet to be lost three times and sent again
READ_SECONDS = 60  # between two pieces, not for the file: the old servers stall, and their large files take hours
LEAST_RATE, RATE_SECONDS = 10_000, 300  # bytes a second, over this time; a slower server counts as a failure
ATTEMPTS = 5  # in a row that brought nothing new, or too little
PAUSE_SECONDS = 1.0  # after the first failure, doubled after each: 15 s in all outlast a restarting server
SUMS = {"sha256": "SHA-256", "md5": "MD5"}  # by their names in hashlib; MD5 where no other was published


class Refused(Exception):
    """An address does not have the file; the message is the reason. Asking again is of no use."""


class Slow(requests.ConnectionError):
    """A server sends less than LEAST_RATE."""


@dataclass(frozen=True)
class Version:
    """Addresses of the same bytes, tried in turn, and how to recognise these bytes.

    sha256, md5: in hexadecimal; both None for an archive that its host packs again at each request, with other bytes:
    what is read from it has to be checked later. size: in bytes, None where it is not known.
    """

    urls: list[str]
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None

    def difference(self, path: Path) -> str | None:
        """Return what is wrong with a file, or None."""
        if length(path) == 0:
            return "found an empty file"
        if self.size not in (None, length(path)):
            return f"expected {self.size} bytes, found {length(path)}"
        for kind, name in SUMS.items():
            expected = getattr(self, kind)
            if expected and (actual := checksum(path, kind)) != expected:
                return f"expected {name} {expected}, found {actual}"
        return None

    def part(self, output: Path) -> Path:
        """Return where the bytes for `output` are collected."""
        words = [output.name, (self.sha256 or self.md5 or "")[:8], "part"]
        return output.with_name(".".join(filter(None, words)))


def fetch(versions: list[Version], output: str | Path, mirror: str | Path | None = None) -> None:
    """Write one of `versions`, which serve equally well, to `output`: the first that an address has.

    With `mirror`, a folder, the address `https://HOST/PATH` is read from `mirror/HOST/PATH`, never from the network.
    Raises InputError, with a reason for every address, when none has its file.
    """
    output = Path(output)
    if any(version.difference(output) is None for version in versions):
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    reasons = []
    for version in versions:
        part = version.part(output)
        for url in version.urls:
            place = Path(mirror, *url.split("/")[2:]) if mirror else url  # HOST and what follows
            try:
                obtain(place, part, version)
            except Refused as refused:
                reasons.append(f"{place}: {refused}")
                print(f"{output.name}: {reasons[-1]}", file=sys.stderr)
            else:
                os.replace(part, output)
                for other in versions:
                    other.part(output).unlink(missing_ok=True)
                return
    raise InputError(f"{output.name}: no address gave it: {'; '.join(reasons)}")


def obtain(place: str | Path, part: Path, version: Version) -> None:
    """Make `part` the right file. Raises Refused if `place` has none and, without `part`, if it gives another."""
    resumed = length(part) > 0 and version.size is not None
    if isinstance(place, str):
        download(place, part, version.size)
    elif not place.is_file():
        raise Refused("no such file")
    else:
        shutil.copyfile(place, part)
    if wrong := version.difference(part):
        part.unlink(missing_ok=True)
        if not resumed:
            raise Refused(wrong)
        obtain(place, part, version)  # the bytes that were there before may be to blame


def download(url: str, part: Path, size: int | None) -> None:
    """Complete `part` to `size` bytes, in as many attempts as bring something new fast enough.

    Without a size, write it from its beginning, up to where the server ends it. Raises Refused.
    """
    failures, farthest = 0, length(part)
    while size is None or length(part) < size:
        try:
            transfer(url, part, length(part) if size else 0, size)
            if size is None:
                return
        except (requests.ConnectionError, requests.Timeout, urllib3.exceptions.HTTPError) as error:
            failures = failures + 1 if length(part) <= farthest or isinstance(error, Slow) else 1
            farthest = max(farthest, length(part))
            if failures == ATTEMPTS:
                raise Refused(f"{cause(error)}, {ATTEMPTS} times") from error
            pause = PAUSE_SECONDS * 2 ** (failures - 1)
            print(f"{url}: {cause(error)}; again in {pause:g} s", file=sys.stderr)
            time.sleep(pause)
        except requests.RequestException as error:
            raise Refused(cause(error)) from error


def transfer(url: str, part: Path, start: int, size: int | None) -> None:
    """Send one request: append the bytes from `start` on, or begin again if the server cannot send a part."""
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    with requests.get(url, headers=headers, stream=True, timeout=(CONNECT_SECONDS, READ_SECONDS)) as response:
        ranged = response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
        if start and response.status_code in (206, 416) and not ranged:
            return transfer(url, part, 0, size)
        start = start if response.status_code == 206 else 0
        size = size or int(response.headers.get("Content-Length", 0)) or None
        refuse(response, start, size)
        receive(response, part, start, size)


def refuse(response: requests.Response, start: int, size: int | None) -> None:
    """Raise unless the response's headers fit the file from `start` on: ConnectionError to try again, else Refused."""
    status = f"HTTP {response.status_code} {response.reason}"
    if response.status_code in (408, 429) or response.status_code >= 500:  # these pass
        raise requests.ConnectionError(status)
    if response.status_code != (206 if start else 200):
        raise Refused(status)
    if size and (total := start + int(response.headers.get("Content-Length", size - start))) != size:
        raise Refused(f"expected {size} bytes, found {total}")


def receive(response: requests.Response, part: Path, start: int, size: int | None) -> None:
    """Write the body to `part` from `start` on, not decoded, and at most one piece more than `size`.

    Raises Slow, and ConnectionError where the body ends before `size`.
    """
    seconds = 0.1 if sys.stderr.isatty() else 10  # a log needs few lines
    bar = tqdm(desc=part.stem, total=size, initial=start, unit="B", unit_scale=True, mininterval=seconds)
    with bar, naming(part), open(part, "ab" if start else "wb") as file:
        begun, before = time.monotonic(), file.tell()
        while (size is None or file.tell() <= size) and (piece := response.raw.read1(1 << 20, decode_content=False)):
            file.write(piece)
            bar.update(len(piece))
            if (seconds := time.monotonic() - begun) >= RATE_SECONDS:
                if (rate := (file.tell() - before) / seconds) < LEAST_RATE:
                    raise Slow(f"only {rate:.0f} bytes a second")
                begun, before = time.monotonic(), file.tell()
        file.flush()
        os.fsync(file.fileno())
    if size and length(part) < size:
        raise requests.ConnectionError(f"ended after {length(part)} of {size} bytes")


def cause(error: BaseException) -> str:
    """Return the first exception of a chain, as text: libraries wrap the cause several times."""
    while inner := error.__cause__ or error.__context__:
        error = inner
    return f"{type(error).__name__}: {error}"


def length(path: Path) -> int:
    """Return the size of a file in bytes, 0 if there is none."""
    return path.stat().st_size if path.exists() else 0
