"""Measure whether the heads are needed, and whether they look at different things (§3.2.2, §4).

Payload: "layers", N; "heads", h; "loss", with all heads; "kinds", for the attention of the "encoder", of the "decoder",
and "cross", the decoder's over the memory, an object with

    "increase"  [N][h], by how much the loss rises where that head alone is masked (probes/masking.py)
    "distance"  [N][h], how many tokens away it looks, on average (probes/distances.py)
    "equal"     how far a head would look that gave all tokens that it may see the same weight
    "curve"     a list with "masked" = 1, 2, ..., the "layer" and the "head", from 1, that were masked in this step, and
                the "loss": in each step the head whose masking raises the loss of --choose sentences least

and "bleu", a list with the "kind" of heads that are masked and how many are "masked", in the order of the curve, of the
whole model (null and 0) and of about a quarter, a half and three quarters of each kind; BLEU and its interval ("bleu",
"low", "high", "draws") and "length_ratio". A loss is the mean of the unsmoothed cross-entropy over target tokens, in
nats, where the decoder reads the reference.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from transformer.commandline import positive
from transformer.text import draw

if TYPE_CHECKING:
    from transformer.evaluation.masking import TeacherForced
    from transformer.evaluation.measures import Subject

SHARES = 1 / 4, 1 / 2, 3 / 4  # of a kind's heads that are masked when the model translates
DIGITS = 6  # of a loss or a distance


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this probe."""
    parser.add_argument(
        "--choose",
        required=True,
        type=positive,
        metavar="COUNT",
        help="sentences, at most, on which the next head to be masked is chosen; losses are those of all sentences",
    )


def make(subject: "Subject", args: argparse.Namespace) -> dict:
    """Return the importance and the reach of all heads, and losses and BLEU where ever more of them are masked."""
    from transformer.evaluation.distances import distances
    from transformer.evaluation.masking import TeacherForced

    model, count = subject.translator.model, len(subject.sources)
    everything = TeacherForced(model, subject.text, range(count))
    chosen = TeacherForced(model, subject.text, draw(range(count), count, args.choose))
    kinds = {}
    for kind, far in distances(model, everything.batches, everything.lengths).items():
        kinds[kind] = importance(kind, chosen, everything)
        kinds[kind]["distance"] = [[round(distance, DIGITS) for distance in layer] for layer in far[:-1].tolist()]
        kinds[kind]["equal"] = round(far[-1, 0].item(), DIGITS)
    return {
        "layers": model.config.N,
        "heads": model.config.h,
        "loss": round(everything.loss(), DIGITS),
        "kinds": kinds,
        "bleu": list(scores(subject, kinds)),
    }


def importance(kind: str, chosen: "TeacherForced", everything: "TeacherForced") -> dict:
    """Return "increase" and "curve" of the heads of one kind."""
    from transformer.evaluation.masking import Head, curve

    config, loss = everything.model.config, everything.loss()
    layers = [[Head(kind, layer, head) for head in range(config.h)] for layer in range(config.N)]
    steps = [
        {"masked": masked, "layer": head.layer + 1, "head": head.head + 1, "loss": round(loss, DIGITS)}
        for masked, (head, loss) in enumerate(curve(chain.from_iterable(layers), chosen, everything), start=1)
    ]
    return {
        "increase": [[round(everything.loss([head]) - loss, DIGITS) for head in layer] for layer in layers],
        "curve": steps,
    }


def scores(subject: "Subject", kinds: dict[str, dict]) -> Iterator[dict]:
    """Yield the entries of "bleu"."""
    from transformer.evaluation.masking import Head, masked

    model = subject.translator.model
    yield {"kind": None, "masked": 0} | subject.score(subject.translator)
    for kind, measures in kinds.items():
        steps = measures["curve"]
        for count in sorted({round(share * len(steps)) for share in SHARES} - {0}):
            with masked(model, [Head(kind, step["layer"] - 1, step["head"] - 1) for step in steps[:count]]):
                # A new translator, which lays out the weights as they are now.
                yield {"kind": kind, "masked": count} | subject.score(replace(subject.translator))
