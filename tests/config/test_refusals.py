"""Each wrong configuration that is refused, with the whole line that people read, at whichever scale it stands."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.project import own_corpus

from transformer.config import checks, settings
from transformer.config.runs import runs_of_tables
from transformer.config.scales import at
from transformer.config.yamlfile import read_yaml
from transformer.files import InputError

ROOT = Path(__file__).parents[2]

# Two scales beside config.yaml's: `mine` (support/project.py), of a corpus in files, and this one, of treebanks.
TREES = """
corpora:
  ptb-train: {treebank: {path: wsj, sections: [2, 4]}}
  ptb-dev: {treebank: {path: wsj, sections: [22, 22]}}
  ptb-test: {treebank: {path: trees.test}}
scales:
  ptb:
    label: a few sentences
    width: 16
    depth: 2
    seeds: [1]
    base: {}
    experiments: {}
    tasks:
      cs-en: {source: cs, target: en, train: [mine-train], dev: mine-dev, test: mine-dev, vocabulary: 40,
        embedding_rows: 40}
    parsing:
      seeds: [1, 2]
      parser: {}
      tasks:
        alone: &alone {training: WSJ only, label: "WSJ, section 23", train: [ptb-train], dev: ptb-dev, test: ptb-test,
          elsewhere: grammar-test, vocabulary: 60, symbols: 50}
        both: {<<: *alone, training: WSJ and trees of ours, silver: {path: silver.trees, repeat: 3}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the project's config.yaml and the files that both scales read, but for the Penn Treebank."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "config.yaml").symlink_to(ROOT / "config.yaml")
    own_corpus(folder)
    (folder / "trees.yaml").write_text(TREES)
    for name in ("trees.test", "silver.trees", "other.cs"):
        (folder / name).touch()
    return folder


@pytest.fixture(scope="module")
def good(folder) -> dict:
    """The configuration without a fault; no value of it stands in two places."""
    config = yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))
    for name in ("own.yaml", "trees.yaml"):
        config = settings.laid_over(config, read_yaml(folder / name))
    return json.loads(json.dumps(config))


@pytest.fixture(autouse=True)
def inside(folder, monkeypatch) -> None:
    monkeypatch.chdir(folder)


def check(config: dict) -> None:
    """Check a configuration as Snakemake has it checked."""
    checks.check(config)
    checks.check_files(config)


MISSING = object()


def changed(config: dict, changes: dict[str, Any]) -> dict:
    """Return the configuration with other values, or without some; slashes join the keys that lead to one."""
    config = copy.deepcopy(config)
    for path, value in changes.items():
        *above, last = path.split("/")
        place = config
        for key in above:
            place = place[key]
        if value is MISSING:
            del place[last]
        else:
            place[last] = value
    return config


DEMO, EN_DE, EN_CS = "scales/demo", "scales/demo/tasks/en-de", "scales/mine/tasks/en-cs"
ALONE, BOTH = "scales/ptb/parsing/tasks/alone", "scales/ptb/parsing/tasks/both"
GERMAN, GUM, BANK = "corpora/newstest2014.de-en/files/de", "downloads/gum.tar.gz", "gum-train"
IN_EN_CS, IN_ALONE, IN_BOTH = EN_CS.replace("/", "."), ALONE.replace("/", "."), BOTH.replace("/", ".")
IN_GERMAN = GERMAN.replace("/", ".")
PARSER = {"training": "x", "label": "x", "train": ["grammar-train"], "dev": "grammar-dev", "test": "grammar-test"}
PARSER |= {"vocabulary": 9, "symbols": 9}
SLICE = {"grammar": {"seed": 1, "skip": 0, "take": 1}}
MADE = {"text": ["grammar-text"], "parser": "alone", "sentences": 9, "keep": 1, "repeat": 1}  # silver trees
FOLDER, LINE = {"path": "made", "sha256": "0" * 64}, {"path": "a\nb", "sha256": "0" * 64}
OTHER = {"files": {"en": {"path": "./train.en"}, "cs": {"path": "other.cs"}}}  # with a file of mine-train
EUROPARL = {"download": "training-parallel-europarl-v7.tgz", "member": "training/europarl-v7.de-en.en"}
TWICE = "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f"  # multi30k-train.en.gz's sum
COPY = {"urls": ["https://host/copy.gz"], "sha256": TWICE, "size": 568929}
NAME, LANGUAGE, PATH = r"^[A-Za-z0-9][A-Za-z0-9._-]*\\Z", r"^[A-Za-z][A-Za-z0-9_-]*\\Z", r"^[^{}\\n]+\\Z"

