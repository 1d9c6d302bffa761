"""Structs of config.yaml: keys, bounds and descriptions. A key without a default is needed.

manual.py generates the manual and the editors' schema from these structs.
"""

import re
from collections.abc import Collection, Iterator
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from transformer.config.experiment import (
    PARTS,
    POSITIONS,
    Architecture,
    Decoding,
    FilePath,
    Large,
    Logging,
    Many,
    Model,
    Preprocessing,
    Ratio,
    Seed,
    Small,
    Tokenizing,
    Training,
    Width,
    described,
)
from transformer.evaluation.analyses import ANALYSES
from transformer.layout import RESOURCES
from transformer.storage.reading import Section

Text = Annotated[str, Meta(min_length=1)]
_DrawnText = Annotated[str, Meta(min_length=1, max_length=400, title="text of up to 400 characters")]  # figures draw it
_Length = Annotated[int, Meta(ge=1, le=POSITIONS)]
# `\Z`, because `$` would allow a newline at the end of the text.
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*\Z"
_LETTERS = "a name of letters, digits, dots, hyphens and underscores"  # it becomes part of a path
Name = Annotated[str, Meta(pattern=f"^{NAME}", title=_LETTERS)]
ScaleName = Annotated[str, Meta(pattern=rf"^(?!record\Z){NAME}", title=f"{_LETTERS}, but not `record`")]  # in git
RowName = Annotated[str, Meta(pattern=rf"^(?!parser\Z){NAME}", title=f"{_LETTERS}, but not `parser`")]  # see `parsing`
Language = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_-]*\Z", title="a language's code")]  # after a file's dot
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z", title="64 hexadecimal digits")]
Md5 = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z", title="32 hexadecimal digits")]
Address = Annotated[str, Meta(pattern=r"^https?://[^/\s]+/\S+\Z", title="an address that begins with http")]
Names = Annotated[list[Name], Meta(min_length=1)]
Seeds = Annotated[list[Seed], Meta(min_length=1, max_length=1000)]
Sizes = Annotated[list[Annotated[int, Meta(ge=2, le=1_000_000)]], Meta(min_length=3)]
SubwordCount = Annotated[int, Meta(ge=4, le=65_535)]  # with pad, eos and unk
_Share = Annotated[float, Meta(gt=0, le=1)]
Price = Literal["unknown"] | Annotated[float, Meta(ge=0, le=10**9)]
Wsj = Annotated[int, Meta(ge=0, le=24)]
Sections = tuple[Wsj, Wsj]


class Keys(Section):
    """A section of config.yaml. No list may repeat an item. Give exactly one of the key sets in FORMS."""

    FORMS: ClassVar[tuple[str, ...]] = ()
    FORMER: ClassVar[dict[str, str]] = {}  # former key: current key. Former keys are still accepted

    def faults(self) -> Iterator[tuple[str, str]]:
        for key, value in msgspec.structs.asdict(self).items():
            for items in value.values() if isinstance(value, dict) else [value]:
                if isinstance(items, list) and len(set(map(str, items))) < len(items):
                    yield key, f"expected each item once, found {items}"
        known = dict.fromkeys(key for form in self.FORMS for key in form.split())
        found = [key for key in known if getattr(self, key) is not None]
        if self.FORMS and not any(set(found) == set(form.split()) for form in self.FORMS):
            expected = " or ".join(" and ".join(form.split()) for form in self.FORMS)
            yield "", f"expected {expected}, found {' and '.join(found) or 'none of these keys'}"


def _options(name: str, about: str, *kinds: type[Section], without: Collection[str] = (), needed: bool = False) -> type:
    """Return a section type with the keys of `kinds`. All keys are optional; if `needed`, only keys with a default."""
    fields, former = [], {}
    for field in (field for kind in kinds for field in msgspec.structs.fields(kind) if field.name not in without):
        must = needed and (field.required or (field.default is UNSET and field.name in PARTS["transformer"]))
        fields.append((field.name, field.type) if must else (field.name, field.type | UnsetType, UNSET))
        if field.encode_name != field.name:
            former[field.encode_name] = field.name
    namespace = {"__doc__": about, "FORMER": former}
    return msgspec.defstruct(name, fields, bases=(Keys,), namespace=namespace, kw_only=True)


