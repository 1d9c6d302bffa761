r"""Write REPRODUCIBILITY.md of a scale: what reviewers ask of its runs, answered from the runs' files.

    python -m transformer reproducibility --scale demo --label "sentences of a grammar" \
        --run results/demo/runs/*/*/*/run.json --score results/demo/runs/*/*/*/{test,dev.last}.json \
        --data results/demo/data/*/data.json --target results/demo/tables/table2.md results/demo/figures/curves.svg \
        --core-watts W --gpu-watts W --pue X --estimate NAME --source ADDRESS \
        --output results/demo/REPRODUCIBILITY.md

Reads experiment.yaml, decoding.yaml and metrics.jsonl beside each run.json. Name all runs and scores that should be
there: the document lists what is not. The files need no weights, and may be of an older version.
"""

import argparse
import shlex
from pathlib import Path

import transformer
from transformer.commandline import json_object, stage_parser
from transformer.data.manifest import read_manifest
from transformer.evaluation.significance import RESAMPLES, SEED
from transformer.files import replacing
from transformer.records import typed
from transformer.report.page import datasets, setup
from transformer.report.page.accounts import UNRECORDED, read_account, read_scores
from transformer.report.page.energy import Power, totals
from transformer.report.page.page import Gap, files, title
from transformer.report.page.reproducibility import (
    commands_grid,
    options_of_commands,
    render,
    runs_grid,
    scores_grid,
    signatures,
)


def main(argv: list[str] | None = None) -> None:
    args = parse(argv)
    text = render(**content(args))
    with replacing(args.output) as file:
        file.write(text)
    print(f"{args.output}: {len(text.splitlines())} lines")


def content(args: argparse.Namespace) -> dict:
    """Return what the template shows, by name."""
    problems: list[str] = []
    finished, no_runs = files("Runs", args.run)
    scored, no_scores = files("Scores", args.score)
    manifests, no_data = files("Data", args.data)
    read = [read_account(path, problems) for path in finished]
    by_name = {run.name: run for run in read}
    problems += read_scores(scored, by_name)
    names = {path: run.name for path, run in zip(finished, read, strict=True)}
    expected = [names.get(path) or "/".join(Path(path).parts[-4:-1]) for path in args.run]
    power = Power({"core": args.core_watts, "GPU": args.gpu_watts}, args.pue, args.estimate, args.source)
    described = typed(args.described, datasets.Described, "--described")
    options = options_of_commands(args.scale, args.configfile, args.module)
    first = setup.first_run(read)
    grammars = [corpus["grammar"]["seed"] for corpus in described["corpora"].values() if "grammar" in corpus]
    return {
        "scale": args.scale,
        "label": args.label,
        "version": transformer.__version__,
        "unrecorded": UNRECORDED,
        "accounts": read,
        "expected": expected,
        "gaps": [Gap(title(name), why) for name, why in args.missing] + no_runs + no_scores + no_data,
        "problems": problems,
        "taken": [run.name for run in read if "taken" in run.record],
        "learned": datasets.learned_grid(read, [read_manifest(Path(path)) for path in manifests]),
        "tested": datasets.tested_grid(read),
        "corpora": datasets.corpora_grid(described),
        "runs": runs_grid(by_name, expected, power),
        "power": power,
        "totals": totals([run.work for run in read], power),
        "hardware": setup.hardware_grid(read),
        "first": first,
        "settings": setup.settings_grid(first) if first else None,
        "differences": setup.differences_grid(read),
        "tried": setup.tried_grid(described.get("tried", [])),
        "decoding": setup.decoding_grid(read),
        "preparation": setup.preparation_grid(read),
        "software": setup.software_grid(read),
        "commits": setup.commits_grid(read),
        "scores": scores_grid(by_name, expected),
        "signatures": signatures(read),
        "seeds": sorted(set(grammars)),
        "resamples": RESAMPLES,
        "resampling_seed": SEED,
        "commands": commands_grid(args.target, args.output, options, args.module),
        "module": args.module,
        "plan": shlex.join(["python", "-m", "transformer", "plan", *options]),
    }


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = stage_parser("reproducibility", __doc__)
    add = parser.add_argument
    add("--scale", required=True, help="its name in config.yaml; that of the paper's models and data is paper")
    add("--label", required=True, metavar="TEXT", help="the data behind our numbers")
    add("--run", default=[], metavar="JSON", nargs="*", help="the trainings, each by its run.json")
    add("--score", default=[], metavar="JSON", nargs="*", help="their score files")
    add("--data", default=[], metavar="JSON", nargs="*", help="data.json of their tasks")
    nothing = {"tasks": {}, "corpora": {}, "downloads": {}}
    add("--described", default=nothing, type=json_object, metavar="JSON", help="config.yaml's entries for the data")
    add("--target", default=[], metavar="FILE", nargs="*", help="the tables and figures of this scale, for Snakemake")
    add("--module", action="store_true", help="whether another workflow uses this one, with its own configuration")
    add("--configfile", default=[], metavar="YAML", nargs="*", help="what Snakemake was given beside config.yaml")
    add("--missing", default=[], metavar=("NAME", "WHY"), nargs=2, action="append", help="a part that is not there")
    add("--core-watts", required=True, type=float, metavar="W", help="power of a processor core at work, assumed")
    add("--gpu-watts", required=True, type=float, metavar="W", help="power of a GPU at work, assumed")
    add("--pue", required=True, type=float, metavar="X", help="power of a data centre over that of its machines")
    add("--estimate", required=True, metavar="TEXT", help="the name of this estimate of energy")
    add("--source", required=True, metavar="TEXT", help="where its numbers are from")
    add("--output", required=True, metavar="MD", help="the document")
    return parser.parse_args(argv)
