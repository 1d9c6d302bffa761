"""The structs of config.yaml: its keys, bounds and descriptions. A key without a default is needed.

The manual and the schema for editors come from them, too (manual.py).
"""

import re
from collections.abc import Collection, Iterator
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from transformer.config.experiment import (
    PARTS,
    POSITIONS,
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
_DrawnText = Annotated[str, Meta(min_length=1, max_length=400, title="text of up to 400 characters")]  # in a drawing
_Length = Annotated[int, Meta(ge=1, le=POSITIONS)]
# `$` would take a newline at the end of a text, `\Z` takes none.
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*\Z"
_LETTERS = "a name of letters, digits, points, hyphens and underscores"  # part of a path
Name = Annotated[str, Meta(pattern=f"^{NAME}", title=_LETTERS)]
ScaleName = Annotated[str, Meta(pattern=rf"^(?!record\Z){NAME}", title=f"{_LETTERS}, but not record")]  # kept in git
RowName = Annotated[str, Meta(pattern=rf"^(?!parser\Z){NAME}", title=f"{_LETTERS}, but not parser")]  # see `parsing`
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
    """A section of config.yaml, whose lists have no item twice. FORMS: exactly one of these sets of keys is given."""

    FORMS: ClassVar[tuple[str, ...]] = ()
    FORMER: ClassVar[dict[str, str]] = {}  # today's names of keys by the former ones, which are still accepted

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
    """Return a section with the keys of others. Each may be left out; if `needed`, only those with a default."""
    fields, former = [], {}
    for field in (field for kind in kinds for field in msgspec.structs.fields(kind) if field.name not in without):
        must = needed and (field.required or (field.default is UNSET and field.name in PARTS["transformer"]))
        fields.append((field.name, field.type) if must else (field.name, field.type | UnsetType, UNSET))
        if field.encode_name != field.name:
            former[field.encode_name] = field.name
    namespace = {"__doc__": about, "FORMER": former}
    return msgspec.defstruct(name, fields, bases=(Keys,), namespace=namespace, kw_only=True)


PAPERS = "If not given, `norm` is `post`, `attention` is `dot`, and the true or false ones are true, as in the paper."
ADAM = {"beta1", "beta2", "epsilon"}
_OF_RUN = {"embedding_rows", "output_rows"}  # not of a row
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
    """Sizes at which one layer of each kind is measured (§4)."""

    lengths: Annotated[Sizes, described("Lengths n that a layer is timed at, growing.")]
    width: Annotated[Width, described("Width d of the layers at these lengths.")]
    widths: Annotated[Sizes, described("Widths d that a layer is timed at, growing.")]
    length: Annotated[int, Meta(ge=1, le=1_000_000), described("Length n at these widths.")]
    paths: Annotated[Sizes, described("Lengths n that the longest path is found at, growing.")]
    k: Annotated[int, Meta(ge=2, le=1000), described("Width of the convolution's kernel.")]
    r: Annotated[int, Meta(ge=2, le=1_000_000), described("Neighbours that restricted self-attention sees.")]
    seconds: Annotated[float, Meta(gt=0, le=3600), described("Processor time of each measurement.")]


class Recall(Keys):
    """Recall of a key's value by its distance (§4): encoders of all architectures, trained for it alone."""

    distances: Annotated[
        list[Annotated[int, Meta(ge=4, le=900, multiple_of=2)]],
        Meta(min_length=1),
        described("Tokens between a pair and the question, growing."),
    ]
    models: Annotated[
        dict[Literal["transformer", "lstm", "conv"], ExperimentRow],
        Meta(min_length=1),
        described("Sizes of the encoders, which no scale divides; `learning_rate_scale` multiplies `learning_rate`."),
    ]
    seeds: Annotated[Seeds, described("One training for each model and seed.")]
    steps: Annotated[int, Meta(ge=101, le=1_000_000), described("Steps of a training.")]
    sequences: Annotated[Small, described("Sequences in a step.")]
    learning_rate: Annotated[float, Meta(gt=0, le=1), described("Peak of Adam's learning rate.")]
    tested: Annotated[Large, described("Sequences at each distance that accuracy is measured on.")]


OwnRecall = _options("ScaleRecall", "Values that replace those of `recall`.", Recall)
OwnTable1 = _options("ScaleTable1", "Values that replace those of `table1`.", Table1)
Analyses = _options(
    "Analyses",
    "Analyses of trained runs for Table 5. An analysis whose keys are not given is left out.",
    *(analysis.Settings for analysis in ANALYSES.values()),
)


class Parsing(Keys):
    """Constituency parsing (§6.3)."""

    parser: Annotated[ExperimentRow, described("What differs from the base model.")]
    decoding: Annotated[Search, described("Beam search for a tree.")]
    silver: Annotated[Search, described("Beam search for the silver trees.")]


class Viewer(Keys):
    """The page's attention viewer, beside the sentences of Figures 3 to 5."""

    sentences: Annotated[Small, described("Sentences of the test set.")]
    longest: Annotated[_Length, described("Tokens of one of them, at most; the shortest are shown if all have more.")]


class Report(Keys):
    """The page."""

    samples: Annotated[Small, described("Outputs that are shown: so many best, worst and random ones.")]
    core_hour: Annotated[Price, described("Price of an hour of a processor core.")]
    gpu_hour: Annotated[Price, described("Price of an hour of a GPU.")]
    currency: Annotated[Text, described("Currency of the prices.")]


class Task(Keys):
    """The common part of translation and parsing tasks. A subclass `parses` or translates."""

    parses: ClassVar[bool]

    def tested_on(self) -> dict[str, str]:
        """Return the corpora that the task is tested on, by key."""
        keys = ("dev", "test", "out_of_domain")
        return {key: corpus for key in keys if (corpus := getattr(self, key, None)) is not None}

    def files(self) -> list[tuple[str, str, str]]:
        """Return key, corpus and ending of the files that the task learns from and is tested on."""
        corpora = [*(("train", name) for name in self.train), *self.tested_on().items()]
        return [(key, name, ending) for key, name in corpora for ending in dict.fromkeys(self.file_endings)]

    def learned_from(self) -> list[str]:
        """Return the corpora of its training data."""
        return self.train


class TranslationTask(Task):
    """One translation direction."""

    parses: ClassVar = False

    source: Annotated[Language, described("Language that is read.")]
    target: Annotated[Language, described("Language that is written.")]
    train: Annotated[Names, described("Corpora that are learned from, one after the other.")]
    dev: Annotated[Name, described("Corpus of Table 3's scores, and of those during training.")]
    test: Annotated[Name, described("Corpus of Table 2's scores.")]
    vocabulary: Annotated[SubwordCount, described("Subwords of both languages together, with pad, eos and unk.")]
    embedding_rows: Annotated[SubwordCount, described("Rows of the embedding, at least `vocabulary`.")]
    subsets: Annotated[dict[Name, Name] | None, described("Corpora within the test set, to be scored as well.")] = None
    decapitalize: Annotated[bool | None, described("Whether each sentence begins with a small letter.")] = None
    lowercase: Annotated[bool | None, described("Whether all text is in lower case, translations too.")] = None
    max_words: Annotated[Large | None, described("Replaces the value of `preprocessing`, for this task.")] = None
    max_ratio: Annotated[Ratio | None, described("Replaces the value of `preprocessing`, for this task.")] = None
    tokenizer: Annotated[Tokenizing | None, described("Replaces the value of `preprocessing`, for this task.")] = None
    experiments: Annotated[Rowsets | None, described("Values that replace the scale's, for this task.")] = None
    seeds_of: Annotated[dict[Name, Seeds] | None, described("Seeds that replace the scale's, for this task.")] = None

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
            yield "target", f"expected another language than the source's, found '{self.target}'"
        if self.vocabulary > self.embedding_rows:
            yield "vocabulary", f"expected up to {self.embedding_rows}, the embedding_rows, found {self.vocabulary}"


class Silver(Keys):
    """Trees that another parser made: in a file (`path`), or here by the parser of another task (the other keys)."""

    repeat: Annotated[Large, described("How often the treebanks come for each time that these trees do.")]
    path: Annotated[FilePath | None, described("A file on this machine with a tree on each line.")] = None
    text: Annotated[Names | None, described("Corpora whose English text is parsed.")] = None
    parser: Annotated[Name | None, described("The task whose parser makes the trees.")] = None
    sentences: Annotated[Many | None, described("Lines that are parsed, at most, drawn evenly.")] = None
    keep: Annotated[_Share | None, described("Share of the trees that is kept, the surest ones.")] = None

    FORMS: ClassVar = ("path", "text parser sentences keep")


class ParsingTask(Task):
    """One parser's data."""

    parses: ClassVar = True
    languages: ClassVar = ("en", "trees")
    file_endings: ClassVar = ("trees",)
    FORMER: ClassVar = {"elsewhere": "out_of_domain"}

    training: Annotated[Text, described("What is learned from, in Table 4's words.")]
    label: Annotated[Text, described("Name of the test trees there.")]
    train: Annotated[Names, described("Treebanks that are learned from, one after the other.")]
    dev: Annotated[Name, described("Treebank that settings are chosen on.")]
    test: Annotated[Name, described("Treebank of Table 4's scores.")]
    vocabulary: Annotated[SubwordCount, described("Subwords of the words.")]
    symbols: Annotated[SubwordCount, described("Brackets and tags, with pad, eos and unk: rows under the softmax.")]
    out_of_domain: Annotated[Name | None, described("A second test set, of other kinds of text.")] = None
    phrases: Annotated[Many | None, described("Constituents that are learned from as if they were sentences.")] = None
    silver: Annotated[Silver | None, described("Trees that no person made.")] = None
    parser: Annotated[ExperimentRow | None, described("Values that replace those of the scale's parser.")] = None

    def files(self) -> list[tuple[str, str, str]]:
        return [*super().files(), *(("silver.text", name, "en") for name in self.labelled)]

    def learned_from(self) -> list[str]:
        return [*self.train, *self.labelled]

    @property
    def labelled(self) -> list[str]:
        """Return the corpora whose English text is parsed to learn from."""
        return (self.silver and self.silver.text) or []


class OwnParsing(Keys):
    """The rows of Table 4."""

    seeds: Annotated[Seeds, described("One run for each task and seed.")]
    parser: Annotated[ExperimentRow, described("Values that replace the parser's, before the division.")]
    tasks: Annotated[dict[Name, ParsingTask], Meta(min_length=1), described("The parsing tasks.")]


def _occurrences(word: str, text: str) -> int:
    """Count a word in a text, roughly as Moses cuts it: no letter goes on at its ends, if there are blanks at all."""
    before, after = (r"[\w-]" if " " in text and end.isalnum() else "$^" for end in (word[0], word[-1]))
    return len(re.findall(f"(?<!{before}){re.escape(word)}(?!{after})", text))


class Dependency(Keys):
    """A word, and the words at a distance that it depends on."""

    text: Annotated[_DrawnText, described("A sentence in the first task's source language.")]
    from_: Annotated[Text, described("The word, which is there once; so are those of `to`.")] = msgspec.field(
        name="from"
    )
    to: Annotated[list[Text], Meta(min_length=1), described("The words that it depends on.")]

    def faults(self) -> Iterator[tuple[str, str]]:
        yield from super().faults()
        for word in (self.from_, *self.to):
            if (count := _occurrences(word.casefold(), self.text.casefold())) != 1:  # preprocessing may change letters
                yield "", f"expected {word!r} once in the text, found it {count} times"


class Sentence(Keys):
    """A sentence, whose words' attention is shown in two heads."""

    text: Annotated[_DrawnText, described("In the first task's source language.")]


class Figures(Keys):
    """Sentences of Figures 3 to 5; a figure that is not named is not drawn."""

    figure3: Annotated[Dependency | None, described("A long dependency, of a verb and its complement.")] = None
    figure4: Annotated[Dependency | None, described("An anaphor and its antecedent.")] = None
    figure5: Annotated[Sentence | None, described("A sentence in two heads.")] = None


class Scale(Keys):
    """The paper's models, made smaller, and their data."""

    FORMER: ClassVar = _FORMER

    label: Annotated[Text, described("Name of the data in tables and figures.")]
    width: Annotated[Small, described("Divides d_model, d_ff, d_k and d_v.")]
    depth: Annotated[Small, described("Divides N.")]
    seeds: Annotated[Seeds, described("One run for each experiment and seed; tables average over them.")]
    base: Annotated[ExperimentRow, described("Values that replace the base model's, before the division.")]
    experiments: Annotated[Rowsets, described("The same, for single experiments.")]
    tasks: Annotated[dict[Name, TranslationTask], Meta(min_length=1), described("The translation tasks.")]
    like: Annotated[
        ScaleName | None,
        described(
            "Scale from which missing keys are taken, one by one; its label and data only if this one has no `tasks`."
        ),
    ] = None
    data_of_paper: Annotated[bool, described("Whether tables show the distance from the paper's scores.")] = False
    seeds_of: Annotated[dict[Name, Seeds] | None, described("The seeds of single experiments.")] = None
    rows: Annotated[Names | None, described("Rows of Tables 2, 3 and 5 that are trained; all if not given.")] = None
    decoding: Annotated[OwnDecoding | None, described("Values that replace those of `decoding`.")] = None
    preprocessing: Annotated[OwnPreprocessing | None, described("Values that replace those of `preprocessing`.")] = None
    logging: Annotated[OwnLogging | None, described("Values that replace those of `logging`.")] = None
    table1: Annotated[OwnTable1 | None, described("Values that replace those of `table1`.")] = None
    recall: Annotated[OwnRecall | None, described("Values that replace those of `recall`.")] = None
    analyses: Annotated[Analyses | None, described("Values that replace those of `analyses`.")] = None
    figures: Annotated[Figures | None, described("Sentences of Figures 3 to 5.")] = None
    parsing: Annotated[OwnParsing | None, described("The rows of Table 4.")] = None


class Source(Keys):
    """A file: a `download` or a `path`."""

    download: Annotated[Name | None, described("One of `downloads`.")] = None
    path: Annotated[FilePath | None, described("A file on this machine.")] = None

    FORMS: ClassVar = ("path", "download")

    @property
    def file(self) -> str:
        """Return the path of the file, which `fetch` writes if it is a download."""
        return self.path or str(RESOURCES.download(self.download))


class File(Source):
    """A `download` or a `path`, unpacked if its name ends in .gz."""

    member: Annotated[Text | None, described("Path within an archive, unpacked if it ends in .gz.")] = None
    format: Annotated[Literal["sgm"] | None, described("WMT's SGML; plain text has no format.")] = None


class Treebank(Source):
    """The Penn Treebank if it has `sections`, GUM if it has `split`, or a file with a tree on each line."""

    split: Annotated[Literal["train", "dev", "test", "test2"] | None, described("A heading of GUM's splits.md.")] = None
    sections: Annotated[Sections | None, described("First and last section of the Wall Street Journal's folder.")] = (
        None
    )
    sha256: Annotated[Sha256 | None, described("SHA-256 of the cleaned trees as they are written, one a line.")] = None

    FORMS: ClassVar = ("path", "path sections", "path split", "download", "download split")


class Slice(Keys):
    """Sentences of the project's grammar."""

    seed: Annotated[Seed, described("Seed of the endless list of sentences.")]
    skip: Annotated[int, Meta(ge=0, le=10**9), described("Sentences of the list that are passed over.")]
    take: Annotated[int, Meta(ge=1, le=10**9), described("Sentences that are taken then.")]


_Files = Annotated[dict[Language, File], Meta(min_length=2)]


class Corpus(Keys):
    """Sentences of the project's `grammar`, trees of a `treebank`, or `files`, one for each language."""

    grammar: Annotated[Slice | None, described("Which sentences of the grammar.")] = None
    treebank: Annotated[Treebank | None, described("Trees, which are written one a line.")] = None
    files: Annotated[_Files | None, described("The file of each language.")] = None
    lines: Annotated[Many | None, described("Lines that each file must have.")] = None

    FORMS: ClassVar = ("grammar", "treebank", "files", "treebank lines", "files lines")

    def sources(self) -> dict[str, Source]:
        """Return the sources of its files by their keys; the grammar has none."""
        if self.treebank:
            return {"treebank": self.treebank}
        return {f"files.{language}": file for language, file in (self.files or {}).items()}

    def source_of(self, ending: str) -> Source | None:
        """Return the source of the file with an ending; None where the grammar makes it."""
        return self.treebank or (self.files or {}).get(ending)

    def endings(self) -> list[str]:
        """Return the endings of its files."""
        return ["en", "de", "fr", "trees"] if self.grammar else ["trees"] if self.treebank else list(self.files)


class Bytes(Keys):
    """A file from the network: its addresses, and a checksum by which it is known."""

    urls: Annotated[list[Address], Meta(min_length=1), described("Addresses of the same bytes, tried in turn.")]
    sha256: Annotated[Sha256 | None, described("Their SHA-256, in lower case.")] = None
    md5: Annotated[Md5 | None, described("Their MD5, where no SHA-256 was published.")] = None
    size: Annotated[Many | None, described("Number of bytes.")] = None

    FORMS: ClassVar = ("sha256 size", "md5 size", "md5")


_Alternatives = Annotated[list[Bytes], Meta(min_length=1)]


class Download(Bytes):
    """A file from the network. One that its host packs again now and then is `repacked`, and has no checksum."""

    repacked: Annotated[bool | None, described("Whether its contents are checked, not its bytes.")] = None
    alternatives: Annotated[_Alternatives | None, described("Other files with the same members.")] = None

    FORMS: ClassVar = ("sha256 size", "md5 size", "md5", "repacked")


class Config(Keys):
    """Everything that a result depends on; sections (§) are those of "Attention Is All You Need"."""

    FORMER: ClassVar = _FORMER | {"claims": "ablations"}

    scale: Annotated[Name, described("The one of `scales` that is built.")]
    mirror: Annotated[str, described('Folder that is read as <mirror>/<host>/<path> instead of the network, or "".')]
    results: Annotated[FilePath, described("Folder of the results: those of a scale lie in a folder of its name.")]
    partial: Annotated[
        bool, described("Whether tables and page are made from the finished runs, with gaps for others.")
    ]
    recipe: Annotated[
        Literal["paper", "tensor2tensor"], described("The paper's settings, or those of its authors' code.")
    ]
    recipes: Annotated[
        dict[Name, dict[str, Any]],
        described("What a recipe other than the paper's lays over all of this; checked if it is chosen."),
    ]
    base: Annotated[Base, described("The base model.")]
    experiments: Annotated[Rowsets, described("The rows of Table 3, as differences from `base`.")]
    baselines: Annotated[Rowsets, described("Rows of Table 2 of other architectures, as differences from `base`.")]
    ablations: Annotated[Rowsets, described("The trained rows of Table 5, as differences from `base`.")]
    optimizer: Annotated[Optimizer, described("Adam (§5.3).")]
    table1: Annotated[Table1, described("Sizes of Table 1's layers (§4).")]
    recall: Annotated[Recall, described("Recall by distance (§4).")]
    analyses: Annotated[Analyses, described("Analyses of trained runs for Table 5.")]
    decoding: Annotated[Search, described("Beam search (§6.1).")]
    parsing: Annotated[Parsing, described("Constituency parsing (§6.3).")]
    preprocessing: Annotated[Preprocessing, described("Cleaning and tokenisation of text (§5.1).")]
    logging: Annotated[Logging, described("Log, dev scores and saved states of a training.")]
    attention: Annotated[Viewer, described("The page's attention viewer.")]
    report: Annotated[Report, described("The page.")]
    scales: Annotated[dict[ScaleName, Scale], Meta(min_length=1), described("What can be built.")]
    corpora: Annotated[dict[Name, Corpus], Meta(min_length=1), described("Texts and treebanks.")]
    downloads: Annotated[
        dict[Name, Download], described("Files from the network, by their names in resources/downloads.")
    ]