SCHEMA = [  # one or two of each kind; nan and infinity are numbers to the schema
    ({"beams": 4}, "top level: Additional properties are not allowed ('beams' was unexpected)"),
    ({f"{EN_DE}/tset": "x"}, "scales.demo.tasks.en-de: Additional properties are not allowed ('tset' was unexpected)"),
    ({f"{GUM}/size": 9}, "downloads.gum.tar.gz: Unevaluated properties are not allowed ('size' was unexpected)"),
    ({f"{GERMAN}/path": "b"}, f"{IN_GERMAN}: Unevaluated properties are not allowed ('download' was unexpected)"),
    ({"mirror": MISSING}, "top level: 'mirror' is a required property"),
    ({"base/N": MISSING}, "base: 'N' is a required property"),
    ({f"{EN_DE}/dev": MISSING}, "scales.demo.tasks.en-de: 'dev' is a required property"),
    ({"corpora/grammar-dev/grammar": MISSING}, "corpora.grammar-dev: 'files' is a required property"),
    ({"downloads/wmt17-dev.tgz/sha256": MISSING}, "downloads.wmt17-dev.tgz: 'sha256' is a required property"),
    ({f"{GERMAN}/download": MISSING}, f"{IN_GERMAN}: 'download' is a required property"),
    ({"base": None}, "base: None is not of type 'object'"),
    ({"base/N": "six"}, "base.N: 'six' is not of type 'integer'"),
    ({"base/N": True}, "base.N: True is not of type 'integer'"),
    ({"base/N": 6.0}, "base.N: 6.0 is not of type 'integer'"),
    ({"base/P_drop": 1.0}, "base.P_drop: 1.0 is greater than or equal to the maximum of 1"),
    ({"base/positions": "learnt"}, "base.positions: 'learnt' is not one of ['sinusoid', 'learned', 'words', 'none']"),
    ({"optimizer/epsilon": "1e-9"}, "optimizer.epsilon: '1e-9' is not of type 'number'"),  # to YAML 1.1 a text
    ({"report/gpu_hour": "cheap"}, "report.gpu_hour: 'cheap' is not one of ['unknown']"),
    ({"report/gpu_hour": -1}, "report.gpu_hour: -1 is less than the minimum of 0"),
    ({"report/energy/pue": 0.9}, "report.energy.pue: 0.9 is less than the minimum of 1"),
    ({"report/energy/gpu_watts": 0}, "report.energy.gpu_watts: 0 is less than or equal to the minimum of 0"),
    ({f"{DEMO}/seeds": [1, 1]}, "scales.demo.seeds: [1, 1] has non-unique elements"),
    ({f"{DEMO}/seeds": [2**32]}, "scales.demo.seeds.0: 4294967296 is greater than the maximum of 4294967295"),
    ({f"{EN_DE}/vocabulary": 3}, "scales.demo.tasks.en-de.vocabulary: 3 is less than the minimum of 4"),
    (
        {f"{GUM}/urls": ["ftp://a/x"]},
        r"downloads.gum.tar.gz.urls.0: 'ftp://a/x' does not match '^https?://[^/\\s]+/\\S+\\Z'",
    ),
    ({"base/P_drop": float("nan")}, "base.P_drop: expected a finite number, found nan"),
    ({"table1/lengths": [8, 9, float("-inf")]}, "table1.lengths.2: expected a finite number, found -inf"),
]
NAMES = [
    ({"scale": "-" * 300}, f"scale: '{'-' * 99} ... {'-' * 51}' does not match '{NAME}'"),  # without the middle
    ({"scale": "../demo"}, f"scale: '../demo' does not match '{NAME}'"),
    ({"scale": "demo\n"}, rf"scale: 'demo\n' does not match '{NAME}'"),
    ({"corpora/x\n": SLICE}, rf"corpora: 'x\n' does not match '{NAME}'"),
    ({"downloads/.hidden": {}}, f"downloads: '.hidden' does not match '{NAME}'"),
    ({"experiments/a b": {}}, f"experiments: 'a b' does not match '{NAME}'"),
    ({"experiments/parser": {}}, "experiments: 'parser' should not be valid under {'const': 'parser'}"),
    ({"scales/record": {}}, "scales: 'record' should not be valid under {'const': 'record'}"),  # is kept in git
    ({f"{EN_DE}/source": "e.n"}, f"scales.demo.tasks.en-de.source: 'e.n' does not match '{LANGUAGE}'"),
    ({"scales/mine/from": {"a/b/1\n": FOLDER}}, r"scales.mine.from: 'a/b/1\n' does not match '^[^/]+/[^/]+/[0-9]+\\Z'"),
    ({"scales/mine/from": {"a/b/1": LINE}}, rf"scales.mine.from.a/b/1.path: 'a\nb' does not match '{PATH}'"),
    ({f"{BOTH}/silver/path": "{x}"}, f"scales.ptb.parsing.tasks.both.silver.path: '{{x}}' does not match '{PATH}'"),
    ({"corpora/ptb-test/treebank/path": "{x}"}, f"corpora.ptb-test.treebank.path: '{{x}}' does not match '{PATH}'"),
    ({"corpora/mine-dev/files/cs/path": "{x}"}, f"corpora.mine-dev.files.cs.path: '{{x}}' does not match '{PATH}'"),
]
REFERENCES = [  # a name in < > stands for the names in that section of config.yaml
    ({"scale": "large"}, "scale: expected one of scales (demo, multi30k, paper, mine, ptb), found 'large'"),
    (
        {"scales/mine/experiments/x": {}},
        "scales.mine.experiments: expected <one of the rows>, found 'x'",
    ),
    ({"scales/mine/seeds_of": {"x": [1]}}, "scales.mine.seeds_of: expected <one of the rows>, found 'x'"),
    (
        {f"{EN_CS}/experiments": {"x": {}}},
        f"{IN_EN_CS}.experiments: expected <one of the rows>, found 'x'",
    ),
    ({f"{EN_CS}/dev": "x"}, f"{IN_EN_CS}: expected one of <corpora>, found 'x'"),
    ({f"{EN_CS}/subsets": {"part": "x"}}, f"{IN_EN_CS}: expected one of <corpora>, found 'x'"),
    ({f"{ALONE}/dev": "x"}, f"{IN_ALONE}: expected one of <corpora>, found 'x'"),
    ({f"{BOTH}/silver": MADE | {"text": ["x"]}}, f"{IN_BOTH}.silver.text: expected one of <corpora>, found 'x'"),
    ({f"{GERMAN}/download": "x"}, f"{IN_GERMAN}: expected one of <downloads>, found 'x'"),
    ({"corpora/gum-dev/treebank/download": "x"}, "corpora.gum-dev.treebank: expected one of <downloads>, found 'x'"),
    (
        {"systems/google-en-de/output/download": "x"},
        "systems.google-en-de.output: expected one of <downloads>, found 'x'",
    ),
    ({"systems/google-en-de/test": "x"}, "systems.google-en-de: expected one of <corpora>, found 'x'"),
    (
        {"systems/google-en-de/target": "cs"},
        "systems.google-en-de: corpus 'newstest2014-opus.de-en' has no 'cs', only en, de",
    ),
    (
        {"scales/mine/measures": {"systems": ["x"], "quotes": {}}},
        "scales.mine.measures.systems: expected one of <systems>, found 'x'",
    ),
    (
        {"scales/mine/measures": {"systems": ["google-en-de"], "quotes": {"gentle": "en"}}},
        "scales.mine.measures.quotes: corpus 'gentle' has no 'en', only trees",
    ),
    ({f"{EN_CS}/target": "de"}, f"{IN_EN_CS}: corpus 'mine-train' has no 'de', only en, cs"),
    ({f"{EN_CS}/dev": "grammar-dev"}, f"{IN_EN_CS}: corpus 'grammar-dev' has no 'cs', only en, de, fr"),
    ({f"{EN_CS}/train": ["gum-train"]}, f"{IN_EN_CS}: corpus 'gum-train' has no 'en', only trees"),
    ({f"{ALONE}/elsewhere": "mine-dev"}, f"{IN_ALONE}: corpus 'mine-dev' has no trees, only en, cs"),
    ({f"{BOTH}/silver": MADE | {"text": [BANK]}}, f"{IN_BOTH}.silver.text: corpus '{BANK}' has no 'en', only trees"),
    (
        {f"{BOTH}/silver": MADE | {"parser": "both"}},
        f"{IN_BOTH}.silver.parser: expected a task without silver (alone), found 'both'",
    ),
    ({f"{DEMO}/parsing/tasks/en-cs": PARSER}, "scales.demo.parsing.tasks: 'en-cs' is a task of scale mine already"),
    ({"scales/mine/from": {"./a/1": FOLDER}}, "scales.mine.from../a/1: expected one of the tasks (en-cs), found '.'"),
    (
        {"scales/mine/from": {"en-cs/x/1": FOLDER}},
        "scales.mine.from.en-cs/x/1: expected one of the experiments (<rows>), found 'x'",
    ),
    ({"claims/big": {"N": 2}}, "claims: expected a name that is none of the experiments, found 'big'"),
    (
        {"claims/additive": {"attention": "additive", "scaled": False}},
        "scales.demo: en-de: additive: model: scaled: expected true with attention 'additive', which has no product to"
        " scale, found false",
    ),
    (
        {"claims/untied": {"tied": False, "positions": "words"}},
        "scales.demo: en-de: untied: model: tied: expected true with positions 'words', whose embeddings share their"
        " words, found false",
    ),
    (
        {f"{DEMO}/base/N": 2},
        "scales.demo: en-de: pre-norm-2N: N: expected 4, twice that of base, as its name says, found 8",
    ),
    (
        {"scale": "multi30k", "scales/multi30k/base/N": 4},
        "scales.multi30k: en-de: pre-norm-2N: N: expected 8, twice that of base, as its name says, found 12",
    ),
    (
        {"claims/wide-2N": {"N": 12}, f"{DEMO}/experiments/wide-2N": {"N": 6}},
        "scales.demo: en-de: wide-2N: N: expected 8, twice that of base, as its name says, found 6",
    ),
    ({"experiments/d_k-16": {"d_k": 20}}, "scales.demo: en-de: d_k-16: d_k: 20 cannot be divided by 8"),
    (
        {"scales/ptb/from": {"alone/base/1": FOLDER}},
        "scales.ptb.from.alone/base/1: expected one of the experiments (parser), found 'base'",
    ),
    (
        {"scales/mine/from": {"en-cs/big/2": FOLDER}},
        "scales.mine.from.en-cs/big/2: expected one of the seeds (1), found '2'",
    ),
    (
        {"scales/mine/from": {"en-cs/big/1": FOLDER}, "scales/mine/seeds_of": {"big": [2, 3]}},
        "scales.mine.from.en-cs/big/1: expected one of the seeds (2, 3), found '1'",
    ),
    ({f"{EN_CS}/embedding_rows": 39}, f"{IN_EN_CS}: vocabulary 40 exceeds embedding_rows 39"),
    ({f"{ALONE}/vocabulary": 65500}, f"{IN_ALONE}: symbols and vocabulary are 65550 together, over 65535"),
    (
        {"scale": "multi30k", "systems/google-en-de/output": {"path": "x.de"}},
        "systems.google-en-de.output: no such file: x.de",
    ),
    ({"scale": "mine", "corpora/mine-dev/files/cs/path": "x.cs"}, "corpora.mine-dev.files.cs: no such file: x.cs"),
    ({"scale": "ptb", "corpora/ptb-test/treebank/path": "x"}, "corpora.ptb-test.treebank: no such file: x"),
    ({"scale": "ptb", f"{BOTH}/silver/path": "x"}, f"{IN_BOTH}.silver: no such file: x"),
]
SPLITS = [  # what is changed; the task, the split and the corpus that is tested on; where that is learned from
    ({"corpora/grammar-dev/grammar/skip": 19999}, "demo.tasks.en-de: dev grammar-dev", "'grammar-train' in train"),
    ({f"{EN_CS}/dev": "mine-train"}, "mine.tasks.en-cs: dev mine-train", "'mine-train' in train"),
    ({f"{EN_CS}/subsets": {"a": "mine-train"}}, "mine.tasks.en-cs: subsets.a mine-train", "'mine-train' in train"),
    ({"corpora/ptb-dev/treebank/sections": [4, 22]}, "ptb.parsing.tasks.alone: dev ptb-dev", "'ptb-train' in train"),
    ({f"{ALONE}/elsewhere": "ptb-train"}, "ptb.parsing.tasks.alone: elsewhere ptb-train", "'ptb-train' in train"),
    (
        {f"{BOTH}/silver": MADE | {"text": ["grammar-test"]}},
        "ptb.parsing.tasks.both: elsewhere grammar-test",
        "'grammar-test' in silver.text",
    ),
    # One file under two names: of a path, of an archive's member, of a download that has two names itself, of trees.
    ({"corpora/mine-dev": OTHER}, "mine.tasks.en-cs: dev mine-dev", "'mine-train' in train: both read train.en"),
    (
        {"corpora/newstest2013/files/en": EUROPARL},
        "paper.tasks.en-de: dev newstest2013",
        f"'europarl-v7.de-en' in train: both read {EUROPARL['member']} in {EUROPARL['download']}",
    ),
    (
        {"downloads/copy.gz": COPY, "corpora/multi30k-val/files/en/download": "copy.gz"},
        "multi30k.tasks.en-de: dev multi30k-val",
        "'multi30k-train' in train: both read multi30k-train.en.gz",
    ),
    (
        {"corpora/ptb-train/treebank": {"path": "./trees.test"}},
        "ptb.parsing.tasks.alone: test ptb-test",
        "'ptb-train' in train",
    ),
    ({f"{BOTH}/silver/path": "trees.test"}, "ptb.parsing.tasks.both: test ptb-test", "'trees.test' in silver.path"),
]
SHARED = [
    (changes, f"scales.{tested.replace(corpus, '')}corpus '{corpus}' shares sentences with {learned}")
    for changes, tested, learned in SPLITS
    for corpus in [tested.split()[-1]]
]


