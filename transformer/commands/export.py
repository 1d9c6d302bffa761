"""Export a trained run as a folder that translates anywhere.

    python -m transformer export --run results/demo/runs/en-de/base/1 --to exported
    python -m transformer export --run RUN --to exported --format ctranslate2
    python -m transformer export --run RUN --to exported --format marian

`translate --run exported` needs nothing else. With --format ctranslate2 the folder also holds CTranslate2's model, for
`translate --run exported --engine ctranslate2` and for programs that use that library alone. With --format marian it
also holds what the library transformers loads as MarianMTModel and MarianTokenizer, and README.md, a model card with
the scores in RUN/test.json, if they are there. export.json lists what was exported, with the SHA-256 of each file;
run.json describes the training.
"""

from pathlib import Path

from transformer.commandline import stage_parser
from transformer.translation.export import FORMATS, WEIGHTS, export


def main(argv: list[str] | None = None) -> None:
    """Write the folder whole or not at all."""
    parser = stage_parser("export", __doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder of a trained run")
    parser.add_argument("--to", type=Path, required=True, metavar="DIR", help="new folder, or an older export")
    parser.add_argument("--format", choices=FORMATS, default=FORMATS[0], help=f"{FORMATS[0]} if not given")
    parser.add_argument(
        "--weights", type=Path, metavar="FILE", help="what to export; RUN/average.safetensors if not given"
    )
    args = parser.parse_args(argv)
    export(args.run, args.weights or args.run / WEIGHTS, args.to, args.format)
    print(f"{args.to}: {args.format}, {sum(file.stat().st_size for file in args.to.iterdir()) / 1e6:.1f} MB")
