"""The structs of config.yaml: its keys, bounds and descriptions, from which the checks and the manual come.

The workflow goes on with the mappings; the structs only check them. A key without a default is needed.
"""

import html
import re
from collections.abc import Collection
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from transformer.config.experiment import (
    POSITIONS,
    RECIPES,
    Decoding,
    FilePath,
    Large,
    Many,
    Maybe,
    Model,
    Preparation,
    Ratio,
    Running,
    Section,
    Seed,
    Small,
    Training,
    Width,
    says,
)
from transformer.evaluation.analyses import ANALYSES

Text = Annotated[str, Meta(min_length=1)]
Shown = Annotated[str, Meta(min_length=1, max_length=400, title="text of 400 characters at most")]  # in a drawing
Length = Annotated[int, Meta(ge=1, le=POSITIONS)]
# `$` would take a newline at the end of a text, `\Z` takes none.
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*\Z"
Name = Annotated[str, Meta(pattern=f"^{NAME}", title="a name")]  # part of a path
ScaleName = Annotated[str, Meta(pattern=rf"^(?!record\Z){NAME}", title="a name")]  # results/record is kept in git
RowName = Annotated[str, Meta(pattern=rf"^(?!parser\Z){NAME}", title="a name")]  # the parser's is in `parsing`
Language = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_-]*\Z", title="a language's code")]  # after a file's dot
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z", title="64 hexadecimal digits")]
Md5 = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z", title="32 hexadecimal digits")]
Address = Annotated[str, Meta(pattern=r"^https?://[^/\s]+/\S+\Z", title="an address")]
Names = Annotated[list[Name], Meta(min_length=1)]
Seeds = Annotated[list[Seed], Meta(min_length=1, max_length=1000)]
Sizes = Annotated[list[Annotated[int, Meta(ge=2, le=1_000_000)]], Meta(min_length=3)]
SubwordCount = Annotated[int, Meta(ge=4, le=65_535)]  # with pad, eos and unk
Price = Literal["unknown"] | Annotated[float, Meta(ge=0, le=10**9)]
Wsj = Annotated[int, Meta(ge=0, le=24)]
Sections = tuple[Wsj, Wsj]


class Keys(Section):
    """A section of config.yaml, whose lists have no item twice. Of the keys in FORMS, those of one form are given."""

    FORMS: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self):
        for key, value in msgspec.structs.asdict(self).items():
            for items in value.values() if isinstance(value, dict) else [value]:
                if isinstance(items, list) and len(set(map(str, items))) < len(items):
                    raise ValueError(f"{key}: expected each item once, found {items}")
        known = dict.fromkeys(key for form in self.FORMS for key in form.split())
        found = [key for key in known if getattr(self, key) is not UNSET]
        if self.FORMS and not any(set(found) == set(form.split()) for form in self.FORMS):
            expected = " or ".join(" and ".join(form.split()) for form in self.FORMS)
            raise ValueError(f"expected {expected}, found {' and '.join(found) or 'none of these keys'}")


def options(name: str, about: str, *kinds: type[Section], without: Collection[str] = (), needed: bool = False) -> type:
    """Return a section with the keys of others. Each may be left out; if `needed`, only those with a default."""
    given = {field.name: field for kind in kinds for field in msgspec.structs.fields(kind)}  # kinds may share some
    fields = []
    for key, field in given.items():
        if key not in without:
            must = needed and field.required
            fields.append((key, field.type) if must else (key, field.type | UnsetType, UNSET))
    return msgspec.defstruct(name, fields, bases=(Keys,), namespace={"__doc__": about}, kw_only=True)


PAPERS = "If not given, `norm` is `post`, `attention` is `dot`, and the true or false ones are true, as in the paper."
ADAM = {"beta1", "beta2", "epsilon"}
_OF_RUN = {"embedding_rows", "output_rows", "sinusoids", "target_spaces"}  # not of a row
ExperimentRow = options(
    "Row", f"Differences from the base model, in Table 3's units. {PAPERS}", Model, Training, without=_OF_RUN
)
Base = options("Base", f"Table 3's first row (§6.2). {PAPERS}", Model, Training, without=_OF_RUN | ADAM, needed=True)
Optimizer = options("Optimizer", "Adam (§5.3).", Training, without={*Training.__struct_fields__} - ADAM, needed=True)
_OF_TEXT = {"decapitalize", "lowercase"}  # of a task
Cleaning = options("Preparation", Preparation.__doc__, Preparation, without=_OF_TEXT, needed=True)
OwnCleaning = options("ScalePreparation", "Values that replace those of `preparation`.", Preparation, without=_OF_TEXT)
OwnDecoding = options("ScaleDecoding", "Values that replace those of `decoding`.", Decoding)
OwnRunning = options("ScaleRunning", "Values that replace those of `running`.", Running)
Rowsets = dict[RowName, ExperimentRow]


