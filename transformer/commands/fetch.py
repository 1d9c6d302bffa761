"""The command `fetch`: downloads (§5.1)."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import File, PositiveInt

from transformer.storage.files import InputError
from transformer.storage.records import parse_json


def fetch(
    *,
    url: list[str],
    output: File,
    sha256: str | None = None,
    md5: str | None = None,
    size: PositiveInt | None = None,
    others: Annotated[list[str], Parameter(name="--or")] | None = None,
    mirror: Path | None = None,
) -> None:
    """Download one file from the first URL that provides the expected bytes.

        python -m transformer fetch --url https://example.org/a.tgz --sha256 cb89... --size 80418416 --output a.tgz

    Args:
        url: URLs of the file
        output: file to write
        sha256: SHA-256 in hexadecimal; leave it out if the host repacks the archive for each request
        md5: MD5 of the file, if its SHA-256 is unknown
        size: length of the file in bytes
        others: JSON of an equivalent file to try next: urls, sha256 or md5, and size
        mirror: folder with local copies: read MIRROR/HOST/PATH of each URL instead of the network
    """
    from transformer.data.download import Version, fetch_first

    versions = [Version(urls=url, sha256=sha256, md5=md5, size=size)]
    versions += [parse_json(other, Version, "--or") for other in others or []]
    for version in versions:
        if not (version.sha256 or version.md5) and (version.size or version is not versions[0]):
            raise InputError("--size and --or: expected with sha256 or md5, found no checksum")
    fetch_first(versions, output, mirror)
    print(f"{output}: {'checksum as expected' if sha256 or md5 else 'downloaded, no checksum to compare'}")
