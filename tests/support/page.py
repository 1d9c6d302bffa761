"""The outputs of a small scale, and its page."""

import hashlib
import json
from pathlib import Path

import pandas as pd

from support import scored
from transformer.report.page import build_page
from transformer.report.tables.render import Cell, Grid, Table, write_table

SOURCE, TARGET = ["make", "it", "more", "difficult"], ["er", "schwe@@", "ren"]
LONG = "no_treebank" * 9  # a long word without a place for a line break
SVG = """<?xml version="1.0"?>
<svg xmlns="http://www.w3.org/2000/svg" width="90pt" viewBox="0 0 9 9"><path d="M0 0H9V9H0Z" fill="{color}"/></svg>"""


def about_run(task: str = "en-de", experiment: str = "base", **changes) -> dict:
    """Return the content of a run.json: half an hour on 2 of 4 cores."""
    start = {"step": 0, "started": "2026-01-01T00:00:00+00:00", "hardware": "Abacus, 2 of 4 cores", "processes": 1}
    times = {"starts": [start], "hardware": start["hardware"], "seconds": 1800.0, "dev_perplexity": 1.5}
    source = {"commit": "c0ffee" * 6, "data_sha256": "da7a" * 16, "digest": "d1" * 32}
    return scored.score(27.25, task, experiment)["run"] | {"scale": "test"} | times | source | changes


def attention(N: int = 2, h: int = 3) -> dict:
    """Return weights in the format of attention.json. Each query gives 0.7 to one key, and equal shares to the others.

    In layer l and head m, counted from 0, this key has the number l + m modulo the number of keys.
    """

    def weights(queries: list, keys: list, layer: int, head: int) -> list:
        row = [0.3 / (len(keys) - 1)] * len(keys)
        row[(layer + head) % len(keys)] = 0.7
        return [row for _ in queries]

    sentence = {"title": "Difficult</script>", "figures": {"figure5": {}}}
    sentence |= {"source": SOURCE, "target": TARGET, "shifted": ["<pad>", *TARGET[:-1]]}
    for kind, sides in {"encoder": (SOURCE, SOURCE), "decoder": (TARGET, TARGET), "cross": (TARGET, SOURCE)}.items():
        sentence[kind] = [[weights(*sides, layer, head) for head in range(h)] for layer in range(N)]
    sentences = [sentence, sentence | {"title": "Another"}]
    return {"run": "en-de/base/1", "label": "test", "layers": N, "heads": h, "sentences": sentences}


def score(run: dict) -> dict:
    """Return the content of a score file."""
    variant = {"score": 27.25, "signature": "nrefs:1|tok:13a"}
    decoded = {"decoding": {"beam": 4, "alpha": 0.6}, "weights_sha256": "ab" * 32}
    return scored.score(27.25) | {"scores": {"paper": "tokenized", "tokenized": variant}, "run": run | decoded}


def wide_table(folder: Path) -> None:
    """Write a Table 2 with more columns than fit on a phone, in all formats."""
    runs = ("en-de/base/1", "en-de/base/2")
    row = {"Model": "Transformer (base)", "From": "ours"}
    row |= {f"EN-DE measure {number}": Cell("27.3 ± 0.2", runs) for number in range(12)}
    ours = {"Ours": Cell("27.2 ± 0.2", runs), "95 %": Cell("26.5 – 28.0", runs), "Paper": "27.3"}
    scores = [{"Model": "Transformer (base), EN-DE BLEU"} | ours | {"− paper": Cell("−0.1", runs)}]
    notes = ["A note.", Grid(("Run",), [{"Run": "en-de/base/1", "BLEU": "27.25"}])]
    table = Table(
        "table2", "Table 2: translation", "BLEU of `base`.", Grid(("Model", "From"), [row]), notes, scores=scores
    )
    write_table(table, str(folder / "tables/table2"), pd.DataFrame())


def write_inputs(folder: Path) -> tuple[dict, dict]:
    """Write the inputs of a page except a run, Table 4 and Figure 5. Return them with the page's parameters."""
    base, parser = folder / "runs/en-de/base/1", folder / "runs/supervised/parser/1"
    (folder / "tables").mkdir(parents=True)
    wide_table(folder)
    contents = {base / "run.json": about_run(), parser / "run.json": about_run("supervised", "parser")}
    contents |= {base / "test.json": score(about_run()), folder / "attention.json": attention()}
    texts = {
        folder / "source": "A dog sleeps.\nA cat <b>sees</b> it.\nBirds sing.\n",
        folder / "reference": "Ein Hund schläft.\nEine Katze sieht ihn.\nVögel singen.\n",
        base / "test.hyp": "Ein Hund schläft.\nEin Haus.\nVögel sangen.\n",
    }
    samples = list(map(str, texts))
    for name, color, inches in (("figure1", "#0072B2", 3.5), ("curves", "#D55E00", 7.2)):
        texts[folder / f"{name}.svg"] = SVG.format(color=color)
        about = {"title": f"The title of {name}", "caption": f"{name} shows this.", "alt": f"{name} & so on"}
        contents[folder / f"{name}.json"] = about | {"inches": inches}
    for key, path in (("hyp", base / "test.hyp"), ("ref", folder / "reference")):
        contents[base / "test.json"][f"{key}_sha256"] = hashlib.sha256(texts[path].encode()).hexdigest()
    for path, text in (texts | {path: json.dumps(content) for path, content in contents.items()}).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    files = dict(
        tables=[str(folder / "tables/table2.json")],
        figures=[str(folder / "figure1.svg"), str(folder / "curves.svg")],
        runs=[str(base / "run.json"), str(parser / "run.json")],
        scores=[str(base / "test.json")],
        samples=samples,
        attention=str(folder / "attention.json"),
    )
    params = dict(
        title="Test",
        label="made-up",
        scale="test",
        data_of_paper=False,
        made_up=False,
        runs=[*files["runs"], str(folder / "runs/en-de/base/2/run.json")],
        scores=files["scores"],
        translations=[[str(base / "test.hyp"), str(folder / "source"), str(folder / "reference")]],
        samples=1,
        missing={"Table 4: parsing": LONG, "Figure 5: attention and structure": "old"},
        prices={"core": 2.0, "GPU": None},
        currency="EUR",
    )
    return files, params


def write_page(folder: Path) -> Path:
    """Write the page of `write_inputs`."""
    build_page(*write_inputs(folder), str(folder / "report.html"))
    return folder / "report.html"
