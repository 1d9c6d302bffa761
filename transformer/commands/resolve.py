"""Write the experiment.yaml and the decoding.yaml of one run.

    python -m transformer resolve --experiment '{"scale": "demo", "rows": [...], ...}' --output RUN/experiment.yaml
    python -m transformer resolve --decoding '{"beam": 4, ...}' --output RUN/decoding.yaml

The JSON holds what config.yaml says of the run (transformer/config/experiment.py: `resolve`).
"""

from transformer.commandline import json_object, stage_parser
from transformer.config.experiment import Decoding, resolve, save


def main(argv: list[str] | None = None) -> None:
    """Resolve one section and save it."""
    parser = stage_parser("resolve", __doc__)
    section = parser.add_mutually_exclusive_group(required=True)
    section.add_argument("--experiment", type=json_object, help="JSON: the parts of one run")
    section.add_argument("--decoding", type=json_object, help="JSON: the decoding settings")
    parser.add_argument("--output", required=True, help="the YAML file to write")
    args = parser.parse_args(argv)
    resolved = Decoding.read(args.decoding, "decoding") if args.decoding is not None else resolve(args.experiment)
    save(resolved, args.output)
