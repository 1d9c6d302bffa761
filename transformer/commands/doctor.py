"""Check a machine, and a Slurm cluster, for what breaks long runs, before one starts.

    python -m transformer doctor --config scale=paper
    python -m transformer doctor --config scale=paper --profile profiles/slurm

Run it in the project's folder, on the machine that Snakemake will run on. Each line is a finding: ok, a note, a warning
or an error, with what mends it. With the profile of a Slurm cluster it also checks that the cluster has what the
profile asks for, and runs a short job in each of its partitions. Exits with 1 where there is an error.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from transformer.commandline import json_object, positive, stage_parser
from transformer.config import settings
from transformer.doctor import slurm
from transformer.doctor.downloads import check_downloads
from transformer.doctor.finding import LEVELS, Finding
from transformer.doctor.folders import TEMPORARY, check_folder, needed_space
from transformer.doctor.machine import LOCK, check_openmp, check_packages, check_processors
from transformer.doctor.node import check_node
from transformer.doctor.partitions import check_partitions
from transformer.doctor.probe import PATIENCE, largest, probe
from transformer.doctor.profile import Profile, read_profile


def main(argv: list[str] | None = None) -> None:
    """Print a line for each finding as soon as it is known."""
    args = parse(argv)
    if args.node:
        for part in check_node(args.node):
            print(json.dumps(part), flush=True)
        return
    counts = Counter()
    for finding in check(args):
        print(finding, flush=True)
        counts[finding.level] += 1
    print(", ".join(f"{counts[level]} {level}" for level in LEVELS))
    if counts["error"]:
        sys.exit(1)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = stage_parser("doctor", __doc__)
    parser.add_argument(
        "--profile", type=Path, metavar="DIR", help="profiles/slurm, or profiles/allocation, or one like them"
    )
    parser.add_argument(
        "--config", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help="as Snakemake's: scale, mirror"
    )
    parser.add_argument("--configfile", nargs="+", action="extend", default=[], metavar="FILE", help="as Snakemake's")
    parser.add_argument("--mirror", metavar="DIR", help="where downloads lie; config.yaml's mirror if not given")
    parser.add_argument("--no-probe", action="store_true", help="run no jobs on the cluster")
    parser.add_argument(
        "--patience", type=positive, default=PATIENCE, metavar="SECONDS", help=f"for a job to start ({PATIENCE})"
    )
    parser.add_argument("--node", type=json_object, metavar="JSON", help="for doctor's own jobs: check the node")
    return parser.parse_args(argv)


def check(args: argparse.Namespace) -> Iterator[Finding]:
    """Make all checks, quick ones first."""
    config = settings.read(args.configfile, args.config)
    profile = read_profile(args.profile) if args.profile else None
    mirror = config["mirror"] if args.mirror is None else args.mirror
    yield from check_machine(config, mirror)
    if profile:
        yield from check_cluster(profile, args, mirror)


def check_machine(config: dict, mirror: str) -> Iterator[Finding]:
    """Make the checks of this machine."""
    yield from check_packages(LOCK)
    yield from check_processors()
    yield from check_openmp()
    from transformer.doctor.gpus import check_gpus  # loads torch, for which nothing else waits

    yield from check_gpus()
    for folder, needed in needed_space(config).items():
        yield from check_folder(folder, needed)
    yield from check_folder(TEMPORARY)
    yield from check_downloads(config, mirror)


def check_cluster(profile: Profile, args: argparse.Namespace, mirror: str) -> Iterator[Finding]:
    """Make the checks of a cluster; where its commands or its controller fail, no others."""
    for check_first in (slurm.check_commands, slurm.check_controller):
        yield (finding := check_first())
        if finding.level == "error":
            return
    yield from slurm.check_version()
    cluster = slurm.cluster_settings()
    if profile.submits:
        yield from slurm.check_status(profile, cluster)
    yield from slurm.check_accounts(profile)
    yield from slurm.check_requeue(profile, cluster)
    good = list(profile.asked)
    for finding, rules in check_partitions(profile.asked):
        yield finding
        if finding.level == "error":
            good = [rule for rule in good if rule not in rules]
    reading = {"files": args.configfile, "entries": args.config, "mirror": mirror, "submits": profile.submits}
    for rule in [] if args.no_probe else largest(good):
        yield from probe(rule, reading, args.patience)
