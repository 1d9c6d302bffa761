"""The record's tables, byte for byte, from its score files: its CSV, Markdown and LaTeX are the golden files."""

import gzip
from pathlib import Path
from types import SimpleNamespace

from support.mirror import mirrored

from transformer.layout import Run
from transformer.report.tables import render
from transformer.report.tables.table1 import table1
from transformer.report.tables.table2 import table2
from transformer.report.tables.table3 import table3
from transformer.report.tables.table4 import table4
from transformer.report.tables.table5 import table5
from transformer.report.tables.why import why

ROOT = Path(__file__).parents[3]
RECORD = ROOT / "results/record/multi30k"
DEV = "multi30k: multi30k-val"
BASE = ["base/1", "base/2", "base/3"]
TABLE_3 = [*BASE, "heads-1", "heads-4", "heads-16", "heads-32", "d_k-16", "d_k-32", "N-2", "N-4", "N-8"]
TABLE_3 += ["d_model-256", "d_model-1024", "d_ff-1024", "d_ff-4096", "dropout-0.0", "dropout-0.2", "smoothing-0.0"]
TABLE_3 += ["smoothing-0.2", "learned-positions", "big"]
TABLE_5 = [*BASE, "big", "heads-1", "N-2", "learned-positions", "smoothing-0.0", "smoothing-0.2", "no-residual"]
TABLE_5 += ["no-residual-N-2", "pre-norm", "pre-norm-2N", "post-norm-2N", "no-warmup", "no-warmup-pre-norm", "unscaled"]
TABLE_5 += ["unscaled-heads-1", "additive", "no-positions", "untied"]
ANALYSED = {
    "averaging": [*BASE, "big"],
    "heads": BASE,
    "lengths": [*BASE, "learned-positions", "no-positions"],
    "smoothing": [*BASE, "smoothing-0.0", "smoothing-0.2"],
}
OWN = {  # what the scale has in place of the paper's values
    "base": {"P_drop": 0.25, "steps": 18000, "rate": 1.4, "warmup_steps": 2500, "source_tokens": 1200}
    | {"target_tokens": 1200, "checkpoint_every": 300, "averaged_checkpoints": 10},
    "dropout-0.2": {"P_drop": 0.5},
    "big": {"P_drop": 0.4, "steps": 24000, "rate": 1.0, "checkpoint_every": 150},
}
TRAINING = {
    "supervised": "GUM only, discriminative; with phrases, and with positions that count words",
    "semi-supervised": "the same, and semi-supervised by self-training on Multi30k's captions",
}
TASKS = {
    name: {"training": training, "label": "GUM, test split", "silver": name == "semi-supervised"}
    for name, training in TRAINING.items()
}


def runs(names: list[str], task: str = "en-de") -> list[Run]:
    """Return the recorded runs; a name without a seed has seed 1."""
    return [Run(RECORD / "runs" / task / (name if "/" in name else f"{name}/1")) for name in names]


def names(runs: list[Run]) -> list[str]:
    return [run.name for run in runs]


def paper(table: str) -> str:
    return str(ROOT / f"workflow/paper/{table}.csv")


def check(name: str, make, input: dict, params: dict) -> None:
    """Make the table, and compare it with the record's."""
    table, frame = make(SimpleNamespace(**input), SimpleNamespace(**params))
    made = {"csv": frame.to_csv(index=frame.index.name is not None)}
    made |= {"md": render.markdown(table), "tex": render.latex(table)}
    for ending, text in made.items():
        assert text == (RECORD / f"tables/{name}.{ending}").read_bytes().decode(), ending


def test_table_1():
    check("table1", table1, {"paper": paper("table1"), "measured": RECORD / "layers.json"}, {})


def test_table_2():
    own = runs([*BASE, "big"]) + runs([*BASE, "big"], "en-fr")
    params = {"label": "Multi30k task 1, test_2016_flickr", "expected": names(own), "data_of_paper": False}
    check("table2", table2, {"paper": paper("table2"), "score": [run.scores("test") for run in own]}, params)


def test_table_3():
    own = runs(TABLE_3)
    params = {"label": DEV, "width": 4, "depth": 2, "own": OWN, "data_of_paper": False, "expected": names(own)}
    check("table3", table3, {"paper": paper("table3"), "score": [run.scores("dev", ".last") for run in own]}, params)


def test_table_4():
    own = runs(["parser"], "supervised") + runs(["parser"], "semi-supervised")
    splits = {"score": ("test",), "constrained": ("test", ".constrained"), "elsewhere": ("elsewhere", ".constrained")}
    input = {key: [run.scores(*split) for run in own] for key, split in splits.items()}
    params = {"task": TASKS, "elsewhere_label": "gentle", "data_of_paper": False, "expected": names(own)}
    check("table4", table4, {"paper": paper("table4")} | input, params)


def test_table_5():
    own, analysed = runs(TABLE_5), {name: runs(experiments) for name, experiments in ANALYSED.items()}
    input = {name: [run.analysis(name) for run in group] for name, group in analysed.items()}
    input |= {"paper": paper("table5"), "score": [run.scores("dev", ".last") for run in own]}
    probes = [f"{name}:{run.name}" for name, group in analysed.items() for run in group]
    check("table5", table5, input, {"label": DEV, "expected": names(own), "probes": probes})


def test_why(tmp_path):
    reference = tmp_path / "test.de"
    reference.write_bytes(gzip.decompress(mirrored("multi30k-test_2016_flickr.de.gz").read_bytes()))
    own, dev = runs(BASE), runs([*BASE, "dropout-0.0", "smoothing-0.0"])
    input = {
        "paper": paper("table2"),
        "score": [run.scores("test") for run in own],
        "hyp": [run.translation("test") for run in own],
        "last": [],
        "ref": reference,
        "dev_score": [run.scores("dev", ".last") for run in dev],
        "measures": paper("measures"),
    }
    searches = {".beam-1": {"beam": 1}, ".alpha-0": {"alpha": 0.0}, ".extra_length-0": {"extra_length": 0}}
    params = {
        "label": "multi30k: multi30k-test_2016_flickr",
        "dev_label": DEV,
        "run": own[0].folder,
        "expected": names(dev),
        "otherwise": [(change, [run.translation("test", end) for run in own]) for end, change in searches.items()],
    }
    check("why", why, input, params)