PAPERS = "Defaults are the paper's: `norm` is `post`, `attention` is `dot`, and true-or-false keys are true."
ADAM = {"beta1", "beta2", "epsilon"}
_OF_RUN = {"embedding_rows", "output_rows"}  # they come from the task
ExperimentRow = _options(
    "Row", f"Differences from the base model, in Table 3's units. {PAPERS}", Model, Training, without=_OF_RUN
)
Base = _options("Base", f"Table 3's first row (§6.2). {PAPERS}", Model, Training, without=_OF_RUN | ADAM, needed=True)
Optimizer = _options("Optimizer", "Adam (§5.3).", Training, without={*Training.__struct_fields__} - ADAM, needed=True)
Search = _options("Decoding", "Beam search (§6.1).", Decoding, needed=True)
OwnPreprocessing = _options("ScalePreprocessing", "Values that replace those of `preprocessing`.", Preprocessing)
OwnDecoding = _options("ScaleDecoding", "Values that replace those of `decoding`.", Decoding)
OwnLogging = _options("ScaleLogging", "Values that replace those of `logging`.", Logging)
_FORMER = {"preparation": "preprocessing", "running": "logging", "probes": "analyses"}
Rowsets = dict[RowName, ExperimentRow]


class Table1(Keys):
    """Sizes for the measurement of one layer of each kind (§4)."""

    lengths: Annotated[Sizes, described("Lengths n for the timing of a layer, in ascending order.")]
    width: Annotated[Width, described("Width d of the layers at these lengths.")]
    widths: Annotated[Sizes, described("Widths d for the timing of a layer, in ascending order.")]
    length: Annotated[int, Meta(ge=1, le=1_000_000), described("Length n at these widths.")]
    paths: Annotated[Sizes, described("Lengths n for the search of the longest path, in ascending order.")]
    k: Annotated[int, Meta(ge=2, le=1000), described("Width of the convolution's kernel.")]
    r: Annotated[int, Meta(ge=2, le=1_000_000), described("Number of neighbours in restricted self-attention.")]
    seconds: Annotated[float, Meta(gt=0, le=3600), described("Processor time of each measurement.")]


class Recall(Keys):
    """Recall of a key's value over a distance (§4). Encoders of all architectures are trained only for this task."""

    distances: Annotated[
        list[Annotated[int, Meta(ge=4, le=900, multiple_of=2)]],
        Meta(min_length=1),
        described("Tokens between a key-value pair and the question, in ascending order."),
    ]
    models: Annotated[
        dict[Architecture, ExperimentRow],
        Meta(min_length=1),
        described("Sizes of the encoders, not divided by a scale. `learning_rate_scale` multiplies `learning_rate`."),
    ]
    seeds: Annotated[Seeds, described("One training per model and seed.")]
    steps: Annotated[int, Meta(ge=101, le=1_000_000), described("Steps per training.")]
    sequences: Annotated[Small, described("Sequences per step.")]
    learning_rate: Annotated[float, Meta(gt=0, le=1), described("Peak of Adam's learning rate.")]
    tested: Annotated[Large, described("Test sequences per distance.")]


OwnRecall = _options("ScaleRecall", "Values that replace those of `recall`.", Recall)
OwnTable1 = _options("ScaleTable1", "Values that replace those of `table1`.", Table1)
Analyses = _options(
    "Analyses",
    "Analyses of trained runs for Table 5. An analysis without its keys is skipped.",
    *(analysis.Settings for analysis in ANALYSES.values()),
)


class Parsing(Keys):
    """Constituency parsing (§6.3)."""

    parser: Annotated[ExperimentRow, described("Differences from the base model.")]
    decoding: Annotated[Search, described("Beam search of the parsers.")]
    silver: Annotated[Search, described("Beam search for silver trees.")]


class Viewer(Keys):
    """The page's attention viewer. It also shows the sentences of Figures 3 to 5."""

    sentences: Annotated[Small, described("Number of test sentences.")]
    longest: Annotated[_Length, described("Maximum tokens per sentence. If all have more, the shortest are shown.")]


