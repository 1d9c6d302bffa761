"""The names of all files under results/ and resources/. No other module spells one.

    results/{scale}/data/{task}/                      Data: tokenised text, vocabulary, token arrays
    results/{scale}/runs/{task}/{experiment}/{seed}/  Run: one training, its weights, translations and scores
    results/{scale}/                                  Scale: tables, figures, the page
    resources/downloads, resources/corpora            Resources: what came from elsewhere

A folder may hold Snakemake's wildcards, so that rules name their files by the same attributes.
"""

from dataclasses import dataclass
from pathlib import Path

SIDES = ("source", "target")


@dataclass(frozen=True)
class Folder:
    """A folder, whose files are attributes."""

    folder: Path

    def __init__(self, folder: str | Path):
        object.__setattr__(self, "folder", Path(folder))


def named(name: str) -> property:
    """Return the attribute of a folder for its file with this name."""
    return property(lambda self: self.folder / name)


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

    @property
    def name(self) -> str:
        """Return task/experiment/seed."""
        return "/".join(self.folder.parts[-3:])

    def work(self, digest: str) -> Path:
        """Return the folder in which the training with this digest works."""
        return self.state / digest[:16]

    def checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"{step:08}.safetensors"

    def resume_state(self, step: int) -> Path:
        return self.state / f"{step:08}.safetensors"

    def interrupted(self, job: str | None) -> Path:
        """Return the file that names the signal that ended a training, of a batch system's job if there is one."""
        return self.state / ".".join(filter(None, ("interrupted", job)))

    def translation(self, split: str, suffix: str = "") -> Path:
        """Return the translations of a split, such as test.hyp; with the last checkpoint, dev.last.hyp."""
        return self.folder / f"{split}{suffix}.hyp"

    def trees(self, split: str, suffix: str = "") -> Path:
        """Return the trees that a parser gave to a split."""
        return self.folder / f"{split}{suffix}.trees"

    def parses(self, split: str, suffix: str = "") -> Path:
        """Return the file that says which of these trees were repaired."""
        return self.folder / f"{split}{suffix}.parses.json"

    def scores(self, split: str, suffix: str = "") -> Path:
        """Return the scores of translations or trees, such as test.json or dev.last.json."""
        return self.folder / f"{split}{suffix}.json"

    def analysis(self, name: str) -> Path:
        """Return the results of an analysis of the trained model (Table 5)."""
        return self.folder / f"{name}.json"


class Data(Folder):
    """The folder of a task's data."""

    manifest = named("data.json")  # the checksum of all that is learned from; written last
    vocabulary = named("vocabulary.model")  # shared by source and target
    parsed = named("parsed.trees")  # by a parser, of unlabelled text (§6.3, semi-supervised)
    parsed_scores = named("parsed.json")  # the parser's certainty of each
    silver = named("silver.trees")  # those that are learned from

    def tokens(self, split: str, side: str) -> Path:
        """Return the tokenised text of one side of a split."""
        return self.folder / f"{split}.{side}.tok"

    def counts(self, split: str) -> Path:
        """Return the counts of the sentences that were kept and left out."""
        return self.folder / f"{split}.json"

    def ids(self, split: str, side: str) -> Path:
        """Return the token ids of one side of a split, one after another."""
        return self.folder / f"{split}.{side}.ids"

    def offsets(self, split: str, side: str) -> Path:
        """Return the places in `ids` at which sentences begin."""
        return self.folder / f"{split}.{side}.offsets"

    def arrays(self, split: str) -> list[Path]:
        """Return ids and offsets of both sides of a split."""
        return [path for side in SIDES for path in (self.ids(split, side), self.offsets(split, side))]


class Scale(Folder):
    """The results of one scale."""

    attention = named("attention.json")  # what Figures 3 to 5 and the page show
    layers = named("layers.json")  # the measurements behind Table 1
    report = named("report.html")  # the page: everything in one file

    def run(self, task: str, experiment: str, seed: int | str) -> Run:
        return Run(self.folder / f"runs/{task}/{experiment}/{seed}")

    def data(self, task: str) -> Data:
        return Data(self.folder / f"data/{task}")

    def table(self, name: str, ending: str) -> Path:
        """Return a table: `csv` has all digits; `md`, `tex` and `html` are for readers, `json` for the page."""
        return self.folder / f"tables/{name}.{ending}"

    def figure(self, name: str, ending: str) -> Path:
        """Return a figure, `pdf`, `svg` or `png`; `json` has its caption."""
        return self.folder / f"figures/{name}.{ending}"


class Resources(Folder):
    """The files from elsewhere."""

    def download(self, name: str) -> Path:
        return self.folder / f"downloads/{name}"

    def corpus(self, name: str, language: str) -> Path:
        """Return one language of a corpus as plain text, or with `trees` a treebank."""
        return self.folder / f"corpora/{name}.{language}"
