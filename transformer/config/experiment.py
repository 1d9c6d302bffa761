"""Structs of `experiment.yaml`, the settings of one run. This module does not import torch.

scales.py merges the rows of config.yaml, divides the sizes by the scale's width and depth and creates an `Experiment`.
`save` writes it, and every later step `load`s that file. config.yaml has the same bounds and descriptions (schema.py).
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml
from msgspec import UNSET, Meta, UnsetType

from transformer.layout import Run
from transformer.storage.checksums import read_trained, require_sums
from transformer.storage.files import InputError, replacing
from transformer.storage.reading import Section, read_yaml, structured
from transformer.storage.records import Exported, averaged_steps, read_json

PAD, EOS, UNK = 0, 1, 2  # token ids. There is no BOS: the decoder starts from PAD, with an embedding of zero
POSITIONS = 1024  # maximum length of a sequence, and number of learned positions in row E. The paper gives no number

# The maxima catch typing errors, for example an extra digit.
Small = Annotated[int, Meta(ge=1, le=10_000)]
Large = Annotated[int, Meta(ge=1, le=100_000)]
Width = Annotated[int, Meta(ge=1, le=1_000_000)]  # the paper's maximum is 4096
Rows = Annotated[int, Meta(ge=1, le=65_535)]  # files store an id in 16 bits
Steps = Annotated[int, Meta(ge=1, le=99_999_999)]  # file names have eight digits; the paper's longest has 300,000
Tokens = Annotated[int, Meta(ge=1, le=100_000_000)]  # the paper's batches have 25,000
Many = Annotated[int, Meta(ge=1, le=10**15)]  # sentences or bytes
Ratio = Annotated[float, Meta(ge=1, le=1_000_000)]
FilePath = Annotated[str, Meta(pattern=r"^[^{}\n]+\Z", title="a path")]  # Snakemake reads braces as wildcards
Seed = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Tokenizing = Literal["moses", "none", "given"]
Architecture = Literal["transformer", "lstm", "conv"]
_Probability = Annotated[float, Meta(ge=0, lt=1)]
RECIPES = {"paper": "paper-text", "tensor2tensor": "tensor2tensor"}  # `recipe` in config.yaml: `fidelity` of a run
RECIPE_OF = {fidelity: recipe for recipe, fidelity in RECIPES.items()}


# Keys of only one architecture. It needs all of them that have no default. Other architectures must not have them.
PARTS = {
    "transformer": (
        *("d_ff", "h", "d_k", "d_v", "P_drop_attention", "positions", "sinusoids", "target_spaces"),
        *("norm", "residual", "scaled", "attention", "tied", "P_drop_relu"),
    ),
    "lstm": (),
    "conv": ("k",),
}


def described(text: str) -> Meta:
    return Meta(description=text)


def _as(key: str) -> Any:
    """Return a field with the name `key` in files. The files of recorded runs keep this name."""
    return msgspec.field(name=key)


def contradiction(row: dict[str, Any]) -> tuple[str, str] | None:
    """Return an option that contradicts another option, and the reason. A missing option has the paper's value."""
    if row.get("attention") == "additive" and row.get("scaled") is False:
        return "scaled", "expected true because attention 'additive' has no dot product to scale, found false"
    if row.get("positions") == "words" and row.get("tied") is False:
        return "tied", "expected true because positions 'words' needs shared embeddings, found false"
    return None