class Report(Keys):
    """The page."""

    samples: Annotated[
        int, Meta(ge=0, le=10_000), described("Number of best, of worst and of random outputs; 0 for none.")
    ]
    core_hour: Annotated[Price, described("Price of one processor core for one hour.")]
    gpu_hour: Annotated[Price, described("Price of one GPU for one hour.")]
    currency: Annotated[Text, described("Currency of the prices.")]


class Task(Keys):
    """The common part of translation and parsing tasks. `parses` is true for parsing tasks."""

    parses: ClassVar[bool]

    def tested_on(self) -> dict[str, str]:
        """Return the task's development and test corpora by key."""
        keys = ("dev", "test", "out_of_domain")
        return {key: corpus for key in keys if (corpus := getattr(self, key, None)) is not None}

    def files(self) -> list[tuple[str, str, str]]:
        """Return key, corpus and file ending of the task's training, development and test files."""
        corpora = [*(("train", name) for name in self.train), *self.tested_on().items()]
        return [(key, name, ending) for key, name in corpora for ending in dict.fromkeys(self.file_endings)]

    def learned_from(self) -> list[str]:
        """Return the corpora of the task's training data."""
        return self.train


class TranslationTask(Task):
    """One translation direction."""

    parses: ClassVar = False

    source: Annotated[Language, described("Source language.")]
    target: Annotated[Language, described("Target language.")]
    train: Annotated[Names, described("Training corpora, in this order.")]
    dev: Annotated[Name, described("Development corpus, for Table 3 and for scores during training.")]
    test: Annotated[Name, described("Test corpus, for Table 2.")]
    vocabulary: Annotated[SubwordCount, described("Number of subwords of both languages, with pad, eos and unk.")]
    embedding_rows: Annotated[SubwordCount, described("Rows of the embedding, `vocabulary` or more.")]
    vocabulary_file: Annotated[
        FilePath | None, described("vocabulary.model of a run to reuse, such as the run of `initial_weights`.")
    ] = None
    subsets: Annotated[dict[Name, Name] | None, described("Parts of the test set with their own scores.")] = None
    unseen: Annotated[bool | None, described("Whether test pairs that are not training pairs are also scored.")] = None
    decapitalize: Annotated[bool | None, described("Whether each sentence begins with a lower-case letter.")] = None
    lowercase: Annotated[bool | None, described("Whether all text and all translations are in lower case.")] = None
    max_words: Annotated[Large | None, described("Replaces the value in `preprocessing` for this task.")] = None
    max_ratio: Annotated[Ratio | None, described("Replaces the value in `preprocessing` for this task.")] = None
    tokenizer: Annotated[Tokenizing | None, described("Replaces the value in `preprocessing` for this task.")] = None
    experiments: Annotated[Rowsets | None, described("Replaces values of the scale's rows for this task.")] = None
    seeds_of: Annotated[dict[Name, Seeds] | None, described("Replaces the scale's seeds for this task.")] = None
    rows: Annotated[Names | None, described("Limits the scale's rows for this task.")] = None

    @property
    def languages(self) -> tuple[str, str]:
        return self.source, self.target

    @property
    def file_endings(self) -> tuple[str, ...]:
        return self.languages

    def tested_on(self) -> dict[str, str]:
        return super().tested_on() | {f"subsets.{name}": corpus for name, corpus in (self.subsets or {}).items()}

    def faults(self) -> Iterator[tuple[str, str]]:
        yield from super().faults()
        if self.source == self.target:
            yield "target", f"expected a language other than the source language, found '{self.target}'"
        if self.vocabulary > self.embedding_rows:
            yield "vocabulary", f"expected up to {self.embedding_rows} (embedding_rows), found {self.vocabulary}"
        if self.unseen and "unseen" in (self.subsets or {}):
            yield "subsets", "expected names other than 'unseen', which `unseen: true` makes, found 'unseen'"


