r"""Draw one figure, from a configuration, a run, its attention, or scores.

    python -m transformer figure figure1 --experiment results/demo/runs/en-de/base/1/experiment.yaml \
        --output results/demo/figures/figure1

Leaves OUTPUT.pdf, .svg and .png, and OUTPUT.json with the title, the caption, a text for those who cannot see the
figure, its width, and the numbers behind it. The options of a figure are in the docstring of its function. Runs that
are missing are named in the caption.
"""

from importlib import import_module

from transformer.commandline import stage_parser
from transformer.report.figures import FIGURES
from transformer.report.figures.style import save_drawing

MODULES = dict.fromkeys(("positions", "schedule", "timing"), "formulas")
MODULES |= dict.fromkeys(("figure1", "figure2"), "architecture")
MODULES |= dict.fromkeys(("figure3", "figure4", "figure5"), "attention")
MODULES |= dict.fromkeys(("bleu_parameters", "bleu_flops"), "cost")
MODULES |= {"curves": "curves", "head_importance": "heads", "bleu_length": "lengths"}


def main(argv: list[str] | None = None) -> None:
    """Draw and write all files."""
    parser = stage_parser("figure", __doc__)
    parser.add_argument("name", choices=FIGURES)
    for option in ("weights", "attention", "measured", "paper", "heads", "task", "label"):
        parser.add_argument(f"--{option}")
    for option in ("experiment", "score", "dev", "metrics", "lengths", "expected"):
        parser.add_argument(f"--{option}", nargs="*", default=[])
    parser.add_argument("--output", required=True, metavar="PATH", help="the files to write, without their endings")
    args = parser.parse_args(argv)
    drawing = getattr(import_module(f"transformer.report.figures.{MODULES[args.name]}"), args.name)(args, args)
    save_drawing(drawing, FIGURES[args.name], args.output)
    print(f"{args.output}.pdf, .svg, .png: {drawing.caption}")
