"""Checks of what config.yaml's scale needs from elsewhere: downloads, a mirror of them, corpora of this machine."""

from collections.abc import Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from urllib.parse import urlsplit

import requests

from transformer.config.corpora import downloads_of, sources
from transformer.config.scales import tasks_of
from transformer.data.download import cause, length
from transformer.doctor.finding import Finding, error, note, ok
from transformer.doctor.machine import few

ANSWER_SECONDS = 10.0  # in which a server must begin to answer
GRACE_SECONDS = 1.0  # for an answer that has begun by then
LATE = "no answer within {:g} s"
DOWNLOADS = Path("resources/downloads")
MIRROR = "copy the files to <DIR>/<host>/<path> of their addresses and give --config mirror=<DIR>"


def sources_of_scale(config: dict) -> list[dict]:
    """Return what the scale's files are read from."""
    return sources(config, tasks_of(config))


def missing(config: dict) -> dict[str, dict]:
    """Return the downloads that the scale needs and that are not here yet, by name."""
    names = downloads_of(sources_of_scale(config))
    return {name: config["downloads"][name] for name in names if not (DOWNLOADS / name).exists()}


def check_downloads(config: dict, mirror: str) -> Iterator[Finding]:
    """Check that missing files can be fetched from the folder `mirror`, or from the network where that is empty."""
    needed = missing(config)
    if not needed:
        yield ok("downloads", f"scale {config['scale']} needs none that is not here")
    elif mirror:
        yield from mirrored(needed, Path(mirror))
    else:
        yield from reachable(needed)
    yield from own_files(config)


def mirrored(needed: dict[str, dict], mirror: Path) -> Iterator[Finding]:
    """Check that the mirror has each file under one of its addresses, with its size."""
    problems = {name: problem for name, entry in needed.items() if (problem := absent(entry, mirror))}
    for name, problem in problems.items():
        yield error(f"mirror {mirror}", f"{name}: {problem}", "copy it there again")
    if not problems:
        yield ok(f"mirror {mirror}", f"has all {len(needed)} files")


def places(entry: dict) -> list[tuple[str, int | None]]:
    """Return the addresses of a download, each with the size of its file; alternatives are other bytes."""
    editions = [entry, *entry.get("alternatives", [])]
    return [(url, edition.get("size")) for edition in editions for url in edition["urls"]]


def absent(entry: dict, mirror: Path) -> str | None:
    """Return why a mirror does not have a file, or None if it does."""
    problems = []
    for url, expected in places(entry):
        place = mirror.joinpath(*url.split("/")[2:])
        if (size := length(place)) and expected in (None, size):
            return None
        problems.append(f"{place} has {size} bytes, not {expected or 'any'}" if place.exists() else f"no file {place}")
    return "; ".join(problems)


def reachable(needed: dict[str, dict]) -> Iterator[Finding]:
    """Check that each file has an address whose server answers: one finding for each server."""
    hosts = {name: {urlsplit(url).netloc: url for url, _ in places(entry)} for name, entry in needed.items()}
    samples = {host: url for urls in reversed(hosts.values()) for host, url in urls.items()}
    problems = silences(samples)
    for host, problem in problems.items():
        lost = [name for name, urls in hosts.items() if host in urls and all(map(problems.get, urls))]
        if problem is None:
            yield ok(f"network: {host}", "answers")
        elif lost:
            yield error(f"network: {host}", f"{problem}; needed for {few(lost)}", f"a way to the network, or {MIRROR}")
        else:
            yield note(f"network: {host}", f"{problem}; others have its files")


def silences(urls: dict[str, str]) -> dict[str, str | None]:
    """Return `silence` of the address of each host, of all at once, with one deadline.

    The threads end with the process: a server that only ever says `100 Continue` holds its own for ever.
    """
    answers, found = SimpleQueue(), dict.fromkeys(urls, LATE.format(ANSWER_SECONDS))
    for host, url in urls.items():
        Thread(target=lambda host=host, url=url: answers.put((host, silence(url))), daemon=True).start()
    end = monotonic() + ANSWER_SECONDS + GRACE_SECONDS
    for _ in urls:
        try:
            host, problem = answers.get(timeout=max(0, end - monotonic()))
        except Empty:
            break
        found[host] = problem
    return found


def silence(url: str) -> str | None:
    """Return why an address gives nothing, or None if it does."""
    try:
        response = requests.head(url, timeout=ANSWER_SECONDS, allow_redirects=True)
    except requests.Timeout:
        return LATE.format(ANSWER_SECONDS)
    except requests.RequestException as failure:
        return cause(failure)
    failed = response.status_code >= 400 and response.status_code != 405  # 405: the server answers, but not to HEAD
    return f"HTTP {response.status_code} {response.reason} for {url}" if failed else None


def own_files(config: dict) -> Iterator[Finding]:
    """Check that corpora which are files of this machine exist."""
    entries = {entry["path"]: entry for entry in sources_of_scale(config) if "path" in entry}
    for path, entry in entries.items():
        if Path(path).exists():
            yield ok("corpora", f"{path} is here")
        elif "sections" in entry:
            fix = f"put LDC99T42's folder parsed/mrg/wsj at {path}, or do without Table 4"
            yield note("corpora", f"no {path}: the Penn Treebank is licensed, and Table 4 is left out", fix)
        else:
            yield error("corpora", f"no file {path}", "put it there, or name another in config.yaml")
