"""One run, resolved: `experiment.yaml` as frozen dataclasses. No torch here.

The workflow gathers what config.yaml says of a run; `resolve` lays the rows over each other, shrinks them to the scale
and `save`s the result. Every later stage `load`s that one file.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from msgspec import Meta

from transformer.config.fidelity import preset
from transformer.config.yamlfile import read_yaml
from transformer.files import InputError, replacing
from transformer.records import Above0, Amount, Count, Positive, converted

UNTRAINED = ("label", "running")  # what no training depends on, of an experiment
Probability = Annotated[float, Meta(ge=0, lt=1)]
PAD, EOS, UNK = 0, 1, 2  # token ids; the decoder starts from PAD, whose embedding is zero: there is no BOS


class Section:
    """A frozen dataclass that reads itself from a mapping and refuses what does not fit."""

    @classmethod
    def read(cls, data: Any, where: str) -> Self:
        """Build from `data`; `where` says in errors whose keys these are. Raises InputError on any mismatch."""
        if not isinstance(data, dict):
            raise InputError(f"{where}: expected a mapping, found {type(data).__name__}")
        fields = {field.name: field for field in dataclasses.fields(cls)}
        for key in [*fields, *data]:
            if key not in fields or (key not in data and fields[key].default is dataclasses.MISSING):
                raise InputError(f"{where}: {'missing' if key in fields else 'unknown'} key {key!r}")
        values = {}
        for key in filter(data.__contains__, fields):
            kind, place = fields[key].type, f"{where}: {key}"
            is_section = isinstance(kind, type) and issubclass(kind, Section)
            values[key] = kind.read(data[key], place) if is_section else converted(data[key], kind, place)
        try:
            return cls(**values)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None


def paper_values(section: type[Section]) -> dict[str, tuple]:
    """Return the options that Table 5 changes in a section: by name the values that the paper has, first that of base.

    A default is the paper's value. `positions` has none: it is part of every training's digest.
    """
    fields = dataclasses.fields(section)
    values = {field.name: field.metadata.get("paper", (field.default,)) for field in fields}
    return {name: papers for name, papers in values.items() if papers[0] is not dataclasses.MISSING}


def contradiction(row: Mapping[str, Any]) -> str | None:
    """Return what is wrong with two options that mean nothing together, or None; what a row lacks is the paper's."""
    if row.get("attention") == "additive" and row.get("scaled") is False:
        return "scaled: expected true with attention 'additive', which has no product to scale, found false"
    if row.get("positions") == "words" and row.get("tied") is False:
        return "tied: expected true with positions 'words', whose embeddings share their words, found false"
    return None


@dataclass(frozen=True)
class Model(Section):
    """The model (§3 and Table 3), in the paper's symbols."""

    N: Positive
    d_model: Positive
    d_ff: Positive
    h: Positive
    d_k: Positive
    d_v: Positive
    P_drop: Probability
    P_drop_attention: Probability
    positions: str = field(metadata={"paper": ("sinusoid", "learned")})
    embedding_rows: Positive
    output_rows: Positive  # the first rows of the embedding, which the softmax covers: all, but for the parser
    sinusoids: str  # this and the next: see fidelity.py
    target_spaces: int
    # What Table 5 changes, to test why the paper has it; what is not given is the paper's.
    norm: str = "post"  # where LayerNorm stands: after the sum of a sub-layer and its residual, or before the sub-layer
    residual: bool = True  # §3.1
    scaled: bool = True  # §3.2.1 dot products are divided by sqrt(d_k)
    attention: str = "dot"  # §3.2.1
    tied: bool = True  # §3.4 one matrix for both embeddings and the softmax

    def __post_init__(self):
        choices = {
            "positions": ("sinusoid", "learned", "words", "none"),
            "sinusoids": ("interleaved", "concatenated"),
            "target_spaces": (0, 32),
            "norm": ("post", "pre"),
            "attention": ("dot", "additive"),
        }
        if self.output_rows > self.embedding_rows:
            raise InputError(f"output_rows: expected {self.embedding_rows} at most, found {self.output_rows}")
        for key, allowed in choices.items():
            if getattr(self, key) not in allowed:
                raise InputError(f"{key}: expected {' or '.join(map(str, allowed))}, found {getattr(self, key)!r}")
        if problem := contradiction(vars(self)):
            raise InputError(problem)

    @property
    def departures(self) -> str:
        """Return the options that no model of the paper has, such as "norm pre, tied false"; or an empty text."""
        values = {key: (getattr(self, key), papers) for key, papers in paper_values(Model).items()}
        return ", ".join(f"{key} {str(own).lower()}" for key, (own, papers) in values.items() if own not in papers)


