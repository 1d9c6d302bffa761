r"""Write the page of a scale: tables, figures, samples, an attention viewer, and the runs behind every number.

    python -m transformer report --scale demo --title "Attention Is All You Need" --label "sentences of a grammar" \
        --table results/demo/tables/table?.json --figure results/demo/figures/*.svg \
        --run results/demo/runs/*/*/*/run.json --score results/demo/runs/*/*/*/{test,dev.last}.json \
        --translations results/demo/runs/en-de/base/1/test.hyp SOURCE REFERENCE \
        --parses results/demo/runs/supervised/parser/1/test.trees GOLD --samples 3 \
        --attention results/demo/attention.json --output results/demo/report.html

One HTML file that needs no network and no other file. Name all that should be there: the page lists what is not.
What is named by --missing is not shown, whatever file there is. Beside each table's .json lies its .csv, beside their
folder lies runs/, and beside each figure's .svg its .json with caption and alternative text.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

from transformer.commandline import stage_parser
from transformer.evaluation.records import Run, run_name
from transformer.files import replacing
from transformer.records import read_json
from transformer.report.figures.attention import read_attention, whole
from transformer.report.page.page import (
    Gap,
    cards,
    close,
    figure_part,
    files,
    render,
    split,
    table_part,
    title,
)
from transformer.report.page.samples import Samples, parses, translations
from transformer.report.page.summary import moved, usage


def main(argv: list[str] | None = None) -> None:
    args = parse(argv)
    parts, gaps = content(args)
    page = render(**parts, gaps=gaps)
    with replacing(args.output) as file:
        file.write(page)
    print(f"{args.output}: {len(page.encode()) / 1e6:.1f} MB, {len(gaps)} gaps")


def content(args: argparse.Namespace) -> tuple[dict, list[Gap]]:
    """Return what the template shows, by name, and what is not there."""
    missing = dict(args.missing)
    tables, no_tables = split(args.table, missing)
    figures, no_figures = split(args.figure, missing)
    attention, no_attention = split([args.attention] if args.attention else [], missing)
    finished, no_runs = files("Runs", args.run)
    runs = {run_name(run): run for run in (read_json(path, Run) for path in finished)}
    scores, no_scores = files("Scores", args.score)
    run_cards = cards(runs, scores)
    shown = [table_part(path, run_cards) for path in tables]
    translated, no_translations = samples("Sample translations", args.translations, args.samples, translations)
    parsed, no_parses = samples("Sample parses", args.parses, args.samples, parses)
    parts = {
        "title": args.title,
        "label": args.label,
        "scale": args.scale,
        "data_of_paper": args.data_of_paper,
        "languages": {name: (run["source"], run["target"]) for name, run in runs.items()},
        "usage": usage(runs),
        "moved": moved(runs),
        "prices": {"core": args.core_hour, "GPU": args.gpu_hour},
        "currency": args.currency,
        "closeness": close(tables, shown),
        "tables": shown,
        "figures": [figure_part(path) for path in figures],
        "translations": translated,
        "parses": parsed,
        "attention": whole(read_attention(args.attention)) if attention else None,
        "cards": run_cards,
    }
    gaps = [Gap(title(name), why) for name, why in missing.items()]
    return parts, gaps + no_tables + no_figures + no_attention + no_runs + no_scores + no_translations + no_parses


def samples(
    what: str, sets: list[list[str]], most: int, read: Callable[..., Samples]
) -> tuple[list[Samples], list[Gap]]:
    """Return sentences of every run whose files are all there, and the gaps; the first file's folders name the run."""
    chosen, gaps = [], []
    for paths in sets:
        run = "/".join(Path(paths[0]).parts[-4:-1])
        _, missing = files(f"{what} of {run}", paths)
        gaps += missing
        if not missing:
            chosen.append(read(run, *paths, most))
    return chosen, gaps


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = stage_parser("report", __doc__)
    add = parser.add_argument
    add("--scale", required=True, help="its name in config.yaml")
    add("--data-of-paper", action="store_true", help="ours are of the paper's data")
    add("--title", required=True, metavar="TEXT", help="the page's heading")
    add("--label", required=True, metavar="TEXT", help="the data behind our numbers")
    add("--table", default=[], metavar="JSON", nargs="*", help="the tables, in their order on the page")
    add("--figure", default=[], metavar="SVG", nargs="*", help="the figures")
    add("--run", default=[], metavar="JSON", nargs="*", help="the trainings, each by its run.json")
    add("--score", default=[], metavar="JSON", nargs="*", help="their score files")
    add("--attention", metavar="JSON", nargs="?", help="what the attend stage wrote")
    triple = ("HYP", "SOURCE", "REFERENCE")
    add("--translations", default=[], metavar=triple, nargs=3, action="append", help="a run's and their test set")
    add("--parses", default=[], metavar=("TREES", "GOLD"), nargs=2, action="append", help="a parser's and the treebank")
    add("--samples", required=True, type=int, metavar="N", help="sentences shown of each kind")
    add("--missing", default=[], metavar=("NAME", "WHY"), nargs=2, action="append", help="a part that is not there")
    add("--core-hour", type=float, metavar="PRICE", help="what an hour of one processor core costs, if it has a price")
    add("--gpu-hour", type=float, metavar="PRICE", help="what an hour of one GPU costs, if it has a price")
    add("--currency", default="", metavar="CODE", help="the prices'")
    add("--output", required=True, metavar="HTML", help="the page")
    return parser.parse_args(argv)
