# The questions of rules/fetch.smk: where downloads and the files of corpora come from.
import json

from transformer.config.corpora import source_of


def wanted_sum(wildcards):
    """Return the checksum of a download, if one is known."""
    download = config["downloads"][wildcards.file]
    return download.get("sha256", download.get("md5", ""))


def fetch_options(wildcards, output):
    """Return the addresses of a download and what it is, as options of the fetch stage.

    As this takes `output`, Snakemake fetches nothing again because they changed: another address gives the same bytes.
    """
    download = config["downloads"][wildcards.file]
    options = [word for url in download["urls"] for word in ("--url", url)]
    options += [
        word
        for key in ("sha256", "md5", "size")
        if key in download
        for word in (f"--{key}", download[key])
    ]
    options += [
        word
        for other in download.get("alternatives", [])
        for word in ("--or", json.dumps(other))
    ]
    options += ["--mirror", config["mirror"]] if config["mirror"] else []
    return [*options, "--output", output[0]]


def file_of(wildcards):
    """Return a corpus file's entry in config.yaml."""
    return config["corpora"][wildcards.corpus]["files"][wildcards.language]


def others_of(wildcards):
    """Return the entry of another language, if it and this one are in WMT's format, which numbers its sentences."""
    files = config["corpora"][wildcards.corpus]["files"]
    others = [
        entry
        for language, entry in files.items()
        if language != wildcards.language and "format" in entry
    ]
    return others[:1] if "format" in file_of(wildcards) else []


def unpack_options(wildcards):
    """Return how to get a corpus file out of its archive, as options of the unpack stage."""
    entry = file_of(wildcards)
    options = ["--format", entry.get("format", "text")]
    if "member" in entry:
        options += ["--member", entry["member"]]
    for other in others_of(wildcards):
        options += [
            "--beside",
            moved(source_of(other)),
            *([other["member"]] if "member" in other else []),
        ]
    if "lines" in config["corpora"][wildcards.corpus]:
        options += ["--lines", config["corpora"][wildcards.corpus]["lines"]]
    return options
