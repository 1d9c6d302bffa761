"""Draw one figure, from a model, a run, its attention, or scores.

    python -m transformer figure figure1 --experiment results/demo/runs/en-de/base/1/experiment.yaml \\
        --output results/demo/figures/figure1
    python -m transformer figure curves --metrics results/demo/runs/en-de/*/1/metrics.jsonl --expected en-de/base/1 \\
        --paper workflow/paper/table3.csv --task en-de --label demo --output results/demo/figures/curves

Leaves OUTPUT.pdf, .svg and .png, and OUTPUT.json with the caption, a text for those who cannot see the figure, and the
numbers behind them. `transformer figure NAME --help` says what a figure needs. Runs that are missing are named in the
caption.
"""

import argparse
import json
from pathlib import Path

from transformer.commandline import stage_parser
from transformer.common.files import read_json, replacing
from transformer.config.experiment import load
from transformer.figures.architecture import figure1, figure2
from transformer.figures.cost import bleu_flops, bleu_parameters
from transformer.figures.curves import curves, name_of
from transformer.figures.heads import figure3, figure4, figure5
from transformer.figures.positions import positions
from transformer.figures.schedule import schedule
from transformer.figures.style import Drawing, save
from transformer.figures.timing import timing
from transformer.model.transformer import Transformer
from transformer.model.weights import load_model
from transformer.scoring.scorefiles import read_scores, run_name
from transformer.tables.cells import missing
from transformer.tables.table1 import read_measured
from transformer.tables.table2 import read_systems
from transformer.tables.table3 import read_variations

OPTIONS = {
    "experiment": {"type": Path, "metavar": "YAML", "nargs": "+", "help": "experiment.yaml of what is drawn"},
    "weights": {"type": Path, "metavar": "FILE", "help": "the weights of that run"},
    "attention": {"type": Path, "metavar": "JSON", "help": "what the attend stage wrote"},
    "measured": {"type": Path, "metavar": "JSON", "help": "what the measure stage wrote"},
    "metrics": {"type": Path, "metavar": "JSONL", "nargs": "*", "help": "files task/experiment/seed/metrics.jsonl"},
    "task": {"help": "the task that the paper's numbers belong to"},
    "paper": {"metavar": "CSV", "help": "what the paper printed in Table 3, or 2 for bleu_flops"},
    "label": {"metavar": "TEXT", "help": "the data behind our numbers"},
    "score": {"metavar": "JSON", "nargs": "*", "help": "score files, written with --run"},
    "dev": {"metavar": "JSON", "nargs": "*", "help": "score files of last checkpoints on the dev set"},
    "expected": {"metavar": "RUN", "nargs": "*", "help": "all runs that should be there, as task/experiment/seed"},
}


def of_model(draw, args: argparse.Namespace) -> Drawing:
    """Figures 1 and 2, of an untrained model."""
    experiment = load(args.experiment[0])
    return draw(Transformer(experiment.model).eval(), run_name(vars(experiment)))


def of_positions(args: argparse.Namespace) -> Drawing:
    """The positions of a trained model."""
    experiment = load(args.experiment[0])
    return positions(load_model(args.weights, experiment.model), run_name(vars(experiment)))


def of_curves(args: argparse.Namespace) -> Drawing:
    """Learning curves."""
    gaps = missing(args.expected, map(name_of, args.metrics))
    return curves(args.metrics, gaps, read_variations(args.paper), args.task, args.label)


def of_parameters(args: argparse.Namespace) -> Drawing:
    """BLEU over parameters."""
    runs = read_scores(args.score)
    return bleu_parameters(read_variations(args.paper), runs, args.label, missing(args.expected, runs["name"]))


def of_flops(args: argparse.Namespace) -> Drawing:
    """BLEU over FLOPs."""
    runs = read_scores(args.score)
    gaps = missing(args.expected, runs["name"])
    return bleu_flops(read_systems(args.paper), runs, read_scores(args.dev), args.label, gaps)


# By name: what draws it, and the options that it needs.
FIGURES = {
    "figure1": (lambda args: of_model(figure1, args), ["experiment"]),
    "figure2": (lambda args: of_model(figure2, args), ["experiment"]),
    "figure3": (lambda args: figure3(read_json(args.attention)), ["attention"]),
    "figure4": (lambda args: figure4(read_json(args.attention)), ["attention"]),
    "figure5": (lambda args: figure5(read_json(args.attention)), ["attention"]),
    "positions": (of_positions, ["experiment", "weights"]),
    "schedule": (lambda args: schedule([load(path) for path in args.experiment]), ["experiment"]),
    "curves": (of_curves, ["metrics", "expected", "paper", "task", "label"]),
    "bleu_parameters": (of_parameters, ["score", "expected", "paper", "label"]),
    "bleu_flops": (of_flops, ["score", "dev", "expected", "paper", "label"]),
    "timing": (lambda args: timing(read_measured(args.measured)), ["measured"]),
}


def main(argv: list[str] | None = None) -> None:
    """Draw and write all files."""
    args = parse(argv)
    drawing = FIGURES[args.name][0](args)
    save(drawing.figure, args.output)
    said = {"caption": drawing.caption, "alt": drawing.alt, "data": drawing.data}
    with replacing(f"{args.output}.json") as file:
        json.dump(said, file, indent=1, ensure_ascii=False)
    print(f"{args.output}.pdf, .svg, .png: {drawing.caption}")


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line: a figure's name, and its options."""
    parser = stage_parser("figure", __doc__)
    names = parser.add_subparsers(dest="name", metavar="NAME", required=True, help=", ".join(FIGURES))
    for name, (_, options) in FIGURES.items():
        figure = names.add_parser(name)
        for option in options:
            figure.add_argument(f"--{option}", required=True, **OPTIONS[option])
        figure.add_argument("--output", required=True, metavar="PATH", help="the files to write, without their endings")
    return parser.parse_args(argv)
