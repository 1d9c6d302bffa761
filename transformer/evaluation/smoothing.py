"""Measure what label smoothing brings (§5.4): perplexity, how far the model's confidence is right, BLEU by beam.

Payload: "epsilon_ls" of the training; "perplexity" of the dev sentences, and on resampled ones, "perplexity_draws";
"beams", a list with "beam", BLEU and its
interval ("bleu", "low", "high", "draws") and "length_ratio", the words of the translations over those of the
references; and "calibration" (see the function of this name).
"""

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from transformer.commandline import positive

if TYPE_CHECKING:
    from transformer.evaluation.measures import Subject

BINS = 10  # of confidence, equally wide


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this probe."""
    parser.add_argument("--beams", required=True, nargs="+", type=positive, metavar="BEAM", help="widths of the beam")


def make(subject: "Subject", args: argparse.Namespace) -> dict:
    """Return perplexity and calibration, and BLEU with each beam; the rest of the decoding is the run's."""
    translator, predictions = subject.translator, subject.predictions
    beams = [
        {"beam": beam, **subject.score(replace(translator, decoding=structs.replace(translator.decoding, beam=beam)))}
        for beam in args.beams
    ]
    return {
        "epsilon_ls": subject.experiment.training.epsilon_ls,
        "perplexity": predictions.perplexity,
        "perplexity_draws": predictions.perplexity_draws(subject.text.target.offsets),
        "beams": beams,
        "calibration": calibration(predictions.confidence, predictions.correct),
    }


def calibration(confidence: np.ndarray, correct: np.ndarray) -> dict:
    """Return the expected calibration error of the most probable token (Guo et al. 2017, equation 3).

    confidence: [tokens] its probability. correct: [tokens] 1 where it is the true token. "error" is the mean over all
    tokens of |accuracy - confidence| of the token's bin. "bins" are of confidence in (0, 0.1], (0.1, 0.2] and so on; an
    empty one has neither confidence nor accuracy. "confidence" and "accuracy" at the top are means over all tokens.
    """
    bin_of_token = np.clip(np.ceil(confidence * BINS) - 1, 0, BINS - 1)
    bins = []
    for number in range(BINS):
        members = bin_of_token == number
        means = [float(column[members].mean()) if members.any() else None for column in (confidence, correct)]
        bins.append({"tokens": int(members.sum()), "confidence": means[0], "accuracy": means[1]})
    gaps = [bin["tokens"] * abs(bin["accuracy"] - bin["confidence"]) for bin in bins if bin["tokens"]]
    return {
        "error": sum(gaps) / len(confidence),
        "confidence": float(confidence.mean()),
        "accuracy": float(correct.mean()),
        "bins": bins,
    }
