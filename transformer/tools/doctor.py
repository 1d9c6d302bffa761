"""Check a machine, and a Slurm cluster, for what breaks long runs, before one starts.

    python -m transformer doctor --config scale=paper
    python -m transformer doctor --config scale=paper --profile profiles/slurm

Run it in the project's folder, on the machine that Snakemake will run on. Each line is a finding: ok, a note, a warning
or an error with what mends it. With the profile of a Slurm cluster it asks the cluster, too, whether it has what the
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
from transformer.doctor.disk import needs
from transformer.doctor.downloads import downloads
from transformer.doctor.finding import LEVELS, Finding
from transformer.doctor.folders import TEMPORARY, folder
from transformer.doctor.gpus import gpus
from transformer.doctor.machine import LOCK, openmp, packages, processors
from transformer.doctor.node import inside
from transformer.doctor.partitions import partitions
from transformer.doctor.probe import PATIENCE, largest, probe
from transformer.doctor.profile import Profile, read_profile


def main(argv: list[str] | None = None) -> None:
    """Print a line per finding, as they come."""
    args = parse(argv)
    if args.inside:
        for part in inside(args.inside):
            print(json.dumps(part), flush=True)
        return
    counts = Counter()
    for finding in findings(args):
        print(finding, flush=True)
        counts[finding.level] += 1
    print(", ".join(f"{counts[level]} {level}" for level in LEVELS))
    if counts["error"]:
        sys.exit(1)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
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
    parser.add_argument("--inside", type=json_object, metavar="JSON", help="what the jobs themselves are started with")
    return parser.parse_args(argv)


def findings(args: argparse.Namespace) -> Iterator[Finding]:
    """All checks, quick ones first."""
    config = settings.read(args.configfile, args.config)
    profile = read_profile(args.profile) if args.profile else None
    mirror = config["mirror"] if args.mirror is None else args.mirror
    yield from here(config, mirror)
    if profile:
        yield from cluster(profile, args, mirror)


def here(config: dict, mirror: str) -> Iterator[Finding]:
    """The checks of this machine."""
    yield from packages(LOCK)
    yield from processors()
    yield from openmp()
    yield from gpus()
    for path, needed in needs(config).items():
        yield from folder(path, needed)
    yield from folder(TEMPORARY)
    yield from downloads(config, mirror)


def cluster(profile: Profile, args: argparse.Namespace, mirror: str) -> Iterator[Finding]:
    """The checks of a cluster; without its commands or its controller, no others."""
    for check in (slurm.commands, slurm.controller):
        yield (finding := check())
        if finding.level == "error":
            return
    yield from slurm.version()
    known = slurm.settings()
    if profile.submits:
        yield from slurm.status(profile, known)
    yield from slurm.accounts(profile)
    yield from slurm.requeue(profile, known)
    good = list(profile.asked)
    for finding, rules in partitions(profile.asked):
        yield finding
        if finding.level == "error":
            good = [rule for rule in good if rule not in rules]
    about = {"files": args.configfile, "entries": args.config, "mirror": mirror, "submits": profile.submits}
    for rule in [] if args.no_probe else largest(good):
        yield from probe(rule, about, args.patience)
