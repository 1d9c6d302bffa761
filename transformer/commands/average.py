"""Average the last checkpoints of a run (§6.1).

    python -m transformer average --run results/demo/runs/en-de/base/1

Writes RUN/average.safetensors, the mean of the checkpoints in RUN/checkpoints.
"""

from pathlib import Path

from transformer.commandline import stage_parser
from transformer.config.experiment import load
from transformer.files import InputError
from transformer.model import weights as checkpoints


def main(argv: list[str] | None = None) -> None:
    """Average exactly as many checkpoints as the experiment says."""
    parser = stage_parser("average", __doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder of the run")
    args = parser.parse_args(argv)
    expected = load(args.run / "experiment.yaml").training.averaged_checkpoints
    paths = sorted((args.run / "checkpoints").glob("*.safetensors"))
    if len(paths) != expected:
        raise InputError(f"{args.run / 'checkpoints'}: expected {expected} checkpoints, found {len(paths)}")
    tensors, header = checkpoints.average(paths)
    checkpoints.save(args.run / "average.safetensors", tensors, header)
    print(f"{args.run}: averaged steps {', '.join(map(str, header['steps']))}")