@dataclass(frozen=True)
class Training(Section):
    """The training (§5): how long, how fast, on how much."""

    steps: Positive
    rate: Above0  # times equation 3
    warmup_steps: Positive
    source_tokens: Positive
    target_tokens: Positive
    checkpoint_every: Positive
    averaged_checkpoints: Positive
    epsilon_ls: Probability
    beta1: Probability
    beta2: Probability
    epsilon: Above0
    warmup: bool = True  # false: the rate begins at its peak, and falls after warmup_steps as ever (Table 5)

    def __post_init__(self):
        least = (self.averaged_checkpoints - 1) * self.checkpoint_every + 1
        if self.steps < least:
            raise InputError(
                f"steps: expected {least} at least, for {self.averaged_checkpoints} checkpoints, found {self.steps}"
            )


@dataclass(frozen=True)
class Preparation(Section):
    """The preparation of text (§5.1): how it becomes words."""

    normalize_punctuation: bool
    escape: bool
    max_words: Positive
    max_ratio: Amount
    vocabulary_sentences: Positive
    decapitalize: bool = False  # the first letter of a sentence is written small, and of a translation large again


@dataclass(frozen=True)
class Running(Section):
    """The watch over a training; no result depends on it."""

    log_every: Positive
    evaluate_every: Positive
    bleu_sentences: Count
    save_every: Positive


@dataclass(frozen=True)
class Decoding(Section):
    """Beam search (§6.1), kept beside the experiment, so that another beam trains nothing again."""

    beam: Positive
    alpha: Amount
    extra_length: Count
    batch_tokens: Positive


@dataclass(frozen=True)
class Experiment(Section):
    """One run: what is trained, on what, with which seed."""

    scale: str
    label: str
    task: str
    experiment: str
    seed: Count
    fidelity: str  # the preset (fidelity.py) that some of the model's values are from
    source: str
    target: str
    model: Model
    training: Training
    preparation: Preparation
    running: Running

    def digest(self, data_sha256: str) -> str:
        """Return a training's identity: all that changes its result, with the checksum of the data it learns from.

        A value that is a field's default is left out, so that a new option leaves older trainings what they are.
        """
        training = given(self) | {"data": data_sha256}
        for key in UNTRAINED:
            del training[key]
        return hashlib.sha256(json.dumps(training, sort_keys=True).encode()).hexdigest()


def given(section: Section) -> dict[str, Any]:
    """Return the section as a mapping, without the values that are the defaults of their fields."""
    values = {field.name: getattr(section, field.name) for field in dataclasses.fields(section)}
    defaults = {field.name: field.default for field in dataclasses.fields(section)}
    return {
        key: given(value) if isinstance(value, Section) else value
        for key, value in values.items()
        if value != defaults[key]
    }


def resolve(parts: dict) -> Experiment:
    """Return the run that `parts` describes: `rows` laid over each other in order, then divided by `width` and `depth`.

    `parts` has the keys of `Experiment` but for model and training, and rows, optimizer, width, depth, embedding_rows,
    output_rows.
    """
    parts = dict(parts)
    for key in ("experiment", "fidelity", "rows", "width", "depth", "optimizer", "embedding_rows", "output_rows"):
        if key not in parts:
            raise InputError(f"parts of a run: missing key {key!r}")
    row = {key: value for row in parts.pop("rows") for key, value in row.items()}
    row |= parts.pop("optimizer") | {key: parts.pop(key) for key in ("embedding_rows", "output_rows")}
    row |= dataclasses.asdict(preset(parts["fidelity"]))
    for divisor, keys in (("width", ("d_model", "d_ff", "d_k", "d_v")), ("depth", ("N",))):
        by = parts.pop(divisor)
        for key in filter(row.__contains__, keys):
            where = f"{parts['experiment']}: {key}"
            if converted(row[key], int, where) % by:
                raise InputError(f"{where}: {row[key]} cannot be divided by {by}")
            row[key] //= by
    sections = {}
    for name, section in (("model", Model), ("training", Training)):
        names = [field.name for field in dataclasses.fields(section)]
        sections[name] = {key: row.pop(key) for key in names if key in row}
    if row:
        raise InputError(f"{parts['experiment']}: unknown key {next(iter(row))!r}")
    return Experiment.read(parts | sections, parts["experiment"])


def load(path: str | Path, section: type[Section] = Experiment) -> Any:
    """Read a YAML file as `section`. Raises InputError naming the file and the key."""
    return section.read(read_yaml(path), str(path))


def save(section: Section, path: str | Path) -> None:
    """Write `section` as YAML, in the order of its fields."""
    with replacing(path) as file:
        yaml.safe_dump(dataclasses.asdict(section), file, sort_keys=False)