class Table1(Keys):
    """Sizes at which one layer of each kind is measured (§4)."""

    lengths: Annotated[Sizes, says("Lengths n that a layer is timed at, growing.")]
    width: Annotated[Width, says("Width d of the layers at these lengths.")]
    widths: Annotated[Sizes, says("Widths d that a layer is timed at, growing.")]
    length: Annotated[int, Meta(ge=1, le=1_000_000), says("Length n at these widths.")]
    paths: Annotated[Sizes, says("Lengths n that the longest path is found at, growing.")]
    k: Annotated[int, Meta(ge=2, le=1000), says("Width of the convolution's kernel.")]
    r: Annotated[int, Meta(ge=2, le=1_000_000), says("Neighbours that restricted self-attention sees.")]
    seconds: Annotated[float, Meta(gt=0, le=3600), says("Processor time of each measurement.")]


OwnTable1 = options("ScaleTable1", "Values that replace those of `table1`.", Table1)
Probes = options(
    "Probes",
    "Analyses of trained runs for Table 5. An analysis whose keys are not given is left out.",
    *(analysis.Settings for analysis in ANALYSES.values()),
)


class Parsing(Keys):
    """Constituency parsing (§6.3)."""

    parser: Annotated[ExperimentRow, says("What differs from the base model.")]
    decoding: Annotated[Decoding, says("Beam search for a tree.")]
    silver: Annotated[Decoding, says("Beam search for trees that another parser learns from.")]


class Viewer(Keys):
    """The page's attention viewer, beside the sentences of Figures 3 to 5."""

    sentences: Annotated[Small, says("Sentences of the test set.")]
    longest: Annotated[Length, says("Tokens of one of them, at most; the shortest are shown if all have more.")]


class Report(Keys):
    """The page."""

    samples: Annotated[Small, says("Outputs that are shown: so many best, worst and random ones.")]
    core_hour: Annotated[Price, says("Price of an hour of a processor core.")]
    gpu_hour: Annotated[Price, says("Price of an hour of a GPU.")]
    currency: Annotated[Text, says("Currency of the prices.")]


class Task(Keys):
    """One translation direction."""

    source: Annotated[Language, says("Language that is read.")]
    target: Annotated[Language, says("Language that is written.")]
    train: Annotated[Names, says("Corpora that are learned from, one after the other.")]
    dev: Annotated[Name, says("Corpus of Table 3's scores, and of those during training.")]
    test: Annotated[Name, says("Corpus of Table 2's scores.")]
    vocabulary: Annotated[SubwordCount, says("Subwords of both languages together, with pad, eos and unk.")]
    embedding_rows: Annotated[SubwordCount, says("Rows of the embedding, at least `vocabulary`.")]
    subsets: Maybe[Annotated[dict[Name, Name], says("Corpora within the test set, to be scored as well.")]] = UNSET
    decapitalize: Maybe[Annotated[bool, says("Whether each sentence begins with a small letter.")]] = UNSET
    lowercase: Maybe[Annotated[bool, says("Whether all text is in lower case, translations too.")]] = UNSET
    max_words: Maybe[Annotated[Large, says("Replaces the value of `preparation`, for this task.")]] = UNSET
    max_ratio: Maybe[Annotated[Ratio, says("Replaces the value of `preparation`, for this task.")]] = UNSET
    experiments: Maybe[Annotated[Rowsets, says("Values that replace the scale's, for this task.")]] = UNSET
    seeds_of: Maybe[Annotated[dict[Name, Seeds], says("Seeds that replace the scale's, for this task.")]] = UNSET


