"""The checks that the job of probe.py makes on a node."""

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from transformer.config import settings
from transformer.doctor.downloads import check_downloads
from transformer.doctor.finding import Finding, error, note, ok
from transformer.doctor.folders import RESULTS, TEMPORARY, appears, check_folder, lock_is_free
from transformer.doctor.machine import LOCK, check_openmp, check_packages, check_processors, versions
from transformer.files import InputError, replacing

NODE = os.environ.get("SLURMD_NODENAME", socket.gethostname())


def check_node(order: dict) -> Iterator[dict]:
    """Yield what the job prints: its clock at once, then its findings and versions. `order` is probe.py's."""
    yield {"time": time.time(), "node": NODE}
    if appears(Path(order["place"], "login"), order["token"]):
        findings, here = list(check_shared(order)), versions(LOCK)
    else:  # nothing else can be looked at
        message = f"{Path.cwd()} is not the folder that it is on the login node"
        fix = "the project, its environment and results/ on a file system that all nodes have"
        findings, here = [error("files", message, fix)], {}
    yield {"findings": list(map(asdict, findings)), "versions": here}


def check_shared(order: dict) -> Iterator[Finding]:
    """Make all checks of this node, which sees the login node's files."""
    from transformer.doctor.gpus import check_gpus  # loads torch, for which the greeting does not wait

    place = Path(order["place"])
    with replacing(place / "node") as file:
        file.write(NODE)
    if lock_is_free(place / "lock"):
        message = "a lock of the login node does not hold here: two trainings on two nodes would write one run's files"
        fix = "mount them with locks between nodes (Lustre: -o flock; NFS: without local_lock)"
        yield error("files", message, fix)
    else:
        yield ok("files", "a lock of the login node holds here")
    yield from check_packages(LOCK)
    yield from check_processors(order["cpus"])
    yield from check_openmp()
    yield from check_gpus(order["gpus"])
    yield from check_folder(RESULTS)
    yield from check_folder(TEMPORARY)
    config = settings.read(order["files"], order["entries"])
    yield from check_node_downloads(config, order["mirror"], order["submits"])


def check_node_downloads(config: dict, mirror: str, submits: bool) -> Iterator[Finding]:
    """Check that the user's own corpora are here, and that downloads can be had where this node has to fetch them.

    The machine that Snakemake runs on fetches: this node where Snakemake does not submit jobs but runs in one.
    """
    try:
        findings = list(check_downloads(config, mirror))
    except InputError as problem:  # a list of files made elsewhere cannot be read
        level = note if submits else error
        yield level("downloads", str(problem), "" if submits else "let this node see that folder, too")
        return
    if not submits:
        yield from findings
        return
    problems = [finding for finding in findings if finding.level in ("warning", "error")]
    yield from (finding for finding in problems if finding.subject == "corpora")
    if lost := [finding.subject for finding in problems if finding.subject != "corpora"]:
        yield note(
            "downloads", f"cannot be fetched from here ({lost[0]}); no matter, Snakemake fetches where it runs itself"
        )
    else:
        yield ok("downloads", "can be had")
