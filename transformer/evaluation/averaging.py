"""Measure what averaging checkpoints brings (§6.1): the last one alone, and averages of the last few.

Payload: "averages", a list with "checkpoints" (how many are averaged), their "steps", the "perplexity" of the dev
sentences, and their BLEU with its interval ("bleu", "low", "high", "draws", "length_ratio").
"""

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from transformer.commandline import positive
from transformer.evaluation.origin import averaged_steps
from transformer.evaluation.records import Trained
from transformer.files import InputError
from transformer.records import read_json

if TYPE_CHECKING:
    from transformer.evaluation.measures import Subject


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this probe."""
    parser.add_argument(
        "--checkpoints",
        required=True,
        nargs="+",
        type=positive,
        metavar="K",
        help="how many of the last ones to average; what is more than RUN/checkpoints holds is left out",
    )


def make(subject: "Subject", args: argparse.Namespace) -> dict:
    """Return perplexity and BLEU of each average.

    Raises InputError where the run has not kept enough checkpoints, or holds those of another training.
    """
    from transformer.evaluation.measures import predict
    from transformer.model.transformer import Transformer
    from transformer.model.weights import average, require

    folder = subject.run / "checkpoints"
    paths = sorted(folder.glob("*.safetensors"))
    counts = [count for count in args.checkpoints if count <= len(paths)]
    if not counts:
        raise InputError(f"{folder}: expected {min(args.checkpoints)} checkpoints at least, found {len(paths)}")
    digest = read_json(subject.run / "run.json", Trained)["digest"]
    steps = [step for path in paths for step in averaged_steps(path, digest)]
    model = Transformer(subject.experiment.model).to(subject.translator.model.embedding.weight.device).eval()
    averages = []
    for count in counts:
        tensors, _ = average(paths[-count:])
        require(folder, model.state_dict(), tensors)
        model.load_state_dict(tensors)
        averages.append(
            {
                "checkpoints": count,
                "steps": steps[-count:],
                "perplexity": predict(model, subject.text).perplexity,
                **subject.score(replace(subject.translator, model=model)),  # a new one: it lays out the new weights
            }
        )
    return {"averages": averages}