class Silver(Keys):
    """Trees from another parser: from a file, with `path`, or from another task's parser, with all other keys."""

    repeat: Annotated[Large, described("Copies of the treebanks per copy of these trees.")]
    path: Annotated[FilePath | None, described("File on this machine with one tree per line.")] = None
    text: Annotated[Names | None, described("Corpora with English text for the parser.")] = None
    parser: Annotated[Name | None, described("Task of the parser.")] = None
    sentences: Annotated[Many | None, described("Maximum number of parsed lines, evenly spaced.")] = None
    keep: Annotated[_Share | None, described("Share of the trees, with the best scores, for training.")] = None

    FORMS: ClassVar = ("path", "text parser sentences keep")


class ParsingTask(Task):
    """One parser's data."""

    parses: ClassVar = True
    languages: ClassVar = ("en", "trees")
    file_endings: ClassVar = ("trees",)
    FORMER: ClassVar = {"elsewhere": "out_of_domain"}

    training: Annotated[Text, described("Name of the training data in Table 4.")]
    label: Annotated[Text, described("Name of the test trees in Table 4.")]
    train: Annotated[Names, described("Training treebanks, in this order.")]
    dev: Annotated[Name, described("Development treebank, for the choice of settings.")]
    test: Annotated[Name, described("Test treebank, for Table 4.")]
    vocabulary: Annotated[SubwordCount, described("Number of subwords.")]
    symbols: Annotated[SubwordCount, described("Output symbols: brackets and tags, with pad, eos and unk.")]
    out_of_domain: Annotated[Name | None, described("Second test set, of other genres.")] = None
    phrases: Annotated[Many | None, described("Number of constituents that are added to the sentences.")] = None
    silver: Annotated[Silver | None, described("Trees from another parser.")] = None
    parser: Annotated[ExperimentRow | None, described("Replaces values of the scale's parser.")] = None

    def files(self) -> list[tuple[str, str, str]]:
        return [*super().files(), *(("silver.text", name, "en") for name in self.labelled)]

    def learned_from(self) -> list[str]:
        return [*self.train, *self.labelled]

    @property
    def labelled(self) -> list[str]:
        """Return the corpora with English text that another parser labels."""
        return (self.silver and self.silver.text) or []


class OwnParsing(Keys):
    """The rows of Table 4."""

    seeds: Annotated[Seeds, described("One run for each task and seed.")]
    parser: Annotated[ExperimentRow, described("Replaces values of `parsing.parser` before the division.")]
    tasks: Annotated[dict[Name, ParsingTask], Meta(min_length=1), described("The parsing tasks.")]


def _occurrences(word: str, text: str) -> int:
    """Count a word in a text, with roughly Moses' word boundaries. A text without blanks has no boundaries."""
    before, after = (r"[\w-]" if " " in text and end.isalnum() else "$^" for end in (word[0], word[-1]))
    return len(re.findall(f"(?<!{before}){re.escape(word)}(?!{after})", text))


class Dependency(Keys):
    """A word and the distant words that it depends on. Each word occurs once in the sentence."""

    text: Annotated[_DrawnText, described("A sentence in the first task's source language.")]
    from_: Annotated[Text, described("The word whose attention is drawn.")] = msgspec.field(name="from")
    to: Annotated[list[Text], Meta(min_length=1), described("The words that it depends on.")]

    def faults(self) -> Iterator[tuple[str, str]]:
        yield from super().faults()
        for word in (self.from_, *self.to):
            if (count := _occurrences(word.casefold(), self.text.casefold())) != 1:  # preprocessing may change letters
                yield "", f"expected {word!r} once in the text, found {count} occurrences"


class Sentence(Keys):
    """A sentence. The figure shows the attention of its words in two heads."""

    text: Annotated[_DrawnText, described("A sentence in the first task's source language.")]


class Figures(Keys):
    """Sentences of Figures 3 to 5. A figure without a sentence is not drawn."""

    figure3: Annotated[Dependency | None, described("A long dependency between a verb and its complement.")] = None
    figure4: Annotated[Dependency | None, described("An anaphor and its antecedent.")] = None
    figure5: Annotated[Sentence | None, described("A sentence in two heads.")] = None


