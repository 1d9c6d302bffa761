"""The reader of config.yaml: its files, each kind of error with the line for users, and the runs."""

import copy
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.project import ENVIRONMENT, copy_project, own_corpus

from transformer.config import settings
from transformer.config.scales import ScaleSettings
from transformer.storage.files import InputError

ROOT = Path(__file__).parents[2]

# Two scales in addition to config.yaml's: `mine` (support/project.py), a corpus in files, and this one of treebanks.
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
          out_of_domain: grammar-test, vocabulary: 60, symbols: 50}
        both: {<<: *alone, training: WSJ and trees of ours, silver: {path: silver.trees, repeat: 3}}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with the project's config.yaml and the files that both scales read, except the Penn Treebank."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "config.yaml").symlink_to(ROOT / "config.yaml")
    own_corpus(folder)
    (folder / "trees.yaml").write_text(TREES)
    return folder


@pytest.fixture
def folder(made, monkeypatch) -> Path:
    monkeypatch.chdir(made)
    return made


@pytest.fixture(scope="module")
def good(made) -> dict:
    """The content of a configuration without a fault. All its rows are trained."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        config = settings.changes(["config.yaml", "own.yaml", "trees.yaml"], [])
    del config["scales"]["demo"]["rows"]
    return config


MISSING = object()


def changed(config: dict, changes: dict[str, Any]) -> dict:
    """Return the configuration with changed or without removed values. Slashes join the keys of nested values."""
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
GERMAN, GUM = "corpora/newstest2014.de-en/files/de", "downloads/gum.tar.gz"
FIGURE = f"{DEMO}/figures/figure3"
PARSER = {"training": "x", "label": "x", "train": ["grammar-train"], "dev": "grammar-dev", "test": "grammar-test"}
PARSER |= {"vocabulary": 9, "symbols": 9}
MADE = {"text": ["grammar-text"], "parser": "alone", "sentences": 9, "keep": 1, "repeat": 1}  # silver trees
SHARED = {"files": {"en": {"path": "./train.en"}, "cs": {"path": "dev.cs"}}}
LEARNED = "expected a corpus outside the training data, found"

# Changes, and the expected line: the place, the fault, the value found. ... stands for names in config.yaml.
VALUES = [
    ({"analysis": 4}, "unknown key 'analysis'; did you mean 'analyses'?"),
    ({f"{EN_DE}/dev": MISSING}, "scales.demo.tasks.en-de: missing key 'dev'"),
    ({f"{GUM}/size": 9}, "downloads.gum.tar.gz: expected sha256 and size or ..., found size and repacked"),
    ({"report/gpu_hour": "cheap"}, "report.gpu_hour: expected unknown or a number from ..., found 'cheap'"),
    ({f"{DEMO}/seeds": [1, 1]}, "scales.demo.seeds: expected each item once, found [1, 1]"),
    ({f"{GUM}/urls": ["ftp://a/x"]}, "downloads.gum.tar.gz.urls.0: expected an address ..., found 'ftp://a/x'"),
    ({"experiments/parser": {}}, "experiments: expected a name of ..., but not `parser`, found 'parser'"),
    ({"scales/record": {}}, "scales: expected a name of ..., but not `record`, found 'record'"),  # in git
    ({"decoding/extra_length": 1024}, "decoding.extra_length: expected a whole number from 0 to 1,023, found 1024"),
    ({f"{FIGURE}/text": "a " * 201}, f"{FIGURE}.text: expected text of up to 400 characters, found ..."),
    ({f"{FIGURE}/from": "quee"}, f"{FIGURE}: expected 'quee' once in the text, found 0 occurrences"),
    (
        {"corpora/mine": {"files": {False: {"path": "a"}, "en": {"path": "b"}}}},
        "corpora.mine.files: ... found False: ...",
    ),
    ({"base/positions": ["none"]}, "base.positions: expected ..., found ['none']..."),
    ({"decoding/length_penalty": float("nan")}, "decoding.length_penalty: expected a finite number, found nan"),
    ({f"{BOTH}/silver/path": "{x}"}, f"{BOTH}.silver.path: expected a path, found '{{x}}'"),
]
NAMES = [
    ({"scale": "dem"}, "scale: expected one of scales (...), found 'dem'; did you mean 'demo'?"),
    ({f"{EN_CS}/experiments": {"bog": {}}}, f"{EN_CS}.experiments: expected ..., found 'bog'; did you mean 'big'?"),
    ({f"{EN_CS}/subsets": {"part": "x"}}, f"{EN_CS}.subsets.part: expected one of corpora (...), found 'x'"),
    (
        {f"{EN_CS}/subsets": {"unseen": "mine-test"}, f"{EN_CS}/unseen": True},
        f"{EN_CS}.subsets: expected names other than 'unseen', which `unseen: true` makes, found 'unseen'",
    ),
    ({f"{GERMAN}/download": "x"}, f"{GERMAN}: expected one of downloads (...), found 'x'"),
    ({f"{EN_CS}/target": "de"}, f"{EN_CS}.train: corpus 'mine-train' has no 'de', only en, cs"),
    (
        {f"{BOTH}/silver": MADE | {"text": ["gum-train"]}},
        f"{BOTH}.silver.text: ... no 'en', only trees",
    ),
    ({f"{BOTH}/silver": MADE | {"parser": "both"}}, f"{BOTH}.silver.parser: expected one of ... (alone), found 'both'"),
    ({f"{DEMO}/parsing/tasks/en-cs": PARSER}, "scales.demo.parsing.tasks: ... found 'en-cs', a task of scale mine"),
    ({"ablations/big": {"N": 2}}, "ablations: expected a unique name, found 'big', which another row has already"),
    ({"ablations/untied/positions": "words"}, "scales.demo: en-de: untied: tied: expected true ..., found false"),
    (
        {"ablations/wide-2N": {"N": 12}, f"{DEMO}/experiments/wide-2N": {"N": 6}},
        "scales.demo: wide-2N: N: expected 4, twice the N of base, found 6",
    ),
    ({f"{EN_CS}/target": "en"}, f"{EN_CS}.target: expected a language other than the source language, found 'en'"),
    ({f"{BOTH}/silver": MADE | {"text": ["grammar-test"]}}, f"{BOTH}.out_of_domain: {LEARNED} 'grammar-test'"),
    # Training sentences under another name.
    ({"corpora/grammar-dev/grammar/skip": 19999}, f"{EN_DE}.dev: {LEARNED} 'grammar-dev', which ... 'grammar-train'"),
    ({"corpora/ptb-dev/treebank/sections": [4, 22]}, f"{ALONE}.dev: {LEARNED} 'ptb-dev', which ... 'ptb-train'"),
    ({"corpora/mine-dev": SHARED}, f"{EN_CS}.dev: {LEARNED} 'mine-dev', which shares ... 'mine-train'"),
    (
        {"corpora/multi30k-val/files/en/download": "multi30k-train.en.gz"},
        f"scales.multi30k.tasks.en-de.dev: {LEARNED} 'multi30k-val', which shares ... 'multi30k-train'",
    ),
    ({f"{DEMO}/rows": ["base", "bog"]}, f"{DEMO}.rows: expected ..., found 'bog'; did you mean 'big'?"),
    ({"experiments/big": MISSING}, "experiments: missing row 'big', which a table needs"),
    ({f"{BOTH}/silver/path": "trees.test"}, f"{BOTH}.test: expected ..., found 'ptb-test', which ... 'trees.test'"),
    ({f"{DEMO}/rows": ["big"]}, f"{DEMO}.rows: expected a list with 'base', because other rows are compared with it"),
    ({f"{EN_DE}/rows": ["big"]}, f"{EN_DE}.rows: expected a list with 'base', because other rows are compared with it"),
    ({"experiments/d_k-16": {"d_k": 20}}, "scales.demo: en-de: d_k-16: d_k: 20 cannot be divided by 8; ... `rows`"),
]


@pytest.mark.parametrize(("changes", "line"), [*VALUES, *NAMES])
def test_refused_in_one_line(folder, good, changes, line):
    for path in (EN_CS, EN_DE, ALONE, BOTH, GERMAN, FIGURE, DEMO):
        line = line.replace(path, path.replace("/", "."))
    with pytest.raises(SystemExit) as refused:
        settings.accept(changed(good, changes))
    assert re.fullmatch(re.escape(f"config.yaml: {line}").replace(r"\.\.\.", ".+"), str(refused.value))


SMALL = ("no-residual-N-2",)  # the demo's base has N: 2 itself


@pytest.mark.parametrize(
    ("base", "left_out"),
    [
        ({"attention": "additive"}, {"additive", "unscaled", "unscaled-heads-1", *SMALL}),
        ({"norm": "pre", "P_drop": 0.2}, {"pre-norm", "no-warmup-pre-norm", "post-norm-2N", *SMALL}),
    ],
)
@pytest.mark.parametrize("place", ["", f"{DEMO}/"])
def test_ablations_that_contradict_base_or_repeat_another_row_are_not_trained(folder, good, place, base, left_out):
    config = settings.accept(changed(good, {f"{place}base/{key}": value for key, value in base.items()}))
    assert set(config.ablations) - set(ScaleSettings(config, "demo").trained_ablations) == left_out


def test_a_task_may_train_fewer_rows_than_its_scale(folder, good):
    """`experiments` of a scale may be blank."""
    good = changed(good, {f"{DEMO}/experiments": None})
    scale = ScaleSettings(settings.accept(changed(good, {f"{EN_DE}/rows": ["base", "big"]})), "demo")
    assert {run.experiment for run in scale.runs(["en-de"], scale.experiments)} == {"base", "big"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("base: [\n", "not YAML: "),
        ("base: caf\xe9\n", "not YAML: "),
        (None, "no such file"),
        ("scale: demo\nscale: paper\n", "not YAML: line 1: expected each key once, found .scale. again"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(folder, text, line):
    (folder / "wrong.yaml").unlink(missing_ok=True)
    if text is not None:
        (folder / "wrong.yaml").write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=f"^wrong.yaml: {line}"):
        settings.read(["wrong.yaml"], [])


@pytest.mark.parametrize(
    ("text", "entries", "line"),
    [
        ("experiments:\n  base: {}\n  mine: {P_dropp: 0}\n", [], "wrong.yaml, line 3: experiments.mine: unknown key"),
        (
            "ablations:\n  a: {}\nscales:\n  demo:\n    depth: 0\n",
            [],
            "wrong.yaml, line 5: scales.demo.depth: expected",
        ),
        ("scales: {demo: {rows: [bas]}}\n", ["scale=dem"], "--config: scale: expected one of"),
        ("corpora:\n  a.b:\n    files:\n      en.x: {}\n", [], "wrong.yaml, line 4: corpora.a.b.files: expected"),
        ("scales: {demo: {seeds: [1, -1]}}\n", [], "wrong.yaml, line 1: scales.demo.seeds.1: expected"),
        ("base: {N: 0}\n", ["base={N: 1, h: 0}"], "--config: base.h: expected"),
        # A row's value at a scale comes from the row, from base, or from the scale's changes of either.
        ("logging: {}\nexperiments:\n  heads-1: {d_k: 20}\n", [], "wrong.yaml, line 3: scales.demo: en-de: heads-1"),
        (
            "ablations:\n  pre-norm:\n    steps: 3\nscales:\n  demo: {rows: [base, pre-norm]}\n",
            [],
            "wrong.yaml, line 3: ",
        ),
        ("scales:\n  demo:\n    base: {steps: 3}\n", [], "wrong.yaml, line 3: scales.demo: en-de: base: steps: "),
        ("{}\n", ["base={d_k: 20}"], "--config: scales.demo: en-de: base: d_k: 20 cannot be divided by 8"),
    ],
)
def test_the_file_and_the_line_that_are_wrong(folder, text, entries, line):
    """The last file with the value counts, even if config.yaml also has it and a later file contains its section."""
    (folder / "wrong.yaml").write_text(text)
    (folder / "later.yaml").write_text("scales: {demo: {label: later}}\n")
    with pytest.raises(InputError, match=f"^{re.escape(line)}"):
        settings.read(["wrong.yaml", "later.yaml"], entries)


TASK = """{source: en, target: cs, train: [mine-train],
    dev: mine-dev, test: mine-dev, vocabulary: 40, embedding_rows: 40}"""
LIKE = """
scales:
  short:
    like: multi30k
    label: Multi30k, a short training
    base: {steps: 9000}
    rows: [base, N-2]
    experiments: {big: {P_drop: 0.3}}
  shorter: {like: short, label: shorter, seeds: [7], tasks: {cs: TASK}}
