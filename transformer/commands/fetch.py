"""The command `fetch`: one download (§5.1)."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import File, PositiveInt

from transformer.commands import require_separate
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
    """Download one file from the first URL that delivers the expected bytes.

        python -m transformer fetch --url https://example.org/a.tgz --sha256 cb89... --size 80418416 --output a.tgz

    Args:
        url: URLs of the file
        output: file to write
        sha256: expected SHA-256 in hexadecimal; omit it for an archive that its host repacks at each request
        md5: expected MD5, if the SHA-256 is unknown
        size: expected length in bytes
        others: JSON object of an equivalent file, tried next: urls, sha256 or md5, and size
        mirror: folder to read instead of the network; a URL's file is MIRROR/HOST/PATH
    """
    from transformer.data.download import Version, fetch_first, mirrored

    versions = [Version(urls=url, sha256=sha256, md5=md5, size=size)]
    versions += [parse_json(other, Version, "--or") for other in others or []]
    for version in versions:
        if not (version.sha256 or version.md5) and (version.size or version is not versions[0]):
            raise InputError("--size and --or: expected a checksum with them, found none; add sha256 or md5")
    require_separate(
        {"--output": output}, {"--mirror": [mirrored(mirror, one) for each in versions for one in each.urls]}
    )
    fetch_first(versions, output, mirror)
    print(f"{output}: {'checksum as expected' if sha256 or md5 else 'complete; no checksum to compare'}")
