"""The names of all files under results/ and resources/. No other module spells one.

    results/{scale}/data/{task}/                      Data: tokenised text, vocabulary, token arrays
    results/{scale}/runs/{task}/{experiment}/{seed}/  Run: one training, its weights, translations and scores
    results/{scale}/                                  Scale: tables, figures, the page
    resources/downloads, resources/corpora            Resources: what came from elsewhere

A folder may hold Snakemake's wildcards, so that rules name their files by the same properties.
"""

from dataclasses import dataclass
from pathlib import Path

SIDES = ("source", "target")


@dataclass(frozen=True)
class Folder:
    """A folder whose files are properties."""

    folder: Path

    def __init__(self, folder: str | Path):
        """Take the folder as text or as a path."""
        object.__setattr__(self, "folder", Path(folder))


class Run(Folder):
    """The folder of one training."""

    @property
    def name(self) -> str:
        """Return task/experiment/seed."""
        return "/".join(self.folder.parts[-3:])

    @property
    def experiment(self) -> Path:
        """Return the file of all settings that the training depends on."""
        return self.folder / "experiment.yaml"

    @property
    def decoding(self) -> Path:
        """Return the file of the settings of beam search."""
        return self.folder / "decoding.yaml"

    @property
    def vocabulary(self) -> Path:
        """Return the subword vocabulary, a copy of the data's."""
        return self.folder / "vocabulary.model"

    @property
    def record(self) -> Path:
        """Return the file that says what was trained, by which code, where and how long; a finished run has it."""
        return self.folder / "run.json"

    @property
    def metrics(self) -> Path:
        """Return the log: loss, rate, perplexity and speed over the steps."""
        return self.folder / "metrics.jsonl"

    @property
    def average(self) -> Path:
        """Return the averaged weights (§6.1)."""
        return self.folder / "average.safetensors"

    @property
    def last(self) -> Path:
        """Return the weights of the last checkpoint."""
        return self.folder / "last.safetensors"

    @property
    def checkpoints(self) -> Path:
        """Return the folder of the checkpoints that are averaged."""
        return self.folder / "checkpoints"

    @property
    def state(self) -> Path:
        """Return the folder that an interrupted training goes on from. No rule declares it, so Snakemake keeps it."""
        return self.folder / "state"

    def work(self, digest: str) -> Path:
        """Return the folder in which the training with this digest works."""
        return self.state / digest[:16]

    def checkpoint(self, step: int) -> Path:
        """Return the weights after a step."""
        return self.checkpoints / f"{step:08}.safetensors"

    def resume_state(self, step: int) -> Path:
        """Return the state after a step."""
        return self.state / f"{step:08}.safetensors"

    @property
    def tensorboard(self) -> Path:
        """Return the folder of the curves that TensorBoard shows."""
        return self.folder / "tensorboard"

    @property
    def compiled(self) -> Path:
        """Return the cache of the compiler of a GPU's step."""
        return self.state / "compiled"

    def interrupted(self, job: str | None) -> Path:
        """Return the file that names the signal that ended a training, of a batch system's job if there is one."""
        return self.state / ".".join(filter(None, ("interrupted", job)))

    def weights(self, suffix: str) -> Path:
        """Return the weights behind outputs with this suffix: "" for the average, ".last" for the last checkpoint."""
        return {"": self.average, ".last": self.last}[suffix]

    def translation(self, split: str, suffix: str = "") -> Path:
        """Return the translations of a split, such as test.hyp or dev.last.hyp."""
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
        """Return what an analysis of the trained model found (Table 5)."""
        return self.folder / f"{name}.json"


class Data(Folder):
    """The folder of a task's data."""

    @property
    def manifest(self) -> Path:
        """Return the file with the checksum of all that is learned from; it is written last."""
        return self.folder / "data.json"

    @property
    def vocabulary(self) -> Path:
        """Return the shared subword vocabulary."""
        return self.folder / "vocabulary.model"

    def tokens(self, split: str, side: str) -> Path:
        """Return the tokenised text of one side of a split."""
        return self.folder / f"{split}.{side}.tok"

    def counts(self, split: str) -> Path:
        """Return the counts of the sentences that were kept and left out."""
        return self.folder / f"{split}.json"

    @property
    def subsets(self) -> Path:
        """Return the scores of the references on the subsets of the test set, which show that they are subsets."""
        return self.folder / "test.subsets.json"

    def ids(self, split: str, side: str) -> Path:
        """Return the token ids of one side of a split, one after another."""
        return self.folder / f"{split}.{side}.ids"

    def offsets(self, split: str, side: str) -> Path:
        """Return where each sentence begins in `ids`."""
        return self.folder / f"{split}.{side}.offsets"

    def arrays(self, split: str) -> list[Path]:
        """Return ids and offsets of both sides of a split."""
        return [path for side in SIDES for path in (self.ids(split, side), self.offsets(split, side))]

    @property
    def parsed(self) -> Path:
        """Return the trees that a parser gave to unlabelled text (§6.3, semi-supervised)."""
        return self.folder / "parsed.trees"

    @property
    def parsed_scores(self) -> Path:
        """Return the scores of these trees."""
        return self.folder / "parsed.json"

    @property
    def silver(self) -> Path:
        """Return those of these trees that are learned from."""
        return self.folder / "silver.trees"


class Scale(Folder):
    """The results of one scale."""

    def run(self, task: str, experiment: str, seed: int | str) -> Run:
        """Return the folder of a training."""
        return Run(self.folder / f"runs/{task}/{experiment}/{seed}")

    def data(self, task: str) -> Data:
        """Return the folder of a task's data."""
        return Data(self.folder / f"data/{task}")

    def table(self, name: str, ending: str) -> Path:
        """Return a table: `csv` has all digits; `md`, `tex` and `html` are for readers, `json` for the page."""
        return self.folder / f"tables/{name}.{ending}"

    def figure(self, name: str, ending: str) -> Path:
        """Return a figure, `pdf`, `svg` or `png`; `json` has its caption and its numbers."""
        return self.folder / f"figures/{name}.{ending}"

    @property
    def attention(self) -> Path:
        """Return the attention that Figures 3 to 5 and the page show."""
        return self.folder / "attention.json"

    @property
    def layers(self) -> Path:
        """Return the measurements behind Table 1."""
        return self.folder / "layers.json"

    @property
    def report(self) -> Path:
        """Return the page: everything in one file."""
        return self.folder / "report.html"


class Resources(Folder):
    """The files from elsewhere."""

    def download(self, name: str) -> Path:
        """Return a download, as it came."""
        return self.folder / f"downloads/{name}"

    def corpus(self, name: str, language: str) -> Path:
        """Return one language of a corpus as plain text, or with `trees` a treebank."""
        return self.folder / f"corpora/{name}.{language}"