class Model(Section, kw_only=True):
    """The model (§3 and Table 3) in the paper's symbols: a Transformer or one of two other architectures."""

    architecture: Annotated[
        Architecture,
        described("The paper's model, or a model for comparison: GNMT (`lstm`) or ConvS2S (`conv`)."),
    ] = "transformer"
    N: Annotated[Small, described("Layers in the encoder and in the decoder (§3.1).")]
    d_model: Annotated[Width, described("Width of embeddings and of every sub-layer's output (§3.1).")]
    d_ff: Annotated[Width, described("Inner width of the feed-forward networks (§3.3).")] | UnsetType = UNSET
    h: Annotated[Small, described("Attention heads (§3.2.2).")] | UnsetType = UNSET
    d_k: Annotated[Width, described("Width of a query and of a key per head (§3.2.2).")] | UnsetType = UNSET
    d_v: Annotated[Width, described("Width of a value per head (§3.2.2).")] | UnsetType = UNSET
    k: Annotated[Small, described("Width of a convolution's kernel (§4); `conv` only.")] | UnsetType = UNSET
    P_drop: Annotated[_Probability, described("Dropout on sub-layer outputs and on the embedding sums (§5.4).")]
    P_drop_attention: Annotated[_Probability, described("Dropout on attention weights (§6.3).")] | UnsetType = UNSET
    positions: (
        Annotated[
            Literal["sinusoid", "learned", "words", "none"],
            described("Encoding of positions (§3.5, Table 3 row E). `words` adds each word's number in the sentence."),
        ]
        | UnsetType
    ) = UNSET
    embedding_rows: Rows
    output_rows: Rows  # the softmax covers the first rows of the embedding: all rows, except for a parser
    sinusoids: (
        Annotated[
            Literal["interleaved", "concatenated"],
            described("Order: sine and cosine alternate (§3.5), or all sines, then all cosines."),
        ]
        | UnsetType
    ) = UNSET
    target_spaces: (
        Annotated[
            Literal[0, 32],
            described("Rows of a learned table; the target language's row is added to the input. 0: none (the paper)."),
        ]
        | UnsetType
    ) = UNSET
    # Table 5's ablations change these options. The defaults are the paper's values.
    norm: Annotated[
        Literal["post", "pre", "batch"],
        described("`post`: LayerNorm after the residual sum (§3.1), `pre`: before a sub-layer, `batch`: batch norm."),
    ] = "post"
    residual: Annotated[bool, described("Whether a sub-layer's input is added to its output (§3.1).")] = True
    scaled: Annotated[bool, described("Whether dot products are divided by sqrt(d_k) (§3.2.1).")] = True
    attention: Annotated[
        Literal["dot", "additive"], described("Compatibility function of queries and keys (§3.2.1).")
    ] = "dot"
    tied: Annotated[bool, described("Whether both embeddings and the softmax share one matrix (§3.4).")] = True
    # Not in older files:
    P_drop_relu: Annotated[_Probability, described("Dropout inside feed-forward networks. Not in the paper.")] = 0.0

    def faults(self) -> Iterator[tuple[str, str]]:
        fields = {field.name: field for field in msgspec.structs.fields(self)}
        for architecture, keys in PARTS.items():
            for key in keys:
                value, own = getattr(self, key), architecture == self.architecture
                if own and value is UNSET:
                    yield key, f"missing, but architecture {self.architecture!r} needs it"
                if not own and value != fields[key].default:
                    yield key, f"expected no value with architecture {self.architecture!r}, found {value!r}"
        if self.architecture == "lstm" and self.N < 2:
            yield "N", f"expected at least 2, because layer 2 of an 'lstm' reads the context, found {self.N}"
        if fault := contradiction(msgspec.structs.asdict(self)):
            yield fault