class Silver(Keys):
    """Trees that another parser made: in a file (`path`), or here by the parser of another task (the other keys)."""

    repeat: Annotated[Large, says("How often the treebanks come for each time that these trees do.")]
    path: Maybe[Annotated[FilePath, says("A file on this machine with a tree on each line.")]] = UNSET
    text: Maybe[Annotated[Names, says("Corpora whose English text is parsed.")]] = UNSET
    parser: Maybe[Annotated[Name, says("The task whose parser makes the trees.")]] = UNSET
    sentences: Maybe[Annotated[Many, says("Lines that are parsed, at most, drawn evenly.")]] = UNSET
    keep: Maybe[Annotated[float, Meta(gt=0, le=1), says("Share of the trees that is kept, the surest ones.")]] = UNSET

    FORMS: ClassVar = ("path", "text parser sentences keep")


class Treebanks(Keys):
    """One parser's data."""

    training: Annotated[Text, says("What is learned from, in Table 4's words.")]
    label: Annotated[Text, says("Name of the test trees there.")]
    train: Annotated[Names, says("Treebanks that are learned from, one after the other.")]
    dev: Annotated[Name, says("Treebank that settings are chosen on.")]
    test: Annotated[Name, says("Treebank of Table 4's scores.")]
    vocabulary: Annotated[SubwordCount, says("Subwords of the words.")]
    symbols: Annotated[SubwordCount, says("Brackets and tags, with pad, eos and unk: rows under the softmax.")]
    elsewhere: Maybe[Annotated[Name, says("A second test set.")]] = UNSET
    phrases: Maybe[Annotated[Many, says("Constituents that are learned from as if they were sentences.")]] = UNSET
    silver: Maybe[Annotated[Silver, says("Trees that no person made.")]] = UNSET
    parser: Maybe[Annotated[ExperimentRow, says("Values that replace those of the scale's parser.")]] = UNSET


class OwnParsing(Keys):
    """The rows of Table 4."""

    seeds: Annotated[Seeds, says("One run for each task and seed.")]
    parser: Annotated[ExperimentRow, says("Values that replace the parser's, before the division.")]
    tasks: Annotated[dict[Name, Treebanks], Meta(min_length=1), says("The parsing tasks.")]


def occurrences(word: str, text: str) -> int:
    """Count a word in a text, roughly as Moses cuts it: no letter goes on at its ends, if there are blanks at all."""
    before, after = (r"[\w-]" if " " in text and end.isalnum() else "$^" for end in (word[0], word[-1]))
    return len(re.findall(f"(?<!{before}){re.escape(word)}(?!{after})", text))


class Dependency(Keys):
    """A word, and the words at a distance that it depends on."""

    text: Annotated[Shown, says("A sentence in the first task's source language.")]
    from_: Annotated[Text, says("The word, which is there once; so are those of `to`.")] = msgspec.field(name="from")
    to: Annotated[list[Text], Meta(min_length=1), says("The words that it depends on.")]

    def __post_init__(self):
        super().__post_init__()
        for word in (self.from_, *self.to):
            if (count := occurrences(word.casefold(), self.text.casefold())) != 1:  # preparation may change letters
                raise ValueError(f"expected {word!r} once in the text, found it {count} times")


class Sentence(Keys):
    """A sentence, whose words' attention is shown in two heads."""

    text: Annotated[Shown, says("In the first task's source language.")]


class Figures(Keys):
    """Sentences of Figures 3 to 5; a figure that is not named is not drawn."""

    figure3: Maybe[Annotated[Dependency, says("A long dependency, of a verb and its complement.")]] = UNSET
    figure4: Maybe[Annotated[Dependency, says("An anaphor and its antecedent.")]] = UNSET
    figure5: Maybe[Annotated[Sentence, says("A sentence in two heads.")]] = UNSET


class Scale(Keys):
    """The paper's models, made smaller, and their data."""

    label: Annotated[Text, says("Name of the data in tables and figures.")]
    width: Annotated[Small, says("Divides d_model, d_ff, d_k and d_v.")]
    depth: Annotated[Small, says("Divides N.")]
    seeds: Annotated[Seeds, says("One run for each experiment and seed; tables average over them.")]
    base: Annotated[ExperimentRow, says("Values that replace the base model's, before the division.")]
    experiments: Annotated[Rowsets, says("The same, for single experiments.")]
    tasks: Annotated[dict[Name, Task], Meta(min_length=1), says("The translation tasks.")]
    data_of_paper: Maybe[Annotated[bool, says("Whether tables show the distance from the paper's scores.")]] = UNSET
    seeds_of: Maybe[Annotated[dict[Name, Seeds], says("The seeds of single experiments.")]] = UNSET
    rows: Maybe[Annotated[Names, says("The experiments and claims that are trained; all if not given.")]] = UNSET
    decoding: Maybe[Annotated[OwnDecoding, says("Values that replace those of `decoding`.")]] = UNSET
    preparation: Maybe[Annotated[OwnCleaning, says("Values that replace those of `preparation`.")]] = UNSET
    running: Maybe[Annotated[OwnRunning, says("Values that replace those of `running`.")]] = UNSET
    table1: Maybe[Annotated[OwnTable1, says("Values that replace those of `table1`.")]] = UNSET
    probes: Maybe[Annotated[Probes, says("Values that replace those of `probes`.")]] = UNSET
    figures: Maybe[Annotated[Figures, says("Sentences of Figures 3 to 5.")]] = UNSET
    parsing: Maybe[Annotated[OwnParsing, says("The rows of Table 4.")]] = UNSET


