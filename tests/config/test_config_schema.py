"""The schema takes config.yaml as it stands and refuses each wrong, missing or unknown key by its name and place."""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

ROOT = Path(__file__).parents[2]
SCHEMA = yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text("utf-8"))
CONFIG = json.loads(json.dumps(yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))))  # no value in two places

EXPERIMENT = ("experiments", "N-2")
DEMO = ("scales", "demo")
TASK = (*DEMO, "tasks", "en-de")
PARSER = (*DEMO, "parsing", "tasks", "supervised")
SILVER = (*DEMO, "parsing", "tasks", "semi-supervised")
MADE = ("corpora", "grammar-train")
READ = ("corpora", "newstest2014.de-en")
GUM = ("corpora", "gum-dev", "treebank")
WSJ = ("corpora", "wsj-dev", "treebank")
FILE = (*READ, "files", "de")
DOWNLOAD = ("downloads", "wmt17-dev.tgz")
EXAMPLES = (
    EXPERIMENT,
    DEMO,
    TASK,
    PARSER,
    SILVER,
    MADE,
    READ,
    GUM,
    WSJ,
    FILE,
    DOWNLOAD,
)  # what holds for one of a kind holds for all
NAMES = {"scales", "tasks", "corpora", "downloads", "experiments", "files"}  # their keys are names, not settings


def at(tree: Any, path: tuple) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def changed(path: tuple, value: Any) -> dict:
    """config.yaml with `value` at `path`."""
    config = copy.deepcopy(CONFIG)
    at(config, path[:-1])[path[-1]] = value
    return config


def without(path: tuple) -> dict:
    """config.yaml without the key at `path`."""
    config = copy.deepcopy(CONFIG)
    del at(config, path[:-1])[path[-1]]
    return config


def errors(config: dict) -> list[tuple[str, str]]:
    """Where and what, for every fault that the schema finds."""
    return [(error.json_path, error.message) for error in Draft202012Validator(SCHEMA).iter_errors(config)]


def json_path(path: tuple) -> str:
    """`path` as jsonschema writes it."""
    steps = (f"[{key}]" if isinstance(key, int) else f".{key}" if key.isidentifier() else f"['{key}']" for key in path)
    return "$" + "".join(steps)


def mappings(path: tuple = ()) -> list[tuple]:
    """Paths of the mappings of config.yaml, this one and those below, only the EXAMPLES of those that have names."""
    below = [(*path, key) for key, value in at(CONFIG, path).items() if isinstance(value, dict)]
    if path and path[-1] in NAMES:
        below = [child for child in below if any(example[: len(child)] == child for example in EXAMPLES)]
    return [path, *(mapping for child in below for mapping in mappings(child))]


NAMED = [path for path in mappings() if path and path[-1] in NAMES]
CLOSED = [path for path in mappings() if path not in NAMED]
SETTINGS = [(*path, key) for path in CLOSED for key in at(CONFIG, path)]
ROWS = (EXPERIMENT, *((*DEMO, key) for key in ("base", "running")), ("parsing", "parser"), (*DEMO, "parsing", "parser"))
DIFFERENCES = [path for path in SETTINGS if path[:-1] in ROWS]
OPTIONAL = [
    *DIFFERENCES,
    (*DEMO, "parsing"),
    (*SILVER, "silver"),
    (*GUM, "split"),
    (*GUM, "sha256"),
    (*WSJ, "sections"),
    *((*bank[:-1], "lines") for bank in (GUM, WSJ)),
    (*DEMO, "running"),
    (*DEMO, "figures"),
    *((*DEMO, "figures", f"figure{number}") for number in (3, 4, 5)),
    (*READ, "lines"),
    (*FILE, "member"),
    (*FILE, "format"),
    (*DOWNLOAD, "alternatives"),
]


def test_config_yaml_is_accepted():
    Draft202012Validator.check_schema(SCHEMA)
    assert errors(CONFIG) == []


def test_schema_sets_nothing_and_describes_each_key_in_one_sentence():
    def nodes(tree: Any) -> Iterator[dict]:
        if isinstance(tree, dict):
            yield tree
            for key, value in tree.items():
                if key != "if":  # which asks and says nothing
                    yield from nodes(value)

    assert not any("default" in node for node in nodes(SCHEMA))
    for node in nodes(SCHEMA):
        for key, schema in node.get("properties", {}).items():
            assert re.fullmatch(r"[A-Z](?!.*\. ).*\.", schema["description"]), key


@pytest.mark.parametrize("path", CLOSED, ids=json_path)
def test_unknown_key(path: tuple):
    ((where, message),) = errors(changed((*path, "surprise"), 0))
    assert where == json_path(path)
    assert "'surprise' was unexpected" in message


@pytest.mark.parametrize("path", NAMED, ids=json_path)
def test_name_of_nothing(path: tuple):
    ((where, message),) = errors(changed((*path, "surprise"), 0))
    assert (where, message) == (json_path((*path, "surprise")), "0 is not of type 'object'")


@pytest.mark.parametrize("path", [path for path in SETTINGS if path not in OPTIONAL], ids=json_path)
def test_missing_key(path: tuple):
    ((where, message),) = errors(without(path))
    missing = "files" if path[-1] in ("grammar", "treebank") else path[-1]  # any other corpus has files
    assert (where, message) == (json_path(path[:-1]), f"{missing!r} is a required property")


