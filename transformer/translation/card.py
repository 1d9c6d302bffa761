"""A model card: the README.md of an exported folder, whose first lines are data for the Hugging Face Hub."""

from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import asdict

from transformer.config.experiment import Decoding, Experiment
from transformer.evaluation.origin import averaged_steps
from transformer.evaluation.records import Trained, Translated, read_translated, variants
from transformer.templates import text_environment

TEMPLATES = Path(__file__).parent / "templates"
METRICS = {"chrf2": "chrf", "ter": "ter"}  # the Hub's names of measures that are not BLEU


def card(
    experiment: Experiment, decoding: Decoding, record: Trained, score: Translated | None, own_tables: bool
) -> str:
    """Return the model card of a run. score: of its test set, if there is one.

    own_tables: whether the weights hold position tables, which the library does not save again by itself.
    """
    return (
        text_environment(TEMPLATES)
        .get_template("card.md")
        .render(
            front=yaml.safe_dump(front_matter(experiment, score), sort_keys=False, allow_unicode=True),
            run=asdict(experiment) | record,
            normalize=experiment.preparation.normalize_punctuation,
            escape=experiment.preparation.escape,
            decapitalize=experiment.preparation.decapitalize,
            extra_length=decoding.extra_length,
            own_tables=own_tables,
            scores=variants(score["scores"]) if score else {},
            paper=score["scores"]["paper"] if score else None,
        )
    )


def front_matter(experiment: Experiment, score: Translated | None) -> dict[str, Any]:
    """Return the data that the Hub reads."""
    front: dict[str, Any] = {
        "language": [experiment.source, experiment.target],
        "library_name": "transformers",
        "pipeline_tag": "translation",
        "tags": ["marian", "attention-is-all-you-need"],
    }
    if score:
        metrics = [
            {"type": METRICS.get(name, "bleu"), "name": f"{name} ({variant['signature']})", "value": variant["score"]}
            for name, variant in variants(score["scores"]).items()
        ]
        dataset = {"type": experiment.scale, "name": experiment.label}
        results = [{"task": {"type": "translation"}, "dataset": dataset, "metrics": metrics}]
        front["model-index"] = [{"name": f"{experiment.task}-{experiment.experiment}", "results": results}]
    return front


def score_of(run: Path, weights: Path, digest: str) -> Translated | None:
    """Return the score of the run's test set, if it has one and that is of these weights."""
    path = run / "test.json"
    if not path.exists():
        return None
    score = read_translated(path)
    own = (score["run"]["digest"], score["run"]["averaged_steps"])
    return score if own == (digest, averaged_steps(weights, digest)) else None