class Source(Keys):
    """A file: a `download` or a `path`."""

    download: Maybe[Annotated[Name, says("One of `downloads`.")]] = UNSET
    path: Maybe[Annotated[FilePath, says("A file on this machine.")]] = UNSET

    FORMS: ClassVar = ("path", "download")


class File(Source):
    """A `download` or a `path`, unpacked if its name ends in .gz."""

    member: Maybe[Annotated[Text, says("Path within an archive, unpacked if it ends in .gz.")]] = UNSET
    format: Maybe[Annotated[Literal["sgm"], says("WMT's SGML; plain text has no format.")]] = UNSET


class Treebank(Source):
    """The Penn Treebank if it has `sections`, GUM if it has `split`, or a file with a tree on each line."""

    split: Maybe[Annotated[Literal["train", "dev", "test", "test2"], says("A heading of GUM's splits.md.")]] = UNSET
    sections: Maybe[Annotated[Sections, says("First and last section of the Wall Street Journal's folder.")]] = UNSET
    sha256: Maybe[Annotated[Sha256, says("SHA-256 of the cleaned trees as they are written, one a line.")]] = UNSET

    FORMS: ClassVar = ("path", "path sections", "path split", "download", "download split")


class Slice(Keys):
    """Sentences of the project's grammar."""

    seed: Annotated[Seed, says("Seed of the endless list of sentences.")]
    skip: Annotated[int, Meta(ge=0, le=10**9), says("Sentences of the list that are passed over.")]
    take: Annotated[int, Meta(ge=1, le=10**9), says("Sentences that are taken then.")]


class Corpus(Keys):
    """Sentences of the project's `grammar`, trees of a `treebank`, or `files`, one for each language."""

    grammar: Maybe[Annotated[Slice, says("Which sentences of the grammar.")]] = UNSET
    treebank: Maybe[Annotated[Treebank, says("Trees, which are written one a line.")]] = UNSET
    files: Maybe[Annotated[dict[Language, File], Meta(min_length=2), says("The file of each language.")]] = UNSET
    lines: Maybe[Annotated[Many, says("Lines that each file must have.")]] = UNSET

    FORMS: ClassVar = ("grammar", "treebank", "files", "treebank lines", "files lines")


class Bytes(Keys):
    """A file from the network: its addresses, and a checksum by which it is known."""

    urls: Annotated[list[Address], Meta(min_length=1), says("Addresses of the same bytes, tried in turn.")]
    sha256: Maybe[Annotated[Sha256, says("Their SHA-256, in lower case.")]] = UNSET
    md5: Maybe[Annotated[Md5, says("Their MD5, where no SHA-256 was published.")]] = UNSET
    size: Maybe[Annotated[Many, says("Number of bytes.")]] = UNSET

    FORMS: ClassVar = ("sha256 size", "md5 size", "md5")


class Download(Bytes):
    """A file from the network. One that its host packs again now and then is `repacked`, and has no checksum."""

    repacked: Maybe[Annotated[bool, says("Whether its contents are checked, not its bytes.")]] = UNSET
    alternatives: Maybe[Annotated[list[Bytes], Meta(min_length=1), says("Other files with the same members.")]] = UNSET

    FORMS: ClassVar = ("sha256 size", "md5 size", "md5", "repacked")