def test_what_is_packed_anew_has_no_size():
    ((where, message),) = errors(changed(("downloads", "gum.tar.gz", "size"), 9))
    assert where == "$.downloads['gum.tar.gz']"
    assert "'size' was unexpected" in message


@pytest.mark.parametrize("path", OPTIONAL, ids=json_path)
def test_optional_key(path: tuple):
    assert errors(without(path)) == []


@pytest.mark.parametrize("path", SETTINGS, ids=json_path)
def test_key_without_a_value(path: tuple):
    ((where, message),) = errors(changed(path, None))
    assert where == json_path(path)
    assert message.startswith("None is not ")


COUNTS = [
    *[("base", key) for key in ("N", "d_model", "d_ff", "h", "d_k", "d_v", "steps", "warmup_steps", "source_tokens")],
    *[("base", key) for key in ("target_tokens", "checkpoint_every", "averaged_checkpoints")],
    *[("decoding", key) for key in ("beam", "batch_tokens")],
    *[("preparation", key) for key in ("max_words", "vocabulary_sentences")],
    *[("running", key) for key in ("log_every", "evaluate_every", "save_every")],
    ("scatter",),
    ("scales", "paper", "scatter"),
    (*EXPERIMENT, "N"),
    (*DEMO, "width"),
    (*DEMO, "depth"),
    (*DEMO, "base", "steps"),
    (*DEMO, "experiments", "big", "steps"),
    (*MADE, "grammar", "take"),
    (*READ, "lines"),
    (*DOWNLOAD, "size"),
]


@pytest.mark.parametrize("path", COUNTS, ids=json_path)
@pytest.mark.parametrize("value", [0, 1.5, True, "1"])
def test_count(path: tuple, value: Any):
    """A whole number, 1 or more."""
    ((where, message),) = errors(changed(path, value))
    assert where == json_path(path)
    assert message.startswith(repr(value))


WRONG = [
    (("scale",), "../demo"),
    (("scale",), ""),
    ((*DEMO, "seeds"), []),
    ((*DEMO, "seeds"), [1, 1]),
    ((*DEMO, "seeds", 0), -1),
    ((*DEMO, "seeds", 0), 2**32),
    *[(("base", key), value) for key in ("P_drop", "P_drop_attention", "epsilon_ls") for value in (-0.1, 1, 1.0)],
    (("base", "P_drop"), "0.1"),
    *[(("running", "bleu_sentences"), value) for value in (-1, 1.5, True, "1")],
    (("base", "positions"), "sinusoidal"),
    (("preparation", "escape"), "yes"),
    (("mirror",), 1),
    (("base", "rate"), 0),
    (("optimizer", "beta1"), 1),
    (("optimizer", "beta2"), -0.5),
    (("optimizer", "epsilon"), 0),
    (("optimizer", "epsilon"), "1e-9"),  # YAML 1.1 reads a number without a point as text
    (("decoding", "alpha"), -0.6),
    (("decoding", "extra_length"), -1),
    (("preparation", "max_ratio"), 0.9),
    ((*DEMO, "label"), ""),
    ((*DEMO, "base", "P_drop"), 1),
    ((*TASK, "source"), "e.n"),  # {corpus}.{language} must be read back
    ((*TASK, "train"), ["grammar-train", "grammar-train"]),
    ((*TASK, "train", 0), "a/b"),
    ((*TASK, "vocabulary"), 3),
    ((*TASK, "embedding_rows"), 65536),
    ((*MADE, "grammar", "seed"), -1),
    ((*MADE, "grammar", "skip"), -1),
    ((*FILE, "format"), "sgml"),
    ((*FILE, "member"), ""),
    ((*DOWNLOAD, "urls", 0), "ftp://host/file"),
    ((*DOWNLOAD, "sha256"), "9D5FF04A28496B7796904EA65E50E3837BAB14DBDCA88B1E063105F17513DCA9"),
]


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_wrong_value(path: tuple, value: Any):
    ((where, message),) = errors(changed(path, value))
    assert where == json_path(path)
    assert message.startswith(repr(value))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (("experiments",), "a/b"),
        (("experiments",), 1),
        (("scales",), "record"),
        ((*DEMO, "tasks"), ".hidden"),
        (("corpora",), "a b"),
        (("downloads",), "../x"),
        ((*READ, "files"), False),  # what YAML 1.1 makes of `no:`
    ],
)
def test_name_that_cannot_be_part_of_a_path(path: tuple, name: Any):
    good = next(iter(at(CONFIG, path).values()))
    ((where, message),) = errors(changed((*path, name), good))
    assert where == json_path(path)
    assert repr(name) in message


@pytest.mark.parametrize("file", [{"path": "/data/text.en"}, {"path": "a.tar", "member": "x.gz", "format": "sgm"}])
def test_file_of_ones_own(file: dict):
    assert errors(changed(FILE, file)) == []


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (FILE, {"download": "a", "path": "b"}, "'download' was unexpected"),
        (FILE, {"format": "sgm"}, "'download' is a required property"),
        (MADE, CONFIG["corpora"]["grammar-train"] | CONFIG["corpora"]["newstest2013"], "were unexpected"),
        ((*READ, "files"), {"en": {"path": "a"}}, "does not have enough properties"),
    ],
)
def test_corpus_of_no_kind(path: tuple, value: dict, message: str):
    ((where, found),) = errors(changed(path, value))
    assert where == json_path(path)
    assert message in found
