"""The names of all files under results/ and resources/. No other module contains such a name.

    results/{scale}/data/{task}/                      Data: tokenised text, vocabulary, token arrays
    results/{scale}/runs/{task}/{experiment}/{seed}/  Run: one training, its weights, translations and scores
    results/{scale}/                                  Results: tables, figures, the page
    resources/downloads, resources/corpora            Resources: downloads, and the corpora extracted from them

A folder's path may contain Snakemake's wildcards, so rules use the same attributes for their files.
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
    """Return a folder's attribute for the file with this name. If the name has fields, it is a method with arguments.

    The argument `suffix` names other weights or search settings, such as `.last` in dev.last.hyp. It is optional.
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
    vocabulary = named("vocabulary.model")  # the subword vocabulary, copied from the data's folder
    record = named("run.json")  # the code, hardware and time of a finished training
    metrics = named("metrics.jsonl")  # loss, learning rate, perplexity and speed over the steps
    average = named("average.safetensors")  # the averaged weights (§6.1)
    last = named("last.safetensors")  # the weights of the last checkpoint
    checkpoints = named("checkpoints")  # the folder of the checkpoints to be averaged
    tensorboard = named("tensorboard")  # the learning curves for TensorBoard
    compiled = named("state/compiled")  # the cache of the compiler on a GPU
    exported = named("export.json")  # the checksums of an export's files
    state = named("state")  # the resume states of a training; no rule declares this folder, so Snakemake keeps it
    checkpoint = named("checkpoints/{step:08}.safetensors")
    resume_state = named("state/{step:08}.safetensors")
    translation = named("{split}{suffix}.hyp")
    trees = named("{split}{suffix}.trees")  # a parser's output
    parses = named("{split}{suffix}.parses.json")  # the repairs of these trees
    scores = named("{split}{suffix}.json")  # scores of translations or trees
    analysis = named("{analysis}.json")  # an analysis of the trained model (Table 5)

    @property
    def name(self) -> str:
        """Return task/experiment/seed."""
        return "/".join(self.folder.parts[-3:])

    def work(self, digest: str) -> Path:
        """Return the working folder of the training with this digest."""
        return self.state / digest[:16]

    def interrupted(self, job: str | None) -> Path:
        """Return the file with the name of the signal that ended a training. job: the batch system's job, if any."""
        return self.state / ".".join(filter(None, ("interrupted", job)))


class Data(Folder):
    """The folder of a task's data."""

    manifest = named("data.json")  # the checksum of all training data; written last
    vocabulary = named("vocabulary.model")  # shared by source and target
    parsed = named("parsed.trees")  # a parser's trees of unlabelled text (§6.3, semi-supervised)
    parsed_scores = named("parsed.json")  # the parser's score of each tree
    silver = named("silver.trees")  # the trees selected as training data
    counts = named("{split}.json")  # the numbers of kept and dropped sentences
    tokens = named("{split}.{side}.tok")  # tokenised text
    ids = named("{split}.{side}.ids")  # all sentences in one array
    offsets = named("{split}.{side}.offsets")  # the positions of the sentences' beginnings in `ids`

    def texts(self, split: str) -> list[Path]:
        """Return the tokenised sides of a split, and the file with the numbers of sentences."""
        return [*(self.tokens(split, side) for side in SIDES), self.counts(split)]

    def arrays(self, split: str) -> list[Path]:
        """Return ids and offsets of both sides of a split."""
        return [path for side in SIDES for path in (self.ids(split, side), self.offsets(split, side))]


class Results(Folder):
    """The results of one scale."""

    attention = named("attention.json")  # the attention weights of Figures 3 to 5 and of the page
    layers = named("layers.json")  # the measurements for Table 1
    recall = named("recall.json")  # accuracy of recall by distance
    report = named("report.html")  # the page: everything in one file
    table = named("tables/{table}.{ending}")  # csv has all digits; md, tex and html are for readers, json for the page
    figure = named("figures/{figure}.{ending}")  # pdf, svg or png; json contains the caption

    def run(self, task: str, experiment: str, seed: int | str) -> Run:
        return Run(self.folder / f"runs/{task}/{experiment}/{seed}")

    def data(self, task: str) -> Data:
        return Data(self.folder / f"data/{task}")


class Resources(Folder):
    """Downloads, and the corpora extracted from them."""

    download = named("downloads/{download}")
    corpus = named("corpora/{corpus}.{language}")  # one language of a corpus as plain text; `trees` is a treebank


RESOURCES = Resources("resources")
