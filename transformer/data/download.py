"""Files from the network, checked before they get their name.

The bytes are collected in `NAME.SUM.part` beside the output; SUM is the beginning of the expected checksum. That file
outlives a failure: the next attempt resumes from it, and bytes with another checksum are never mixed into it.
"""

import os
import re
import shutil
import sys
import time
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

import requests  # TLS, proxies and time-outs
import urllib3
from tqdm import tqdm

from transformer.data.response import Refused, Slow, ask, within
from transformer.files import InputError, checksum, naming
from transformer.text import printable

LEAST_RATE, RATE_SECONDS = 10_000, 300  # bytes a second, over this time; a slower server counts as a failure
LEAST_GAIN = 10_000  # bytes that an attempt has to bring, or it counts as a failure
MOST = 1 << 36  # bytes of a file of unknown size; the largest known one has 2.6 GB
ATTEMPTS = 5  # in a row that brought nothing new, or too little
PAUSE_SECONDS = 1.0  # after the first failure, doubled after each: 15 s in all outlast a restarting server
PIECE = 1 << 20  # bytes written at a time
SUMS = {"sha256": "SHA-256", "md5": "MD5"}  # by their names in hashlib; MD5 where no other was published


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
        if self.size is None and length(path) > MOST:
            return f"expected at most {MOST} bytes, found more"
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
                tell(f"{output.name}: {reasons[-1]}")
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
    """Complete `part` to `size` bytes, in as many attempts as bring enough, fast enough.

    Without a size, write it from its beginning, up to where the server ends it. Raises Refused.
    """
    failures, farthest = 0, length(part)
    while size is None or length(part) < size:
        try:
            transfer(url, part, length(part) if size else 0, size)
            if size is None:
                return
        except (requests.ConnectionError, requests.Timeout, urllib3.exceptions.HTTPError) as error:
            gained = length(part) - farthest >= LEAST_GAIN and not isinstance(error, Slow)
            failures = 1 if gained else failures + 1
            farthest = max(farthest, length(part))
            if failures == ATTEMPTS:
                raise Refused(f"{cause(error)}, {ATTEMPTS} times") from error
            pause = PAUSE_SECONDS * 2 ** (failures - 1)
            tell(f"{url}: {cause(error)}; again in {pause:g} s")
            time.sleep(pause)
        except requests.RequestException as error:
            raise Refused(cause(error)) from error


def transfer(url: str, part: Path, start: int, size: int | None) -> None:
    """Send one request: append the bytes from `start` on, or begin again if the server cannot send a part."""
    with ask(url, start) as response:
        ranged = response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
        if not (start and response.status_code in (206, 416) and not ranged):
            start = start if response.status_code == 206 else 0
            refuse(response, start, size)
            receive(response, part, start, size or announced(response))
            return
    transfer(url, part, 0, size)


def refuse(response: requests.Response, start: int, size: int | None) -> None:
    """Raise unless the response's headers fit the file from `start` on: ConnectionError to try again, else Refused."""
    status = f"HTTP {response.status_code} {response.reason}"
    if response.status_code in (408, 429) or response.status_code >= 500:  # these pass
        raise requests.ConnectionError(status)
    if response.status_code != (206 if start else 200):
        raise Refused(status)
    rest = announced(response)
    if rest is None:
        return
    if size is None and rest > MOST:
        raise Refused(f"expected at most {MOST} bytes, found {rest}")
    if size is not None and start + rest != size:
        raise Refused(f"expected {size} bytes, found {start + rest}")


def announced(response: requests.Response) -> int | None:
    """Return how many bytes a response says that it has. Raises Refused where it says something else."""
    text = response.headers.get("Content-Length")
    if text is not None and not re.fullmatch("[0-9]{1,18}", text):
        raise Refused(f"expected a number of bytes as Content-Length, found {text}")
    return int(text) if text else None


def receive(response: requests.Response, part: Path, start: int, size: int | None) -> None:
    """Write the body to `part` from `start` on, not decoded, and at most one byte more than `size`, or than MOST.

    Raises Slow, Timeout where nothing comes, and ConnectionError where the body ends before `size`.
    """
    seconds = 0.1 if sys.stderr.isatty() else 10  # a log needs few lines
    bar = tqdm(desc=part.stem, total=size, initial=start, unit="B", unit_scale=True, mininterval=seconds)
    with bar, naming(part), open(part, "ab" if start else "wb") as file:
        begun, before = time.monotonic(), file.tell()
        while (left := (size or MOST) + 1 - file.tell()) > 0:
            with within():  # there are bytes that are none of the body
                piece = response.raw.read1(min(PIECE, left), decode_content=False)
            if not piece:
                break
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
    """Return the first exception of a chain about the network, as text: libraries wrap the cause several times."""
    first = error
    while error := error.__cause__ or error.__context__:
        first = error if isinstance(error, (OSError, HTTPException)) else first
    return f"{type(first).__name__}: {first}"


def tell(message: str) -> None:
    """Print a line about an address."""
    print(printable(message), file=sys.stderr)


def length(path: Path) -> int:
    """Return the size of a file in bytes, 0 if there is none."""
    return path.stat().st_size if path.exists() else 0