class Training(Section):
    """The training (§5): its length, its batches and its optimizer."""

    steps: Annotated[Steps, described("Training steps (§5.2).")]
    learning_rate_scale: Annotated[
        float, Meta(gt=0, le=1_000_000), described("Factor on the learning rate of equation 3 (§5.3).")
    ] = _as("rate")
    warmup_steps: Annotated[Steps, described("Steps before the learning rate falls (§5.3).")]
    source_tokens: Annotated[Tokens, described("Maximum number of source tokens in a batch (§5.1).")]
    target_tokens: Annotated[Tokens, described("Maximum number of target tokens in a batch (§5.1).")]
    checkpoint_every: Annotated[Steps, described("Steps between checkpoints (§6.1).")]
    averaged_checkpoints: Annotated[Small, described("Number of last checkpoints in the average (§6.1).")]
    epsilon_ls: Annotated[_Probability, described("Label smoothing (§5.4).")]
    beta1: Annotated[_Probability, described("Decay of the mean of the gradient.")]
    beta2: Annotated[_Probability, described("Decay of the mean of the squared gradient.")]
    epsilon: Annotated[float, Meta(gt=0, le=1), described("Added to the denominator. YAML needs the point in 1.0e-9.")]
    warmup: Annotated[bool, described("Whether the learning rate rises during warmup_steps (§5.3).")] = True
    # Not in older files:
    max_length: Annotated[Small | None, described("Maximum number of subwords in a training sentence.")] = None
    patience: Annotated[
        Small | None,
        described(
            "Training ends after this number of checkpoints without a better dev perplexity. These checkpoints are "
            "deleted."
        ),
    ] = None
    initial_weights: Annotated[
        FilePath | None, described("Initial weights: average.safetensors of a run with the same vocabulary.")
    ] = None

    @property
    def budgets(self) -> tuple[int, int]:
        """Return the maximum source and target tokens of a batch."""
        return self.source_tokens, self.target_tokens

    @property
    def longest(self) -> int:
        """Return the maximum number of tokens on a side of a training pair."""
        return min(self.max_length or POSITIONS, POSITIONS)

    def faults(self) -> Iterator[tuple[str, str]]:
        least = (self.averaged_checkpoints - 1) * self.checkpoint_every + 1
        if self.steps < least:
            checkpoints = f"for {self.averaged_checkpoints} checkpoints"
            yield "steps", f"expected at least {least} {checkpoints}, found {self.steps}"


class Preprocessing(Section):
    """The preprocessing of text before the vocabulary is learned (§5.1)."""

    normalize_punctuation: Annotated[
        bool, described("Whether Moses' normaliser of punctuation runs before its tokeniser.")
    ]
    escape: Annotated[bool, described("Whether the Moses tokeniser escapes characters: ' becomes &apos;.")]
    max_words: Annotated[Large, described("Maximum number of words per side. Longer training pairs are dropped.")]
    max_ratio: Annotated[Ratio, described("Maximum ratio of the word counts of a training pair.")]
    vocabulary_sentences: Annotated[Many, described("Maximum number of lines for the vocabulary, evenly spaced.")]
    decapitalize: Annotated[bool, described("Whether each sentence begins with a lower-case letter.")] = False
    # Not in older files:
    lowercase: Annotated[bool, described("Whether all text is in lower case.")] = False
    max_piece_length: Annotated[
        Annotated[int, Meta(ge=2, le=512)] | None,
        described("Maximum number of characters in a subword. The default is SentencePiece's 16."),
    ] = None
    tokenizer: Annotated[
        Tokenizing | None,
        described("`moses` splits words; `none` is for raw text, `given` for Moses tokens. Default: by language."),
    ] = None


class Logging(Section):
    """Intervals of log lines, dev scores and saved states. They change no result."""

    log_every: Annotated[Steps, described("Steps between lines of the log.")]
    evaluate_every: Annotated[Steps, described("Steps between dev scores.")]
    bleu_sentences: Annotated[
        int, Meta(ge=0, le=1_000_000), described("Number of dev sentences for BLEU during training; 0 for none.")
    ]
    save_every: Annotated[Steps, described("Steps between resume states.")]


class Decoding(Section):
    """Beam search (§6.1). Its settings have their own file, so that a change of the beam size retrains nothing."""

    beam_size: Annotated[Large, described("Number of hypotheses.")] = _as("beam")
    length_penalty: Annotated[
        float, Meta(ge=0, le=100), described("Exponent alpha of the length penalty; 0 turns the penalty off.")
    ] = _as("alpha")
    extra_length: Annotated[
        int, Meta(ge=0, le=POSITIONS - 1), described("Maximum number of output tokens beyond the input's length.")
    ]
    max_tokens: Annotated[
        Tokens,
        described("Maximum number of source tokens in a batch, larger on a GPU. It affects speed only."),
    ] = _as("batch_tokens")


