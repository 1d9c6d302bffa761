"""The input and parameter functions of the rules: what each job reads, from the configuration and its wildcards."""

import json
from collections.abc import Callable
from functools import cache
from itertools import product, starmap
from pathlib import Path
from typing import Any

from transformer.config.experiment import POSITIONS
from transformer.config.scales import PARSER, RunName, at, parts, preparation_of, source_of
from transformer.evaluation.analyses import ANALYSES
from transformer.layout import Data, Run
from transformer.pipeline import registry
from transformer.pipeline.registry import FIGURES, SEARCHES, TABLES
from transformer.pipeline.scale import RESOURCES, Pipeline

Paths = list[Path]
_Options = list[str | int | float | Path]
# How a run translates, by the suffix of its translations: with the average (Table 2), the last checkpoint (Table 3), or
# otherwise (the table `why`).
DECODINGS = {"": {}, ".last": {}} | SEARCHES
_Wildcards = Any  # of a job: scale, task, experiment, seed, split ... as attributes


class Inputs:
    """The questions of the rules to one configuration."""

    def __init__(self, config: dict, project: str = ""):
        """Take a checked configuration, and the project's folder where that is not the working folder."""
        self.config, self.project = config, project
        self.at = cache(lambda scale: Pipeline(at(config, scale), project))

    def task(self, wildcards: _Wildcards) -> dict:
        return self.at(wildcards.scale).tasks[wildcards.task]

    def data(self, wildcards: _Wildcards) -> Data:
        return self.at(wildcards.scale).files.data(wildcards.task)

    def run(self, wildcards: _Wildcards) -> Run:
        return self.at(wildcards.scale).files.run(wildcards.task, wildcards.experiment, wildcards.seed)

    def names_of_tasks(self, parsing: bool) -> list[str]:
        """Return the tasks of all scales that translate, or that parse."""
        scales = [self.at(scale) for scale in self.config["scales"]]
        return sorted({name for scale in scales for name in (scale.parsing if parsing else scale.entry["tasks"])})

    def corpora(self, kind: str) -> list[str]:
        """Return the corpora with an entry of this kind: files, grammar or treebank."""
        return [name for name, corpus in self.config["corpora"].items() if kind in corpus]

    def code(self, *names: str) -> Paths:
        """Return the code in these modules and packages, on which results depend. Raises FileNotFoundError."""
        found = []
        for place in (Path(self.project, "transformer", name) for name in names):
            files = [place] if place.is_file() else sorted(place.rglob("*.*"))
            found += [path for path in files if "__pycache__" not in path.parts]
            if not files:
                raise FileNotFoundError(f"{place}: expected code there, found none")
        return found

    # ------------------------------------------------------------------ fetch and unpack (§5.1)

    def checksum(self, wildcards: _Wildcards) -> str:
        download = self.config["downloads"][wildcards.file]
        return download.get("sha256", download.get("md5", ""))

    def fetch_options(self, wildcards: _Wildcards, output: list[str]) -> _Options:
        # As this takes `output`, Snakemake fetches nothing again if they change: another address gives the same bytes.
        download = self.config["downloads"][wildcards.file]
        options = [word for url in download["urls"] for word in ("--url", url)]
        options += _given(download, "sha256", "md5", "size")
        options += [word for other in download.get("alternatives", []) for word in ("--or", json.dumps(other))]
        options += ["--mirror", self.config["mirror"]] if self.config["mirror"] else []
        return [*options, "--output", output[0]]

    def file(self, wildcards: _Wildcards) -> dict:
        return self.config["corpora"][wildcards.corpus]["files"][wildcards.language]

    def archive(self, wildcards: _Wildcards) -> str:
        return source_of(self.file(wildcards))

    def unpack_options(self, wildcards: _Wildcards) -> _Options:
        entry, corpus = self.file(wildcards), self.config["corpora"][wildcards.corpus]
        return ["--format", entry.get("format", "text"), *_given(entry, "member"), *_given(corpus, "lines")]

    # ------------------------------------------------------------------ treebanks (§6.3)

    def treebank(self, wildcards: _Wildcards) -> str | list[str]:
        """Return the file of a treebank; of the Penn Treebank the files that are there: its reader names the others."""
        treebank = self.config["corpora"][wildcards.corpus]["treebank"]
        if "sections" in treebank:
            return sorted(map(str, Path(treebank["path"]).rglob("*.mrg")))
        return source_of(treebank)

    def treebank_options(self, wildcards: _Wildcards) -> _Options:
        corpus = self.config["corpora"][wildcards.corpus]
        treebank = corpus["treebank"]
        options = ["--input", source_of(treebank)]
        if "sections" in treebank:
            options += ["--format", "ptb", "--sections", *treebank["sections"]]
        else:
            options += ["--format", "gum" if "split" in treebank else "lines", *_given(treebank, "split")]
        return [*options, *_given(corpus, "lines"), *_given(treebank, "sha256")]

    def silver(self, wildcards: _Wildcards) -> list[Path | str]:
        """Return the trees made by a parser that a training split adds to the treebank's, if any."""
        silver = self.task(wildcards).get("silver")
        if silver is None or wildcards.split != "train":
            return []
        return [silver.get("path", self.data(wildcards).silver)]

    def mix_options(self, wildcards: _Wildcards, input: Any) -> _Options:
        """Return the options that mix treebanks, their phrases and silver trees."""
        task = self.task(wildcards)
        options = _given(task, "phrases") if wildcards.split == "train" else []
        if input.silver:
            options += ["--repeat", task["silver"]["repeat"], "--silver", *input.silver]
        return options

    def silver_files(self, wildcards: _Wildcards) -> registry.Files:
        """Return the sources of a task's silver trees: the files of a run, that with the first seed, and plain text."""
        scale, silver = self.at(wildcards.scale), self.task(wildcards)["silver"]
        run = scale.files.run(silver["parser"], PARSER, scale.entry["parsing"]["seeds"][0])
        text = [RESOURCES.corpus(name, "en") for name in silver["text"]]
        return {"run": [run.experiment, run.vocabulary, run.average], "decoding": run.decoding, "text": text}

    # ------------------------------------------------------------------ preparation (§5.1)

    def side(self, name: str, split: str | None = None) -> Callable[[_Wildcards], Paths]:
        """Return an input function: the text of a side, or the trees, of a split; if None, of the wildcards' split."""
        return lambda wildcards: self.at(wildcards.scale).text(wildcards.task, split or wildcards.split, name)

    def use_of_text(self, wildcards: _Wildcards, input: Any, output: list[str]) -> _Options:
        """Return the options of `tokenize` for a split, which is learned from, or tried and searched."""
        # As this takes `output`, Snakemake prepares nothing again for another `extra_length`.
        if wildcards.split == "train":
            return ["--clean"]
        searched = ["--vocabulary", *input.vocabulary, *self.longest(wildcards, output)] if input.vocabulary else []
        return ["--tried", *searched]

    def vocabulary_of_search(self, wildcards: _Wildcards) -> Paths:
        """Return the vocabulary by which a test set is measured, for which no training waits; `encode` measures dev."""
        return [self.data(wildcards).vocabulary] if wildcards.split == "test" else []

    def measured(self, wildcards: _Wildcards) -> Paths:
        """Return the tokenised test set, whose sentences are then short enough to be translated."""
        return [self.data(wildcards).tokens("test", "source")] if wildcards.split == "test" else []

    def languages(self, wildcards: _Wildcards) -> list[str]:
        return [self.task(wildcards)[side] for side in ("source", "target")]

    def preparation(self, wildcards: _Wildcards) -> str:
        """Return as JSON how a task's text is prepared."""
        return json.dumps(preparation_of(at(self.config, wildcards.scale), wildcards.task))

    def prepared(self, key: str) -> Callable[[_Wildcards], int]:
        """Return an input function: a value of a task's preparation."""
        return lambda wildcards: preparation_of(at(self.config, wildcards.scale), wildcards.task)[key]

    def longest(self, wildcards: _Wildcards, output: list[str]) -> _Options:
        """Return as options how many subwords can be translated; a parser leaves out what is too long."""
        if "symbols" in self.task(wildcards):
            return []
        return ["--longest", POSITIONS - self.decoding_of(wildcards)["extra_length"]]

    def subset_files(self, wildcards: _Wildcards) -> dict[str, Path]:
        """Return by name the references of the parts of a test set that are scored on their own."""
        task = self.task(wildcards)
        corpora = task.get("subsets", {}) if wildcards.split == "test" else {}
        return {name: RESOURCES.corpus(corpus, task["target"]) for name, corpus in corpora.items()}

    def subsets(self, wildcards: _Wildcards) -> Paths:
        return list(self.subset_files(wildcards).values())

    def subset_options(self, wildcards: _Wildcards) -> _Options:
        """Return names and references of these parts as options of `score`."""
        return [word for name, path in self.subset_files(wildcards).items() for word in ("--subset", name, path)]

    def vocabulary_options(self, wildcards: _Wildcards, input: Any) -> _Options:
        """Return the text and the size of a vocabulary; a parser's symbols are not cut into subwords."""
        task, how = self.task(wildcards), preparation_of(at(self.config, wildcards.scale), wildcards.task)
        longest = ["--longest", how["max_piece_length"]] if "max_piece_length" in how else []
        if "symbols" not in task:
            return ["--text", input.source, input.target, "--size", task["vocabulary"], *longest]
        symbols = ["--symbols", input.target, "--rows", task["symbols"]]
        return ["--text", input.source, *symbols, "--size", task["symbols"] + task["vocabulary"], *longest]

    # ------------------------------------------------------------------ training, search and scores (§5, §6)

    def experiment(self, wildcards: _Wildcards, output: list[str]) -> str:
        """Return as JSON what config.yaml says of one run. As this takes `output`, Snakemake ignores its changes."""
        return json.dumps(self.parts_of_run(wildcards))

    def identity(self, wildcards: _Wildcards) -> str:
        """Return the same without `running`, on which no result depends: another one makes the run anew."""
        return json.dumps({key: part for key, part in self.parts_of_run(wildcards).items() if key != "running"})

    def initial_weights(self, wildcards: _Wildcards) -> list[str]:
        """Return the weights that a training begins with, if any: a file, which may be another run's."""
        rows = self.parts_of_run(wildcards)["rows"]
        return [row["initial_weights"] for row in rows if "initial_weights" in row][-1:]

    def parts_of_run(self, run: _Wildcards) -> dict:
        return parts(at(self.config, run.scale), RunName(run.task, run.experiment, int(run.seed)))

    def decoding(self, wildcards: _Wildcards) -> str:
        if wildcards.experiment == PARSER:
            return json.dumps(self.config["parsing"]["decoding"])
        return json.dumps(self.decoding_of(wildcards))

    def decoding_of(self, wildcards: _Wildcards) -> dict[str, Any]:
        """Return how the scale translates."""
        return self.config["decoding"] | self.at(wildcards.scale).entry.get("decoding", {})

    def weights(self, wildcards: _Wildcards) -> Path:
        run = self.run(wildcards)
        return run.last if wildcards.suffix == ".last" else run.average

    def search(self, wildcards: _Wildcards) -> str:
        """Return as JSON in which settings the search for a translation differs from the run's."""
        return json.dumps(DECODINGS[wildcards.suffix])

    def analysed(self, wildcards: _Wildcards) -> list[Path]:
        """Return the files that an analysis reads besides a run's weights and the dev set."""
        return ANALYSES[wildcards.analysis].reads(self.run(wildcards), self.data(wildcards))

    def analysis_options(self, wildcards: _Wildcards) -> _Options:
        """Return an analysis's settings as options of `analyse`."""
        options = ["--data", self.data(wildcards).folder]
        for name, value in registry.settings_of(self.at(wildcards.scale), wildcards.analysis).items():
            options += [f"--{name}", *(value if isinstance(value, list) else [value])]
        return options

    # ------------------------------------------------------------------ tables, figures, the page

    def attended(self, wildcards: _Wildcards) -> registry.Files:
        """Return the files of the base model that translates, and the text that it translates."""
        scale = self.at(wildcards.scale)
        run = scale.run(scale.base())
        text = scale.text(scale.first_task, "test", "source")
        return {"run": [run.experiment, run.decoding, run.vocabulary], "weights": run.average, "text": text}

    def figure_sentences(self, wildcards: _Wildcards) -> str:
        """Return as JSON the sentences of Figures 3 to 5."""
        return json.dumps(self.at(wildcards.scale).entry.get("figures", {}))

    def files_of(self, entries: dict, wildcard: str) -> Callable[[_Wildcards], registry.Files]:
        """Return an input function: the files that a table or figure is made from."""
        return lambda wildcards: entries[getattr(wildcards, wildcard)].files(self.at(wildcards.scale))

    def params_of(self, entries: dict, wildcard: str) -> Callable[[_Wildcards], dict[str, Any]]:
        return lambda wildcards: entries[getattr(wildcards, wildcard)].params(self.at(wildcards.scale))

    def page_files(self, wildcards: _Wildcards) -> registry.Files:
        """Return the files that the page is made from; of a partial page those that are there."""
        scale = self.at(wildcards.scale)
        files = {
            "runs": scale.of_runs(self.reported(scale), lambda run: run.record),
            "scores": [path for name in registry.scored_tables(scale) for path in TABLES[name].score_files(scale)],
            "samples": [path for paths in self.samples(scale) for path in paths],
        }
        if scale.partial:
            files["samples"] = [path for path in files["samples"] if path.is_relative_to("resources") or path.exists()]
        return {name: list(dict.fromkeys(paths)) for name, paths in files.items()} | {
            "tables": [scale.files.table(name, "json") for name in registry.made(scale, TABLES)],
            "figures": [scale.files.figure(name, "svg") for name in registry.made(scale, FIGURES)],
            "attention": scale.fixed(scale.files.attention) if scale.attention_is_known else [],
        }

    def reported(self, scale: Pipeline) -> list[RunName]:
        runs = (run for name in registry.scored_tables(scale) for run in TABLES[name].runs(scale))
        return list(dict.fromkeys(runs))

    def samples(self, scale: Pipeline) -> list[Paths]:
        """Return the test set's translations by each task's first base run, with source and reference."""
        translations = []
        for task in scale.entry["tasks"]:
            run = next((run for run in self.reported(scale) if run[:2] == (task, "base")), None)
            if run:
                sides = [path for side in ("source", "target") for path in scale.text(task, "test", side)]
                translations.append([scale.fixed(scale.run(run).translation("test")), *sides])
        return translations

    def page_params(self, wildcards: _Wildcards) -> dict[str, Any]:
        """Return the parameters of the page: what should be there, what cannot be made and why, and prices."""
        scale, report = self.at(wildcards.scale), self.config["report"]
        runs = {name: TABLES[name].runs(scale) for name in registry.scored_tables(scale)}
        scores = [scale.run(run).scores(TABLES[name].scores) for name, of_table in runs.items() for run in of_table]
        prices = {unit: report[key] for unit, key in (("core", "core_hour"), ("GPU", "gpu_hour"))}
        return {
            "scale": scale.name,
            "title": f"Attention Is All You Need, at scale {scale.name}",
            "label": scale.label,
            "data_of_paper": scale.data_of_paper,
            "runs": [str(scale.fixed(scale.run(run).record)) for run in self.reported(scale)],
            "scores": [str(scale.fixed(path)) for path in dict.fromkeys(scores)],
            "translations": [list(map(str, paths)) for paths in self.samples(scale)],
            "missing": registry.obstacles(scale),
            "samples": report["samples"],
            "prices": {unit: None if price == "unknown" else price for unit, price in prices.items()},
            "currency": report["currency"],
        }

    def everything(self) -> Paths:
        """Return all tables and figures of the scale that is built, and its page."""
        scale = self.at(self.config["scale"])
        tables = product(registry.made(scale, TABLES), ("csv", "json", "md", "tex", "html"))
        figures = product(registry.made(scale, FIGURES), ("pdf", "svg", "png"))
        return [*starmap(scale.files.table, tables), *starmap(scale.files.figure, figures), scale.files.report]


def _given(entry: dict, *keys: str) -> _Options:
    """Return those of these keys that an entry has, as options."""
    return [word for key in keys if key in entry for word in (f"--{key}", entry[key])]
