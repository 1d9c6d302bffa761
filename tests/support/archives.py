"""Archives and texts in the formats of WMT."""

import hashlib
import io
import tarfile
import zipfile


def plain(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def sgm(kind: str, lines: list[str]) -> bytes:
    """Write WMT's test format with two sentences per document."""
    documents = []
    for start in range(0, len(lines), 2):
        text = [line.replace("&", "&amp;") for line in lines[start : start + 2]]
        segments = [f'<seg id="{number}">{line}</seg>' for number, line in enumerate(text, start=1)]
        documents.append("\n".join([f'<doc sysid="x" docid="{start}-paper" genre="news">', *segments, "</doc>\n"]))
    return f'<{kind}set setid="newstest2014" srclang="any">\n{"".join(documents)}</{kind}set>\n'.encode()


def packed(name: str, members: dict[str, bytes]) -> bytes:
    """Pack a .tar or a .tgz, depending on the name."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w" if name.endswith(".tar") else "w:gz") as archive:
        for path, content in members.items():
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in members.items():
            archive.writestr(path, content)
    return buffer.getvalue()


def about(data: bytes, *urls: str) -> dict:
    """Return the entry of a download in config.yaml."""
    return {"urls": [*urls], "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
