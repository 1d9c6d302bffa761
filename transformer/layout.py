"""The names of all files under results/ and resources/. No other module spells one.

    results/{scale}/data/{task}/                      Data: tokenised text, vocabulary, token arrays
    results/{scale}/runs/{task}/{experiment}/{seed}/  Run: one training, its weights, translations and scores
    results/{scale}/                                  Results: tables, figures, the page
    resources/downloads, resources/corpora            Resources: what came from elsewhere

A folder may hold Snakemake's wildcards, so that rules name their files by the same attributes.
"""

from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

SIDES = ("source", "target")


@dataclass(frozen=True)
class Folder:
    """A folder, whose files are attributes."""

    folder: Path

    def __init__(self, folder: str | Path):
        object.__setattr__(self, "folder", Path(folder))


def named(form: str) -> Any:
    """Return the attribute of a folder for its file with this name; a name with places is a method that takes them.

    `suffix` names other weights or another search, as in dev.last.hyp, and may be left out.
    """
    places = [place for _, place, _, _ in Formatter().parse(form) if place]

    def path(self: Folder, *parts: Any) -> Path:
        parts += ("",) * (places[len(parts) :] == ["suffix"])
        return self.folder / form.format(**dict(zip(places, parts, strict=True)))

    return path if places else property(path)


class Run(Folder):
    """The folder of one training."""

    experiment = named("experiment.yaml")  # all settings that the training depends on
    decoding = named("decoding.yaml")  # the settings of beam search
    vocabulary = named("vocabulary.model")  # the subword vocabulary, a copy of the data's
    record = named("run.json")  # what was trained, by which code, where and how long; a finished run has it
    metrics = named("metrics.jsonl")  # loss, rate, perplexity and speed over the steps
    average = named("average.safetensors")  # the averaged weights (§6.1)
    last = named("last.safetensors")  # the weights of the last checkpoint
    checkpoints = named("checkpoints")  # the folder of those that are averaged
    tensorboard = named("tensorboard")  # the curves that TensorBoard shows
    compiled = named("state/compiled")  # the cache of the compiler of a GPU's step
    exported = named("export.json")  # the checksums of the files of an export
    state = named("state")  # what an interrupted training goes on from; no rule declares it, so Snakemake keeps it
    checkpoint = named("checkpoints/{step:08}.safetensors")
    resume_state = named("state/{step:08}.safetensors")
    translation = named("{split}{suffix}.hyp")
    trees = named("{split}{suffix}.trees")  # by a parser
    parses = named("{split}{suffix}.parses.json")  # which of these trees were repaired
    scores = named("{split}{suffix}.json")  # of translations or trees
    analysis = named("{analysis}.json")  # of the trained model (Table 5)

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
        """Return the folder in which the training with this digest works."""
        return self.state / digest[:16]

    def interrupted(self, job: str | None) -> Path:
        """Return the file that names the signal that ended a training, of a batch system's job if there is one."""
        return self.state / ".".join(filter(None, ("interrupted", job)))


class Data(Folder):
    """The folder of a task's data."""

    manifest = named("data.json")  # the checksum of all that is learned from; written last
    vocabulary = named("vocabulary.model")  # shared by source and target
    parsed = named("parsed.trees")  # by a parser, of unlabelled text (§6.3, semi-supervised)
    parsed_scores = named("parsed.json")  # the parser's certainty of each
    silver = named("silver.trees")  # those that are learned from
    counts = named("{split}.json")  # the sentences that were kept and left out
    tokens = named("{split}.{side}.tok")  # tokenised text
    ids = named("{split}.{side}.ids")  # one sentence after another
    offsets = named("{split}.{side}.offsets")  # the places in `ids` at which sentences begin

    def texts(self, split: str) -> list[Path]:
        """Return the tokenised sides of a split, and their counts."""
        return [*(self.tokens(split, side) for side in SIDES), self.counts(split)]

    def arrays(self, split: str) -> list[Path]:
        """Return ids and offsets of both sides of a split."""
        return [path for side in SIDES for path in (self.ids(split, side), self.offsets(split, side))]


class Results(Folder):
    """The results of one scale."""

    attention = named("attention.json")  # what Figures 3 to 5 and the page show
    layers = named("layers.json")  # the measurements behind Table 1
    recall = named("recall.json")  # accuracy of recall by distance
    report = named("report.html")  # the page: everything in one file
    table = named("tables/{table}.{ending}")  # csv has all digits; md, tex and html are for readers, json for the page
    figure = named("figures/{figure}.{ending}")  # pdf, svg or png; json has its caption

    def run(self, task: str, experiment: str, seed: int | str) -> Run:
        return Run(self.folder / f"runs/{task}/{experiment}/{seed}")

    def data(self, task: str) -> Data:
        return Data(self.folder / f"data/{task}")


class Resources(Folder):
    """The files from elsewhere."""

    download = named("downloads/{download}")
    corpus = named("corpora/{corpus}.{language}")  # one language of a corpus as plain text, or with `trees` a treebank


RESOURCES = Resources("resources")