class Scale(Keys):
    """Sizes and data for the paper's models."""

    FORMER: ClassVar = _FORMER

    label: Annotated[Text, described("Name of the data in tables and figures.")]
    width: Annotated[Small, described("Divisor of d_model, d_ff, d_k and d_v.")]
    depth: Annotated[Small, described("Divisor of N.")]
    seeds: Annotated[Seeds, described("One run per experiment and seed; tables average over seeds.")]
    base: Annotated[ExperimentRow, described("Replaces values of the base model before the division.")]
    tasks: Annotated[dict[Name, TranslationTask], Meta(min_length=1), described("The translation tasks.")]
    experiments: Annotated[Rowsets | None, described("Replaces values of other rows before the division.")] = None
    like: Annotated[
        ScaleName | None,
        described("Scale that provides every missing key; not `label`, `parsing` and `figures` if `tasks` is given."),
    ] = None
    data_of_paper: Annotated[bool, described("Whether tables show differences from the paper's scores.")] = False
    seeds_of: Annotated[dict[Name, Seeds] | None, described("Seeds of single experiments.")] = None
    rows: Annotated[Names | None, described("Trained rows of Tables 2, 3 and 5. The default is all rows.")] = None
    decoding: Annotated[OwnDecoding | None, described("Replaces values of `decoding`.")] = None
    preprocessing: Annotated[OwnPreprocessing | None, described("Replaces values of `preprocessing`.")] = None
    logging: Annotated[OwnLogging | None, described("Replaces values of `logging`.")] = None
    table1: Annotated[OwnTable1 | None, described("Replaces values of `table1`.")] = None
    recall: Annotated[OwnRecall | None, described("Replaces values of `recall`.")] = None
    analyses: Annotated[Analyses | None, described("Replaces values of `analyses`.")] = None
    figures: Annotated[Figures | None, described("Sentences of Figures 3 to 5.")] = None
    parsing: Annotated[OwnParsing | None, described("The rows of Table 4.")] = None


class Source(Keys):
    """A file: a `download` or a `path`."""

    download: Annotated[Name | None, described("One of `downloads`.")] = None
    path: Annotated[FilePath | None, described("A file on this machine.")] = None

    FORMS: ClassVar = ("path", "download")

    @property
    def file(self) -> str:
        """Return the path of the file. If the file is a download, `fetch` writes it."""
        return self.path or str(RESOURCES.download(self.download))


class File(Source):
    """A `download` or a `path`. A file with the ending .gz is unpacked."""

    member: Annotated[Text | None, described("Path within an archive. A .gz member is unpacked.")] = None
    format: Annotated[Literal["sgm"] | None, described("WMT's SGML. Omit it for plain text.")] = None


class Treebank(Source):
    """The Penn Treebank (with `sections`), GUM (with `split`), or a file with one tree per line."""

    split: Annotated[Literal["train", "dev", "test", "test2"] | None, described("A heading of GUM's splits.md.")] = None
    sections: Annotated[Sections | None, described("First and last section in the Penn Treebank's WSJ folder.")] = None
    sha256: Annotated[Sha256 | None, described("SHA-256 of the output: the cleaned trees, one per line.")] = None

    FORMS: ClassVar = ("path", "path sections", "path split", "download", "download split")


class Slice(Keys):
    """Sentences of the project's grammar."""

    seed: Annotated[Seed, described("Seed of the endless sequence of sentences.")]
    skip: Annotated[int, Meta(ge=0, le=10**9), described("Number of skipped sentences at the beginning.")]
    take: Annotated[int, Meta(ge=1, le=10**9), described("Number of sentences after the skipped ones.")]


_Files = Annotated[dict[Language, File], Meta(min_length=2)]


