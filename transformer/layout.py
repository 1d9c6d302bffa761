"""The names of all files in results/ and resources/. No other module contains such a name.

    results/{scale}/data/{task}/                      Data: tokenised text, vocabulary, token arrays
    results/{scale}/runs/{task}/{experiment}/{seed}/  Run: one training, its weights, translations and scores
    results/{scale}/                                  Results: tables, figures, the page
    resources/downloads, resources/corpora            Resources: downloads and plain corpora

A folder's path may contain Snakemake's wildcards, so that rules name their files by these attributes, too.
"""

from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

SIDES = ("source", "target")


@dataclass(frozen=True)
class Folder:
    """A folder with its files as attributes."""

    folder: Path

    def __init__(self, folder: str | Path):
        object.__setattr__(self, "folder", Path(folder))


def named(form: str) -> Any:
    """Return a folder's attribute for the file with this name. A name with {fields} becomes a method with arguments.

    The optional `suffix` marks results with other weights or search settings, such as dev.last.hyp.
    """
    places = [place for _, place, _, _ in Formatter().parse(form) if place]

    def path(self: Folder, *parts: Any) -> Path:
        parts += ("",) * (places[len(parts) :] == ["suffix"])
        return self.folder / form.format(**dict(zip(places, parts, strict=True)))

    return path if places else property(path)


class Run(Folder):
    """The folder of one training."""

    experiment = named("experiment.yaml")  # all settings of the training
    decoding = named("decoding.yaml")  # the settings of beam search
    vocabulary = named("vocabulary.model")  # a copy of the data's subword vocabulary
    record = named("run.json")  # settings, code, machine and time of the training; only finished runs have this file
    metrics = named("metrics.jsonl")  # loss, learning rate, perplexity and speed by step
    average = named("average.safetensors")  # the averaged weights (§6.1)
    last = named("last.safetensors")  # the weights of the last checkpoint
    checkpoints = named("checkpoints")  # the folder of the checkpoints to average
    tensorboard = named("tensorboard")  # the curves for TensorBoard
    compiled = named("state/compiled")  # the compiler's cache for the step on a GPU
    exported = named("export.json")  # the checksums of an export's files
    state = named("state")  # resume states; not declared by any rule, so that Snakemake keeps them
    checkpoint = named("checkpoints/{step:08}.safetensors")
    resume_state = named("state/{step:08}.safetensors")
    translation = named("{split}{suffix}.hyp")
    trees = named("{split}{suffix}.trees")  # a parser's trees
    parses = named("{split}{suffix}.parses.json")  # the repairs of these trees
    scores = named("{split}{suffix}.json")  # the scores of translations or trees
    analysis = named("{analysis}.json")  # a measurement on the trained model (Table 5)

    @property
    def name(self) -> str:
        """Return task/experiment/seed."""
        return "/".join(self.folder.parts[-3:])

    @property
    def inputs(self) -> list[Path]:
        """Return the files of a finished training, from which commands read."""
        own = self.experiment, self.decoding, self.vocabulary, self.record, self.metrics
        return [*own, self.average, self.last, self.exported]

    def work(self, digest: str) -> Path:
        """Return the working folder of the training with this digest."""
        return self.state / digest[:16]

    def interrupted(self, job: str | None) -> Path:
        """Return the file with the signal that ended a training. `job` is the number of a batch system's job."""
        return self.state / ".".join(filter(None, ("interrupted", job)))


class Data(Folder):
    """The folder of a task's data."""

    manifest = named("data.json")  # the checksum of the training data; written last
    vocabulary = named("vocabulary.model")  # shared by source and target
    parsed = named("parsed.trees")  # a parser's trees of unlabelled text (§6.3, semi-supervised)
    parsed_scores = named("parsed.json")  # the parser's score of each tree
    silver = named("silver.trees")  # the selected trees for training
    counts = named("{split}.json")  # the numbers of kept and dropped sentences
    tokens = named("{split}.{side}.tok")  # tokenised text
    ids = named("{split}.{side}.ids")  # the subword ids of all sentences in order
    offsets = named("{split}.{side}.offsets")  # the positions in `ids` where sentences begin
    unseen = named("test.unseen")  # the references of the test pairs that are not training pairs

    def texts(self, split: str) -> list[Path]:
        """Return the tokenised files of both sides of a split, and the file of its counts."""
        return [*(self.tokens(split, side) for side in SIDES), self.counts(split)]

    def arrays(self, split: str) -> list[Path]:
        """Return ids and offsets of both sides of a split."""
        return [path for side in SIDES for path in (self.ids(split, side), self.offsets(split, side))]


class Results(Folder):
    """The results of one scale."""

    attention = named("attention.json")  # the attention weights for Figures 3 to 5 and the page
    layers = named("layers.json")  # the measurements behind Table 1
    recall = named("recall.json")  # accuracy of recall by distance
    report = named("report.html")  # the page with all results
    table = named("tables/{table}.{ending}")  # csv with all digits; md, tex, html for readers; json for the page
    figure = named("figures/{figure}.{ending}")  # pdf, svg or png; json with the caption

    def run(self, task: str, experiment: str, seed: int | str) -> Run:
        return Run(self.folder / f"runs/{task}/{experiment}/{seed}")

    def data(self, task: str) -> Data:
        return Data(self.folder / f"data/{task}")


class Resources(Folder):
    """The downloads and the plain corpora."""

    download = named("downloads/{download}")
    corpus = named("corpora/{corpus}.{language}")  # one language as plain text; language `trees`: a treebank


RESOURCES = Resources("resources")
