"""The outputs of a small scale, and its page."""

import json
from pathlib import Path
from types import SimpleNamespace

import pandas as pd

from support import scored
from transformer.report.page.page import make
from transformer.report.tables.render import Cell, Grid, Table, write_table

TOKENS = {"source": ["make", "it", "more", "difficult"], "target": ["er", "schwe@@", "ren"]}
TOKENS["shifted"] = ["<pad>", *TOKENS["target"][:-1]]
LONG = "no_treebank" * 9  # no place to break a line at
SVG = """<?xml version="1.0"?>
<svg xmlns="http://www.w3.org/2000/svg" width="90pt" viewBox="0 0 9 9"><path d="M0 0H9V9H0Z" fill="{color}"/></svg>"""


def about_run(task: str = "en-de", experiment: str = "base", **changes) -> dict:
    """Return the content of a run.json: half an hour on 2 of 4 cores."""
    start = {"step": 0, "started": "2026-01-01T00:00:00+00:00", "hardware": "Abacus, 2 of 4 cores", "processes": 1}
    times = {"starts": [start], "hardware": start["hardware"], "seconds": 1800.0, "dev_perplexity": 1.5}
    source = {"commit": "c0ffee" * 6, "data_sha256": "da7a" * 16, "digest": "d1" * 32}
    return scored.score(27.25, task, experiment)["run"] | {"scale": "test"} | times | source | changes


def attention(N: int = 2, h: int = 3) -> dict:
    """Return weights as in attention.json: any query gives one key 0.7, and the others equal shares of the rest.

    In layer l and head m, counted from 0, that key is number l + m modulo the number of keys.
    """

    def weights(queries: list, keys: list, layer: int, head: int) -> list:
        row = [0.3 / (len(keys) - 1)] * len(keys)
        row[(layer + head) % len(keys)] = 0.7
        return [row for _ in queries]

    source, target, _ = TOKENS.values()
    kinds = {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
    sentence = {"title": "Difficult</script>", "figures": {"figure5": {}}, **TOKENS} | {
        kind: [[weights(*sides, layer, head) for head in range(h)] for layer in range(N)]
        for kind, sides in kinds.items()
    }
    sentences = [sentence, sentence | {"title": "Another"}]
    return {"run": "en-de/base/1", "label": "test", "layers": N, "heads": h, "sentences": sentences}


def score(run: dict) -> dict:
    """Return the content of a score file."""
    variant = {"score": 27.25, "signature": "nrefs:1|tok:13a"}
    decoded = {"decoding": {"beam": 4, "alpha": 0.6}, "weights_sha256": "ab" * 32}
    return scored.score(27.25) | {"scores": {"paper": "tokenized", "tokenized": variant}, "run": run | decoded}


def wide_table(folder: Path) -> None:
    """Write a Table 2 with more columns than a telephone shows, as all tables are written."""
    columns = [f"EN-DE measure {number}" for number in range(12)]
    runs = ("en-de/base/1", "en-de/base/2")
    ours = Cell("27.3 ± 0.2", runs)
    row = {"Model": "Transformer (base)", "From": "ours"} | dict.fromkeys(columns, ours)
    frame = {"model": ["Transformer (base)"], "by": ["ours"], "en-de_bleu": [27.25], "en-de_bleu_sd": [0.21]}
    frame |= {"en-de_low": [26.5], "en-de_high": [28.0], "en-de_paper": [27.3], "en-de_difference": [-0.05]}
    frame |= {"en-de_runs": [" ".join(runs)]}
    notes = ["A note.", Grid(("Run",), [{"Run": "en-de/base/1", "BLEU": "27.25"}])]
    table = Table("table2", "Table 2: translation", "BLEU of `base`.", Grid(("Model", "From"), [row]), notes)
    write_table(table, str(folder / "tables/table2"), pd.DataFrame(frame))


def write_inputs(folder: Path) -> tuple[SimpleNamespace, SimpleNamespace]:
    """Write all inputs of a page under `folder`, and return them with the page's parameters.

    A run is not made, nor are Table 4 and Figure 5.
    """
    runs = {"base": about_run(), "parser": about_run("supervised", "parser")}
    paths = {name: folder / f"runs/{run['task']}/{name}/1" for name, run in runs.items()}
    for name, path in paths.items():
        path.mkdir(parents=True)
        (path / "run.json").write_text(json.dumps(runs[name]))
    (paths["base"] / "test.json").write_text(json.dumps(score(runs["base"])))
    (folder / "tables").mkdir()
    wide_table(folder)
    for name, color in (("figure1", "#0072B2"), ("curves", "#D55E00")):
        (folder / f"{name}.svg").write_text(SVG.format(color=color))
        about = {"title": f"The title of {name}", "caption": f"{name} shows this.", "alt": f"{name} & so on"}
        size = {"inches": 7.2 if name == "curves" else 3.5}
        (folder / f"{name}.json").write_text(json.dumps(about | size))
    (folder / "attention.json").write_text(json.dumps(attention()))
    texts = {
        folder / "source": "A dog sleeps.\nA cat <b>sees</b> it.\nBirds sing.\n",
        folder / "reference": "Ein Hund schläft.\nEine Katze sieht ihn.\nVögel singen.\n",
        paths["base"] / "test.hyp": "Ein Hund schläft.\nEin Haus.\nVögel sangen.\n",
        folder / "gold": "(S (NP (DT A) (NN dog)) (VP (VBZ sleeps)))\n",
        paths["parser"] / "test.trees": "(S (NP (DT A)) (VP (NN dog) (VBZ sleeps)))\n",
    }
    for path, text in texts.items():
        path.write_text(text)
    input = SimpleNamespace(
        tables=[str(folder / "tables/table2.json")],
        figures=[str(folder / "figure1.svg"), str(folder / "curves.svg")],
        runs=[str(path / "run.json") for path in paths.values()],
        scores=[str(paths["base"] / "test.json")],
        samples=list(map(str, texts)),
        attention=str(folder / "attention.json"),
    )
    params = SimpleNamespace(
        title="Test",
        label="made-up",
        scale="test",
        data_of_paper=False,
        runs=[*input.runs, str(folder / "runs/en-de/base/2/run.json")],
        scores=input.scores,
        translations=[[str(paths["base"] / "test.hyp"), str(folder / "source"), str(folder / "reference")]],
        parses=[[str(paths["parser"] / "test.trees"), str(folder / "gold")]],
        samples=1,
        missing={"table4": LONG, "figure5": "old"},
        prices={"core": 2.0, "GPU": None},
        currency="EUR",
    )
    return input, params


def write_page(folder: Path) -> Path:
    """Write the page of `write_inputs`."""
    (folder / "report.html").write_text(make(*write_inputs(folder)), "utf-8")
    return folder / "report.html"
