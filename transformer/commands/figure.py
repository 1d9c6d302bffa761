r"""Draw one figure, from a model, a run, its attention, or scores.

    python -m transformer figure figure1 --experiment results/demo/runs/en-de/base/1/experiment.yaml \
        --output results/demo/figures/figure1
    python -m transformer figure curves --metrics results/demo/runs/en-de/*/1/metrics.jsonl --expected en-de/base/1 \
        --paper workflow/paper/table3.csv --label demo --output results/demo/figures/curves

Leaves OUTPUT.pdf, .svg and .png, and OUTPUT.json with the title, the caption, a text for those who cannot see the
figure, its width, and the numbers behind it. `transformer figure NAME --help` says what a figure needs. Runs that are
missing are named in the caption.
"""

import json
from argparse import Namespace
from importlib import import_module
from pathlib import Path

from msgspec.structs import asdict

from transformer.commandline import stage_parser
from transformer.config.experiment import load
from transformer.files import replacing
from transformer.report.figures import FIGURES
from transformer.report.figures.description import Description
from transformer.report.figures.style import Drawing, save

# Below, modules are imported where they are used: only some figures need torch, which takes seconds.
OPTIONS = {
    "experiment": {"type": Path, "metavar": "YAML", "nargs": "+", "help": "experiment.yaml of what is drawn"},
    "weights": {"type": Path, "metavar": "FILE", "help": "the weights of that run"},
    "attention": {"type": Path, "metavar": "JSON", "help": "what the attend stage wrote"},
    "measured": {"type": Path, "metavar": "JSON", "help": "what the measure stage wrote"},
    "metrics": {"type": Path, "metavar": "JSONL", "nargs": "*", "help": "files task/experiment/seed/metrics.jsonl"},
    "task": {"required": False, "help": "the task whose data are the paper's, so that its numbers are drawn, too"},
    "paper": {"metavar": "CSV", "help": "what the paper printed in Table 3, or 2 for bleu_flops"},
    "label": {"metavar": "TEXT", "help": "the data behind our numbers"},
    "score": {"metavar": "JSON", "nargs": "*", "help": "score files, written with --run"},
    "dev": {"metavar": "JSON", "nargs": "*", "help": "score files of last checkpoints on the dev set"},
    "heads": {"metavar": "JSON", "help": "what the probe heads wrote"},
    "lengths": {"metavar": "JSON", "nargs": "*", "help": "what the probe lengths wrote, a file for each run"},
    "expected": {"metavar": "RUN", "nargs": "*", "help": "all runs that should be there, as task/experiment/seed"},
}


def of_model(args: Namespace) -> Drawing:
    """Draw Figure 1 or 2, of an untrained model."""
    from transformer.evaluation.records import run_name
    from transformer.model.transformer import Transformer
    from transformer.report.figures.architecture import figure1
    from transformer.report.figures.multihead import figure2

    experiment = load(args.experiment[0])
    draw = {"figure1": figure1, "figure2": figure2}[args.name]
    return draw(Transformer(experiment.model).eval(), run_name(asdict(experiment)))


def of_attention(args: Namespace) -> Drawing:
    from transformer.report.figures.attention import read_attention

    return getattr(import_module("transformer.report.figures.heads"), args.name)(read_attention(args.attention))


def of_positions(args: Namespace) -> Drawing:
    from transformer.evaluation.records import run_name
    from transformer.model.weights import load_model
    from transformer.report.figures.positions import positions

    experiment = load(args.experiment[0])
    return positions(load_model(args.weights, experiment.model), run_name(asdict(experiment)))


def of_schedule(args: Namespace) -> Drawing:
    from transformer.report.figures.schedule import schedule

    return schedule([load(path) for path in args.experiment])


def of_curves(args: Namespace) -> Drawing:
    from transformer.report.figures.curves import curves, name_of
    from transformer.report.tables.notes import missing
    from transformer.report.tables.table3 import read_variations

    gaps = missing(args.expected, map(name_of, args.metrics))
    return curves(args.metrics, gaps, read_variations(args.paper), args.task, args.label)


def of_scores(args: Namespace) -> Drawing:
    from transformer.evaluation.scorefiles import read_scores
    from transformer.report.figures.cost import bleu_flops, bleu_parameters
    from transformer.report.tables.notes import missing
    from transformer.report.tables.table2 import read_systems
    from transformer.report.tables.table3 import read_variations

    runs = read_scores(args.score)
    gaps = missing(args.expected, runs["name"])
    if args.name == "bleu_parameters":
        return bleu_parameters(read_variations(args.paper), runs, args.label, gaps)
    return bleu_flops(read_systems(args.paper), runs, read_scores(args.dev), args.label, gaps)


def of_timing(args: Namespace) -> Drawing:
    from transformer.report.figures.timing import timing
    from transformer.report.tables.table1 import read_measured

    return timing(read_measured(args.measured))


def of_heads(args: Namespace) -> Drawing:
    from transformer.report.figures.importance import head_importance

    return head_importance(args.heads)


def of_lengths(args: Namespace) -> Drawing:
    from transformer.report.figures.lengths import bleu_length

    return bleu_length(args.lengths, args.label, args.expected)


# By name: what draws it, and the options that it needs.
DRAWN = {
    "figure1": (of_model, ["experiment"]),
    "figure2": (of_model, ["experiment"]),
    "figure3": (of_attention, ["attention"]),
    "figure4": (of_attention, ["attention"]),
    "figure5": (of_attention, ["attention"]),
    "positions": (of_positions, ["experiment", "weights"]),
    "schedule": (of_schedule, ["experiment"]),
    "curves": (of_curves, ["metrics", "expected", "paper", "task", "label"]),
    "bleu_parameters": (of_scores, ["score", "expected", "paper", "label"]),
    "bleu_flops": (of_scores, ["score", "dev", "expected", "paper", "label"]),
    "timing": (of_timing, ["measured"]),
    "head_importance": (of_heads, ["heads"]),
    "bleu_length": (of_lengths, ["lengths", "expected", "label"]),
}


def main(argv: list[str] | None = None) -> None:
    """Draw and write all files."""
    args = parse(argv)
    draw, _ = DRAWN[args.name]
    drawing = draw(args)
    save(drawing.figure, args.output)
    description = Description(
        title=FIGURES[args.name],
        caption=drawing.caption,
        alt=drawing.alt,
        inches=drawing.figure.get_figwidth(),
        data=drawing.data,
    )
    with replacing(f"{args.output}.json") as file:
        json.dump(description, file, indent=1, ensure_ascii=False)
    print(f"{args.output}.pdf, .svg, .png: {drawing.caption}")


def parse(argv: list[str] | None) -> Namespace:
    """Read the command line: a figure's name, and its options."""
    parser = stage_parser("figure", __doc__)
    names = parser.add_subparsers(dest="name", metavar="NAME", required=True, help=", ".join(DRAWN))
    for name, (_, options) in DRAWN.items():
        figure = names.add_parser(name)
        for option in options:
            figure.add_argument(f"--{option}", **{"required": True} | OPTIONS[option])
        figure.add_argument("--output", required=True, metavar="PATH", help="the files to write, without their endings")
    return parser.parse_args(argv)