""".replace("TASK", TASK)


def test_a_scale_inherits_missing_values_from_another_scale(folder):
    """Mappings are merged key by key. The data, corpora and figures are inherited only by a scale without tasks."""
    (folder / "like.yaml").write_text(LIKE)
    config = settings.read(["own.yaml", "like.yaml"], [])
    given, short, shorter = (config.scales[name] for name in ("multi30k", "short", "shorter"))
    assert (short.width, short.base.steps, short.base.learning_rate_scale) == (
        given.width,
        9000,
        given.base.learning_rate_scale,
    )
    assert (short.experiments["big"].P_drop, short.experiments["big"].steps) == (0.3, given.experiments["big"].steps)
    assert (short.tasks, short.figures, short.parsing) == (given.tasks, given.figures, given.parsing)
    assert (shorter.base, shorter.rows, shorter.seeds_of) == (short.base, short.rows, given.seeds_of)
    assert (list(shorter.tasks), shorter.figures, shorter.parsing) == (["cs"], None, None)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("scales: {a: {like: a}}\n", "wrong.yaml, line 1: scales.a.like: expected another scale (demo, "),
        ("scales: {a: {like: b}, b: {like: a}}\n", "wrong.yaml, line 1: scales.b.like: expected another scale ("),
        ("scales:\n  a: {like: demo, base: {N: 3}}\nscale: a\n", "wrong.yaml, line 2: scales.a: en-de: base: N: 3 "),
        ("scales:\n  a: {like: [demo]}\n", "wrong.yaml, line 2: scales.a.like: expected a name of "),
        ("scales:\n  a: {like: b, tasks: {}}\n  b: null\n", "wrong.yaml, line "),
        ("scales:\n  2: {}\n  a: {like: nope}\n", "wrong.yaml, line 3: scales.a.like: expected another scale ("),
        (
            "scales:\n  a: {like: multi30k,\n    base: {d_ff: 2050}}\n  b: {like: a}\nscale: b\n",
            "wrong.yaml, line 3: scales.b: en-de: base: d_ff: 2050 cannot be divided by 4",
        ),
        (
            "scales: {a: {like: demo, tasks: {}}}\n",
            "wrong.yaml, line 1: scales.a.tasks: expected a mapping of 1 or more",
        ),
        ("scales: {a: {like: demo, tasks: {x: TASK}}}\n", "wrong.yaml, line 1: scales.a: missing key 'label'"),
    ],
)
def test_a_wrong_scale_that_is_like_another_is_named(folder, text, line):
    (folder / "wrong.yaml").write_text(text.replace("TASK", TASK))
    with pytest.raises(InputError, match=f"^{re.escape(line)}"):
        settings.read(["wrong.yaml"], [])


def test_snakemake_and_plan_print_the_same_line(tmp_path):
    """Real processes. `snakemake` does not look for modules here by itself, but finds this copy's package."""
    project = copy_project(tmp_path)
    own_corpus(project)
    (project / "wrong.yaml").write_text("scales: {mine: {tasks: {en-cs: {dev: mine-train}}}}\n")
    line = "scales.mine.tasks.en-cs.dev: expected a corpus outside the training data, found 'mine-train'"
    line = f"wrong.yaml, line 1: {line}"
    files = ["--configfile", "own.yaml", "wrong.yaml"]
    snakemake = run(project, "snakemake", "-n", "--cores", "1", *files)
    plan = run(project, "python", "-m", "transformer", "plan", *files)
    assert (snakemake.stderr.splitlines()[-1], plan.stderr) == (line, f"transformer plan: error: {line}\n")
    assert (snakemake.returncode, plan.returncode) == (1, 1)


def run(project: Path, program: str, *arguments: str) -> subprocess.CompletedProcess:
    command = [Path(sys.executable).parent / program, *arguments]
    return subprocess.run(command, cwd=project, env=ENVIRONMENT, text=True, capture_output=True, timeout=300)