@pytest.mark.parametrize(("changes", "line"), [*SCHEMA, *NAMES, *REFERENCES, *SHARED])
def test_refused_in_one_line(good, changes, line):
    for section in ("experiments", "corpora", "downloads", "systems"):
        line = line.replace(f"<{section}>", f"{section} ({', '.join(good[section])})")
    rows = ", ".join([*good["experiments"], *good["claims"]])
    line = line.replace("<one of the rows>", f"one of experiments and claims ({rows})").replace("<rows>", rows)
    with pytest.raises(InputError) as refused:
        check(changed(good, changes))
    assert str(refused.value) == f"config.yaml: {line}"


@pytest.mark.parametrize(("table", "experiment"), [("table2", "big"), ("why", "dropout-0.0")])
def test_experiments_that_tables_compare_cannot_go(good, table, experiment):
    with pytest.raises(InputError, match=f"experiments: expected '{experiment}', which {table} compares, found base, "):
        check(changed(good, {f"experiments/{experiment}": MISSING}))


@pytest.mark.parametrize(
    ("base", "left_out"),
    [
        ({"attention": "additive"}, {"additive", "unscaled", "unscaled-heads-1"}),
        ({"scaled": False}, {"additive", "unscaled"}),
        ({"positions": "words"}, {"untied"}),
        ({"tied": False}, {"untied"}),
        ({"positions": "none"}, {"no-positions"}),
        ({"norm": "pre", "P_drop": 0.2}, {"pre-norm"}),
    ],
)
@pytest.mark.parametrize("place", ["", f"{DEMO}/"])
def test_claims_that_base_contradicts_or_has_are_not_trained(good, place, base, left_out):
    config = changed(good, {f"{place}base/{key}": value for key, value in base.items()})
    check(config)
    assert set(good["claims"]) - {run.experiment for run in runs_of_tables(config)["table5"]} == left_out


PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_models_of_the_manuals_examples_are_accepted(page):
    """At every scale, with what a page shows laid over the README's own scale."""
    config = read_yaml(ROOT / "config.yaml")
    for file in (PAGES[0], page):
        for example in re.findall(r"```yaml\n(.*?)```", file.read_text("utf-8"), re.DOTALL):
            config = settings.laid_over(config, yaml.safe_load(example))
    assert "mine" in config["scales"]
    for scale in config["scales"]:
        checks.check_models(at(config, scale), scale)


@pytest.mark.parametrize("scale", ["demo", "multi30k", "paper", "mine", "ptb"])
def test_what_is_right_is_accepted(good, scale):
    """At every scale; also without files that another scale reads, or a task whose data were made elsewhere."""
    check(good | {"scale": scale})
    gone = {"scale": scale, "corpora/mine-dev/files/cs/path": "x.cs"}
    gone |= {f"{EN_CS}/from": FOLDER} if scale == "mine" else {}
    gone |= {"scales/ptb/tasks/cs-en/from": FOLDER} if scale == "ptb" else {}
    check(changed(good, gone))