class Config(Keys):
    """Everything that a result depends on; sections (§) are those of "Attention Is All You Need"."""

    scale: Annotated[Name, says("The one of `scales` that is built.")]
    mirror: Annotated[str, says('Folder that is read as <mirror>/<host>/<path> instead of the network, or "".')]
    results: Annotated[FilePath, says("Folder of the results: those of a scale lie in a folder of its name.")]
    partial: Annotated[bool, says("Whether tables and page are made from the finished runs, with gaps for others.")]
    recipe: Annotated[Literal[tuple(RECIPES)], says("The paper's settings, or those of its authors' code.")]
    recipes: Annotated[dict[Name, dict[str, Any]], says("What a recipe other than the paper's lays over all of this.")]
    base: Annotated[Base, says("The base model.")]
    experiments: Annotated[Rowsets, says("The rows of Table 3, as differences from `base`.")]
    claims: Annotated[Rowsets, says("The trained rows of Table 5, as differences from `base`.")]
    optimizer: Annotated[Optimizer, says("Adam (§5.3).")]
    table1: Annotated[Table1, says("Sizes of Table 1's layers (§4).")]
    probes: Annotated[Probes, says("Analyses of trained runs for Table 5.")]
    decoding: Annotated[Decoding, says("Beam search (§6.1).")]
    parsing: Annotated[Parsing, says("Constituency parsing (§6.3).")]
    preparation: Annotated[Cleaning, says("Cleaning and tokenisation of text (§5.1).")]
    running: Annotated[Running, says("Log, dev scores and saved states of a training.")]
    attention: Annotated[Viewer, says("The page's attention viewer.")]
    report: Annotated[Report, says("The page.")]
    scales: Annotated[dict[ScaleName, Scale], Meta(min_length=1), says("What can be built.")]
    corpora: Annotated[dict[Name, Corpus], Meta(min_length=1), says("Texts and treebanks.")]
    downloads: Annotated[dict[Name, Download], says("Files from the network, by their names in resources/downloads.")]


INTRODUCTION = """\
# Configuration

[config.yaml](../config.yaml) holds everything that a result depends on. To change settings, write only the changes to
a file of your own, and name it with `--configfile`; `--config scale=multi30k` changes a single key. Before anything
runs, a wrong, unknown or missing key is refused in one line that names it.

[Your own corpus](../docs/own-corpus.md) shows a whole configuration. Every key is below, with its values and whether it
is needed. `NAME` stands for a name that you choose. Sections (§) are those of "Attention Is All You Need".

<!-- From transformer/config/schema.py, by `python -m transformer.config.schema > config/README.md`. -->
"""
HEADER = "| Key | Meaning | Value | Needed |\n| --- | --- | --- | --- |\n"
BOUNDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}


def manual() -> str:
    """Return the manual in Markdown: a table for each struct, in the order in which keys name them."""
    sections = msgspec.json.schema(Config)["$defs"]
    titles, parts = ["Config"], [INTRODUCTION]
    for title in titles:  # grows meanwhile
        section = sections[title]
        parts.append(f"\n## {title}\n\n{html.escape(section['description'], quote=False)}\n\n{HEADER}")
        for key, node in section["properties"].items():
            needed = "yes" if key in section["required"] else "no"
            meaning = html.escape(node.get("description", ""), quote=False)
            parts.append(f"| `{key}` | {meaning} | {value(node, titles)} | {needed} |\n")
    return "".join(parts)


def value(node: dict[str, Any], titles: list[str]) -> str:
    """Return in words which values a key takes; adds the title of a section that it has."""
    match node:
        case {"$ref": place} | {"allOf": [{"$ref": place}]}:
            title = place.removeprefix("#/$defs/")
            if title not in titles:
                titles.append(title)
            return f"keys as in [{title}](#{title.lower().replace(' ', '-')})"
        case {"anyOf": choices}:
            return " or ".join(value(choice, titles) for choice in choices)
        case {"enum": values}:
            return " or ".join(f"`{one}`" for one in values)
        case {"type": "object"}:
            return f"by `NAME`: {value(node['additionalProperties'], titles)}" if len(node) > 1 else "any of these keys"
        case {"type": "array"}:
            count = f" of {len(node['prefixItems'])}" if "prefixItems" in node else ""
            return f"list{count}, each {value(node.get('items') or node['prefixItems'][0], titles)}"
        case {"type": "boolean"}:
            return "true or false"
        case {"type": "integer" | "number" as kind}:
            limits = "".join(f" {word} {node[key]:,}" for key, word in BOUNDS.items() if key in node)
            return f"a {'whole ' * (kind == 'integer')}number{limits}"
    return node.get("title", "text")


if __name__ == "__main__":
    print(manual(), end="")