def changed(decoding: Decoding, changes: Mapping[str, Any]) -> Decoding:
    """Return changed settings. `changes` may use the keys of config.yaml or of experiment.yaml. Raises InputError."""
    names = {field.name: field.encode_name for field in msgspec.structs.fields(Decoding)}
    changes = {names.get(key, key): value for key, value in changes.items()}
    return structured(msgspec.to_builtins(decoding) | changes, Decoding, "decoding") if changes else decoding


class Experiment(Section):
    """Settings of one run: model, training data, training and seed."""

    scale: str
    label: str
    task: str
    experiment: str
    seed: Seed
    fidelity: str
    source: str
    target: str
    model: Model
    training: Training
    preprocessing: Preprocessing = _as("preparation")
    logging: Logging = _as("running")

    @property
    def name(self) -> str:
        """Return task/experiment/seed."""
        return f"{self.task}/{self.experiment}/{self.seed}"

    def digest(self, data_sha256: str, initial_sha256: str | None = None) -> str:
        """Return a training's digest: the hash of all settings that change its result, its data and initial weights."""
        training = given(self) | {"data": data_sha256}  # defaults are left out, so a new option keeps older digests
        for key in ("label", "running"):  # no training depends on them
            del training[key]
        if initial_sha256:  # replaces the path of the initial weights, because the path may change
            training["training"] |= {"initial_weights": initial_sha256}
        return hashlib.sha256(json.dumps(training, sort_keys=True).encode()).hexdigest()


def given(section: Section) -> dict[str, Any]:
    """Return the section as a mapping without default values."""
    pairs = ((field, getattr(section, field.name)) for field in msgspec.structs.fields(section))
    values = {field.encode_name: value for field, value in pairs if value != field.default}
    return {key: given(value) if isinstance(value, Section) else value for key, value in values.items()}


def rate(experiment: "Experiment", step: int) -> float:
    """Return equation 3 times the experiment's factor. Without warm-up, the first warmup_steps have the peak rate."""
    training = experiment.training
    step = step if training.warmup else max(step, training.warmup_steps)
    return training.learning_rate_scale * learning_rate(step, experiment.model.d_model, training.warmup_steps)


def learning_rate(step: int, d_model: int, warmup_steps: int) -> float:
    """Return d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5) for step = 1, 2, ... (§5.3, equation 3)."""
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def load(path: str | Path, section: type[Section] = Experiment) -> Any:
    """Read a YAML file as `section`. Raises InputError naming the file and the key."""
    return structured(read_yaml(path), section, path)


def save(section: Section | dict[str, Any], path: str | Path) -> None:
    """Write `section` as YAML, in the order of its fields or keys."""
    with replacing(path) as file:
        yaml.safe_dump(msgspec.to_builtins(section), file, sort_keys=False)


def verified_run(run: Run, *paths: Path) -> Experiment:
    """Return a run's settings. Raises InputError if the settings or these files do not match run.json or export.json.

    Weights may be in another folder, but must belong to the same training.
    """
    experiment, own = load(run.experiment), [path for path in paths if path.parent.resolve() == run.folder.resolve()]
    if run.record.exists():
        record = read_trained(run.record)
        if (found := experiment.digest(record["data_sha256"], record.get("initial_sha256"))) != record["digest"]:
            expected = f"expected digest {record['digest']}, found {found}"
            raise InputError(f"{run.experiment}: these settings do not match {run.record}: {expected}")
        for path in (path for path in paths if path.suffix == run.average.suffix):
            averaged_steps(path, record["digest"])
        require_sums(run.record, record.get("files", {}), own)
    if run.exported.exists():
        sums = read_json(run.exported, Exported)["sha256"]
        require_sums(run.exported, sums, [run.experiment, run.decoding, run.record, *own])
    return experiment
