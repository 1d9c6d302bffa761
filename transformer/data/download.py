"""Downloads. A file gets its name only after the check of its checksum.

`NAME.SUM.part` in the folder of the output collects the bytes; SUM is the beginning of the expected checksum. This file
survives a failure, and the next attempt resumes from it. It never mixes bytes of files with different checksums.
"""

import logging
import os
import shutil
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread

import requests
import urllib3
from tqdm import tqdm

from transformer.storage.files import InputError, checksum, naming

logger = logging.getLogger(__name__)

_TIMEOUTS = (20, 60)  # seconds to connect, and between two pieces, because old servers stall
_ANSWER_SECONDS = 60.0  # until an answer begins, because a slow server may send its header byte by byte
_SLOWEST = 100  # bytes per second over _ANSWER_SECONDS, or the connection is closed
_ATTEMPTS = 5  # maximum number of consecutive attempts without progress
_PAUSE_SECONDS = 1.0  # first pause; each further pause doubles. 15 s in total survive the restart of a server
_PASSING = (408, 429, 500, 502, 503, 504)  # temporary HTTP errors


class SlowServer(requests.ConnectionError):
    """A server whose answer would take days."""


class _Refused(Exception):
    """A URL does not have the file. A further request would not help."""


@dataclass(frozen=True, kw_only=True)
class Version:
    """URLs of the same bytes, tried in this order, and their hexadecimal checksum and size (None if unknown)."""

    urls: list[str]
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None

    def difference(self, path: Path) -> str | None:
        """Return the fault of a file, or None."""
        if _length(path) == 0:
            return "found an empty file"
        if self.size not in (None, _length(path)):
            return f"expected {self.size} bytes, found {_length(path)}"
        for name, expected in (("SHA-256", self.sha256), ("MD5", self.md5)):
            if expected and (actual := checksum(path, name.replace("-", ""))) != expected.lower():
                return f"expected {name} {expected}, found {actual}"
        return None

    def part(self, output: Path) -> Path:
        """Return the file that collects the bytes for `output`."""
        return output.with_name(f"{output.name}.{(self.sha256 or self.md5 or 'unknown')[:8]}.part")


def fetch_first(versions: list[Version], output: Path, mirror: Path | None = None) -> None:
    """Download the first available of `versions` to `output`. A mirror has the file of a URL at HOST/PATH.

    Raises InputError, with a reason for each URL, if all URLs fail.
    """
    if any(version.difference(output) is None for version in versions):
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    reasons = []
    for version, url in [(some, url) for some in versions for url in some.urls]:
        place = mirrored(mirror, url) or url
        part = version.part(output)
        resumed = _length(part) > 0 and version.size is not None
        try:
            for _ in range(1 + resumed):  # a second attempt from the beginning, because old bytes may be wrong
                _download(place, part, version.size)
                if not (wrong := version.difference(part)):
                    break
                part.unlink()
            else:
                raise _Refused(wrong)
        except _Refused as refused:
            reasons.append(f"{place}: {refused}")
            logger.warning("%s: %s", output.name, reasons[-1])
        else:
            os.replace(part, output)
            for other in versions:
                other.part(output).unlink(missing_ok=True)
            return
    raise InputError(f"{output.name}: all URLs failed: {'; '.join(reasons)}")


def mirrored(mirror: Path | None, url: str) -> Path | None:
    return Path(mirror, *url.split("/")[2:]) if mirror else None  # HOST and what follows


def _download(place: str | Path, part: Path, size: int | None) -> None:
    """Complete `part` to `size` bytes, with new attempts as long as they make progress. Raises _Refused."""
    if isinstance(place, Path):
        if not place.is_file():
            raise _Refused("no such file")
        shutil.copyfile(place, part)
        return
    failures, farthest = 0, _length(part)
    while _length(part) < (size or 1 << 63):
        try:
            _transfer(place, part, _length(part) if size else 0, size)  # without a size, from the beginning
            return
        except (requests.ConnectionError, requests.Timeout, urllib3.exceptions.HTTPError) as error:
            failures = 1 if _length(part) > farthest and not isinstance(error, SlowServer) else failures + 1
            farthest = max(farthest, _length(part))
            if failures == _ATTEMPTS:
                raise _Refused(f"{type(error).__name__}: {error}, {_ATTEMPTS} times") from error
            pause = _PAUSE_SECONDS * 2 ** (failures - 1)
            logger.warning("%s: %s; retrying in %g s", place, error, pause)
            time.sleep(pause)
        except (requests.RequestException, ValueError) as error:  # ValueError: a redirect to an invalid URL
            raise _Refused(f"{type(error).__name__}: {error}") from error


def _answer(url: str, headers: dict[str, str]) -> requests.Response:
    """Request a file. Raises ConnectionError if no answer has begun after _ANSWER_SECONDS, redirects included."""
    answers: SimpleQueue[requests.Response | Exception] = SimpleQueue()
    late = Event()

    def ask() -> None:
        try:
            answer = requests.get(url, headers=headers, stream=True, timeout=_TIMEOUTS)
            answer.close() if late.is_set() else answers.put(answer)
        except Exception as error:
            answers.put(error)

    Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=_ANSWER_SECONDS)
    except Empty:
        late.set()
        raise requests.ConnectionError(f"expected an answer within {_ANSWER_SECONDS:g} s, found none") from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _transfer(url: str, part: Path, start: int, size: int | None) -> None:
    """Write the bytes of one request from `start` on. Raises ConnectionError on temporary errors, else _Refused."""
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    with _answer(url, headers) as response:
        status = f"HTTP {response.status_code} {response.reason}"
        ranged = response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
        if refused := start and not ranged and response.status_code in (206, 416):
            part.unlink()  # the server cannot resume from there
        if refused or response.status_code in _PASSING:
            raise requests.ConnectionError(status)
        if response.status_code not in (200, 206):
            raise _Refused(status)
        start = start if ranged else 0
        announced = response.headers.get("Content-Length", "")
        total = start + int(announced) if announced.isdecimal() else size
        if None not in (size, total) and total != size:
            raise _Refused(f"expected {size} bytes, found {total}")
        seconds = 0.1 if sys.stderr.isatty() else 10  # few lines in a log
        bar = tqdm(desc=part.stem, total=total, initial=start, unit="B", unit_scale=True, mininterval=seconds)
        with bar, naming(part), open(part, "ab" if start else "wb") as file:
            read = partial(response.raw.read1, 1 << 20, decode_content=False)
            since, before = time.monotonic(), file.tell()
            while (piece := read()) and file.tell() <= (size or 1 << 63):
                bar.update(file.write(piece))
                if (seconds := time.monotonic() - since) > _ANSWER_SECONDS:
                    if file.tell() - before < _SLOWEST * seconds:
                        raise SlowServer(f"expected {_SLOWEST} bytes per second, found fewer")
                    since, before = time.monotonic(), file.tell()
            file.flush()
            os.fsync(file.fileno())
    if _length(part) < (total or 0):
        raise requests.ConnectionError(f"ended after {_length(part)} of {total} bytes")


def _length(path: Path) -> int:
    """Return the size of a file in bytes, or 0 if it does not exist."""
    return path.stat().st_size if path.exists() else 0