class Corpus(Keys):
    """Sentences of the project's `grammar`, trees of a `treebank`, or `files` (one per language)."""

    grammar: Annotated[Slice | None, described("Sentences of the grammar.")] = None
    treebank: Annotated[Treebank | None, described("Trees. The corpus has one tree per line.")] = None
    files: Annotated[_Files | None, described("The file of each language.")] = None
    lines: Annotated[Many | None, described("Required number of lines of each file.")] = None

    FORMS: ClassVar = ("grammar", "treebank", "files", "treebank lines", "files lines")

    def sources(self) -> dict[str, Source]:
        """Return the sources of the corpus's files by ending. A corpus of the grammar has no sources."""
        return {"trees": self.treebank} if self.treebank else self.files or {}

    def key_of(self, ending: str) -> tuple[str, ...]:
        """Return the key of the source of the file with an ending."""
        return ("treebank",) if self.treebank else ("files", ending)

    def endings(self) -> list[str]:
        """Return the endings of the corpus's files."""
        return ["en", "de", "fr", "trees"] if self.grammar else list(self.sources())


class Bytes(Keys):
    """A file from the network: its URLs and its checksum."""

    urls: Annotated[list[Address], Meta(min_length=1), described("URLs of the same bytes, tried in this order.")]
    sha256: Annotated[Sha256 | None, described("SHA-256 of the bytes, in lower case.")] = None
    md5: Annotated[Md5 | None, described("MD5 of the bytes, if no SHA-256 was published.")] = None
    size: Annotated[Many | None, described("Number of bytes.")] = None

    FORMS: ClassVar = ("sha256 size", "md5 size", "md5")


_Alternatives = Annotated[list[Bytes], Meta(min_length=1)]


class Download(Bytes):
    """A file from the network. A `repacked` file has no checksum, because its host sometimes repacks it."""

    repacked: Annotated[bool | None, described("Whether to check its contents instead of its bytes.")] = None
    alternatives: Annotated[_Alternatives | None, described("Other files with the same members.")] = None

    FORMS: ClassVar = ("sha256 size", "md5 size", "md5", "repacked")


class Config(Keys):
    """Everything that a result depends on. Section numbers (§) refer to "Attention Is All You Need"."""

    FORMER: ClassVar = _FORMER | {"claims": "ablations"}

    scale: Annotated[Name, described("Name of the scale to build, from `scales`.")]
    mirror: Annotated[str, described('Folder to read downloads from, as <folder>/<host>/<path>. "" uses the network.')]
    results: Annotated[FilePath, described("Folder of the results. Each scale has a subfolder with its name.")]
    partial: Annotated[bool, described("Whether tables and page use only finished runs and list missing results.")]
    recipe: Annotated[
        Literal["paper", "tensor2tensor"], described("Settings of the paper, or settings of its authors' code.")
    ]
    recipes: Annotated[
        dict[Name, dict[str, Any]],
        described("Values of other recipes. They replace values of any key, and are checked when chosen."),
    ]
    base: Annotated[Base, described("The base model.")]
    experiments: Annotated[Rowsets, described("The rows of Table 3, as differences from `base`.")]
    baselines: Annotated[Rowsets, described("Table 2's rows of other architectures, as differences from `base`.")]
    ablations: Annotated[Rowsets, described("Table 5's trained rows, as differences from `base`.")]
    optimizer: Annotated[Optimizer, described("Adam (§5.3).")]
    table1: Annotated[Table1, described("Sizes of Table 1's layers (§4).")]
    recall: Annotated[Recall, described("Recall over a distance (§4).")]
    analyses: Annotated[Analyses, described("Analyses of trained runs for Table 5.")]
    decoding: Annotated[Search, described("Beam search (§6.1).")]
    parsing: Annotated[Parsing, described("Constituency parsing (§6.3).")]
    preprocessing: Annotated[Preprocessing, described("Cleaning and tokenisation of text (§5.1).")]
    logging: Annotated[Logging, described("Intervals of log lines, dev scores and saved states.")]
    attention: Annotated[Viewer, described("The page's attention viewer.")]
    report: Annotated[Report, described("The page.")]
    scales: Annotated[dict[ScaleName, Scale], Meta(min_length=1), described("Sizes and data; `scale` names one.")]
    corpora: Annotated[dict[Name, Corpus], Meta(min_length=1), described("Texts and treebanks.")]
    downloads: Annotated[dict[Name, Download], described("Files from the network, by file name.")]
