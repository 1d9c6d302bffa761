"""The checks that probe.py's job makes on a node."""

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from transformer.common.files import InputError, replacing
from transformer.config import settings
from transformer.doctor.downloads import downloads
from transformer.doctor.finding import Finding, error, note, ok
from transformer.doctor.folders import RESULTS, TEMPORARY, appears, folder, taken_here
from transformer.doctor.gpus import gpus
from transformer.doctor.machine import LOCK, openmp, packages, processors, versions

NODE = os.environ.get("SLURMD_NODENAME", socket.gethostname())


def inside(order: dict) -> Iterator[dict]:
    """What the job prints: its clock at once, then its findings and versions. `order` is probe.py's."""
    yield {"time": time.time(), "node": NODE}
    place = Path(order["place"])
    shared = appears(place / "login", order["token"])
    findings = list(on_shared_files(order) if shared else apart())
    yield {"findings": list(map(asdict, findings)), "versions": versions(LOCK) if shared else {}}


def apart() -> Iterator[Finding]:
    """Nothing else can be looked at."""
    fix = "the project, its environment and results/ on a file system that all nodes have"
    yield error("files", f"{Path.cwd()} is not the folder that it is on the login node", fix)


def on_shared_files(order: dict) -> Iterator[Finding]:
    """All checks of this node, which sees the login node's files."""
    place = Path(order["place"])
    with replacing(place / "node") as file:
        file.write(NODE)
    yield lock_of_another(place / "lock")
    yield from packages(LOCK)
    yield from processors(order["cpus"])
    yield from openmp()
    yield from gpus(order["gpus"])
    yield from folder(RESULTS)
    yield from folder(TEMPORARY)
    yield from fetching(settings.read(order["files"], order["entries"]), order["mirror"], order["submits"])


def lock_of_another(path: Path) -> Finding:
    """A lock that the login node holds is not to be had here."""
    if taken_here(path):
        text = "a lock of the login node does not hold here: two trainings on two nodes would write one run's files"
        return error("files", text, "mount them with locks between nodes (Lustre: -o flock; NFS: without local_lock)")
    return ok("files", "a lock of the login node holds here")


def fetching(config: dict, mirror: str, submits: bool) -> Iterator[Finding]:
    """Corpora of the user's own are here; what a node cannot fetch is fetched by the machine that Snakemake runs on.

    Where Snakemake does not submit jobs but runs in one, that is this node.
    """
    try:
        found = list(downloads(config, mirror))
    except InputError as problem:  # a list of what was made elsewhere
        text = str(problem)
        yield note("downloads", text) if submits else error("downloads", text, "let this node see that folder, too")
        return
    if not submits:
        yield from found
        return
    found = [finding for finding in found if finding.level in ("warning", "error")]
    yield from (finding for finding in found if finding.about == "corpora")
    if lost := [finding.about for finding in found if finding.about != "corpora"]:
        yield note("downloads", f"not to be had here ({lost[0]}); no matter, Snakemake fetches where it runs itself")
    else:
        yield ok("downloads", "can be had")
