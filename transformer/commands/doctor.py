"""The commands `doctor` and `doctor-node`: what is wrong with a machine or a Slurm cluster, before a long run."""

import sys
from collections import Counter
from itertools import chain
from pathlib import Path

from cyclopts.types import NonNegativeInt, PositiveInt

from transformer.config import settings
from transformer.doctor.machine import LEVELS, check_machine
from transformer.doctor.slurm import check_cluster, check_node, read_profile


def doctor(
    *,
    profile: Path | None = None,
    config: list[str] | None = None,
    configfile: list[str] | None = None,
    mirror: str | None = None,
    no_probe: bool = False,
    patience: PositiveInt = 120,
) -> None:
    """Check a machine, and a Slurm cluster, for what breaks long runs.

    Run it in the project's folder, on the machine that Snakemake will run on. Each line is a finding: ok, a note, a
    warning or an error, with its fix. With a profile it also checks that the cluster has what the profile asks for, and
    runs a short job in each of its partitions. Exits with 1 if there is an error.

    python -m transformer doctor --config scale=paper --profile profiles/slurm

    Args:
        profile: The folder of a Snakemake profile for Slurm, such as profiles/slurm.
        config: KEY=VALUE, as Snakemake's.
        configfile: YAML files, as Snakemake's.
        mirror: The folder with copies of downloads; config.yaml's if not given.
        no_probe: Run no jobs on the cluster.
        patience: Seconds that such a job may wait for a node.
    """
    read = settings.read(configfile or [], config or [])
    jobs = read_profile(profile) if profile else None
    counts = Counter()
    cluster = check_cluster(jobs, patience, not no_probe) if jobs else ()
    for finding in chain(check_machine(read, read["mirror"] if mirror is None else mirror), cluster):
        print(finding, flush=True)
        counts[finding.level] += 1
    print(", ".join(f"{counts[level]} {level}" for level in LEVELS))
    if counts["error"]:
        sys.exit(1)


def doctor_node(place: Path, /, *, gpus: NonNegativeInt) -> None:
    """Check a cluster's node, as the job of doctor's probe.

    Args:
        place: A new folder of the login node.
        gpus: The GPUs that the job asked for.
    """
    for finding in check_node(place, gpus):
        print(finding, flush=True)
