"""Input and parameter functions of the rules. They derive each job's inputs from configuration and wildcards."""

import json
from collections.abc import Callable
from functools import cache
from itertools import product, starmap
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from transformer.config.experiment import POSITIONS
from transformer.config.scales import PARSER, RunName
from transformer.config.schema import Config, File, ParsingTask, TranslationTask
from transformer.evaluation.analyses import ANALYSES
from transformer.layout import RESOURCES, Data, Run
from transformer.pipeline import registry
from transformer.pipeline.registry import FIGURES, SEARCHES, TABLES
from transformer.pipeline.scale import Pipeline

Paths = list[Path]
_Options = list[str | int | float | Path]
# Changed search settings by suffix of the translations. No suffix: averaged weights (Table 2); .last: last checkpoint
# (Table 3); other suffixes: searches for the table `bleu_variants`.
DECODINGS = {"": {}, ".last": {}} | SEARCHES
_Wildcards = Any  # a job's wildcards as attributes: scale, task, experiment, seed, split ...


class Inputs:
    """The input and parameter functions for one configuration."""

    def __init__(self, config: Config, project: str = ""):
        """Take a configuration, and the project's folder if it is not the working folder."""
        self.config, self.project = config, project
        self.at = cache(lambda scale: Pipeline(config, scale, project))

    def task(self, wildcards: _Wildcards) -> TranslationTask | ParsingTask:
        return self.at(wildcards.scale).tasks[wildcards.task]

    def data(self, wildcards: _Wildcards) -> Data:
        return self.at(wildcards.scale).files.data(wildcards.task)

    def run(self, wildcards: _Wildcards) -> Run:
        return self.at(wildcards.scale).files.run(wildcards.task, wildcards.experiment, wildcards.seed)

    def names_of_tasks(self, parsing: bool) -> list[str]:
        """Return the names of all translation tasks, or of all parsing tasks, in all scales."""
        scales = [self.at(scale) for scale in self.config.scales]
        return sorted({name for scale in scales for name, task in scale.tasks.items() if task.parses == parsing})

    def corpora(self, kind: str) -> list[str]:
        """Return the corpora with a source of this kind: files, grammar or treebank."""
        return [name for name, corpus in self.config.corpora.items() if getattr(corpus, kind)]

    def code(self, *names: str) -> Paths:
        """Return the code files of these modules and packages. Raises FileNotFoundError."""
        found = []
        for place in (Path(self.project, "transformer", name) for name in names):
            files = [place] if place.is_file() else sorted(place.rglob("*.*"))
            found += [path for path in files if "__pycache__" not in path.parts]
            if not files:
                raise FileNotFoundError(f"{place}: expected a module or package, found no file")
        return found

    # ------------------------------------------------------------------ fetch and unpack (§5.1)

    def checksum(self, wildcards: _Wildcards) -> str:
        download = self.config.downloads[wildcards.file]
        return download.sha256 or download.md5 or ""

    def fetch_options(self, wildcards: _Wildcards) -> _Options:
        """Return the options of `fetch`. A changed URL does not change the expected bytes."""
        download = self.config.downloads[wildcards.file]
        options = [word for url in download.urls for word in ("--url", url)]
        for key in ("sha256", "md5", "size"):
            if value := getattr(download, key):
                options += [f"--{key}", value]
        for other in download.alternatives or []:
            options += ["--or", json.dumps(to_builtins(other))]
        return [*options, *(["--mirror", self.config.mirror] if self.config.mirror else [])]

    def file(self, wildcards: _Wildcards) -> File:
        return self.config.corpora[wildcards.corpus].files[wildcards.language]

    def archive(self, wildcards: _Wildcards) -> str:
        return self.file(wildcards).file

    def unpack_options(self, wildcards: _Wildcards) -> dict[str, Any]:
        """Return the format of a text, its path in the archive and its number of lines."""
        file, corpus = self.file(wildcards), self.config.corpora[wildcards.corpus]
        return {"format": file.format or "text", "member": file.member, "lines": corpus.lines}

    def slice_of_grammar(self, wildcards: _Wildcards) -> list[int]:
        """Return the seed of the demo grammar, the number of sentences to skip, and the number to take."""
        grammar = self.config.corpora[wildcards.corpus].grammar
        return [grammar.seed, grammar.skip, grammar.take]

    # ------------------------------------------------------------------ treebanks (§6.3)

    def treebank(self, wildcards: _Wildcards) -> str | list[str]:
        """Return the file of a treebank, or the Penn Treebank's existing files. Its reader reports missing files."""
        treebank = self.config.corpora[wildcards.corpus].treebank
        return sorted(map(str, Path(treebank.path).rglob("*.mrg"))) if treebank.sections else treebank.file

    def treebank_options(self, wildcards: _Wildcards) -> dict[str, Any]:
        """Return a treebank's path, its sections or split, its checksum and its number of trees."""
        corpus = self.config.corpora[wildcards.corpus]
        treebank = corpus.treebank
        known = {"sections": treebank.sections, "split": treebank.split, "sha256": treebank.sha256}
        return {"path": treebank.file, "lines": corpus.lines} | known

    def silver(self, wildcards: _Wildcards) -> list[Path | str]:
        """Return the file of silver trees that a training split adds to its treebanks, if any."""
        silver = self.task(wildcards).silver
        if silver is None or wildcards.split != "train":
            return []
        return [silver.path or self.data(wildcards).silver]

    def mix_options(self, wildcards: _Wildcards) -> dict[str, int]:
        """Return the number of phrases that a split draws, and of treebank copies that are mixed with silver trees."""
        task = self.task(wildcards)
        drawn = (task.phrases or 0) if wildcards.split == "train" else 0
        return {"drawn": drawn, "repeat": task.silver.repeat if self.silver(wildcards) else 1}

    def silver_files(self, wildcards: _Wildcards) -> registry.Files:
        """Return the sources of a task's silver trees: plain text, and the parser's run with the first seed."""
        scale, silver = self.at(wildcards.scale), self.task(wildcards).silver
        run = scale.files.run(silver.parser, PARSER, scale.entry.parsing.seeds[0])
        text = [RESOURCES.corpus(name, "en") for name in silver.text]
        return {"run": [run.experiment, run.vocabulary, run.average], "decoding": run.decoding, "text": text}

    def silver_decoding(self, wildcards: _Wildcards) -> str:
        """Return as JSON the search settings of the parser that makes silver trees."""
        return json.dumps(to_builtins(self.at(wildcards.scale).silver_decoding()))

    # ------------------------------------------------------------------ preprocessing (§5.1)

    def side(self, name: str, split: str | None = None) -> Callable[[_Wildcards], Paths]:
        """Return an input function for a split's trees, or a side of its text. split: None for the wildcards' split."""
        return lambda wildcards: self.at(wildcards.scale).text(wildcards.task, split or wildcards.split, name)

    def vocabulary_of_search(self, wildcards: _Wildcards) -> Paths:
        """Return the vocabulary for a test set's length check. No training waits for it; `encode` checks dev."""
        return [self.data(wildcards).vocabulary] if wildcards.split == "test" else []

    def measured(self, wildcards: _Wildcards) -> Paths:
        """Return the tokenised test set. This job then starts after the check that no sentence is too long."""
        return [self.data(wildcards).tokens("test", "source")] if wildcards.split == "test" else []

    def languages(self, wildcards: _Wildcards) -> list[str]:
        return list(self.task(wildcards).languages)

    def preprocessing(self, wildcards: _Wildcards) -> dict[str, Any]:
        """Return the preprocessing settings of a task."""
        return to_builtins(self.at(wildcards.scale).preprocessing(wildcards.task))

    def longest(self, wildcards: _Wildcards) -> int:
        """Return the maximum number of subwords in a sentence to translate."""
        return POSITIONS - self.at(wildcards.scale).section("decoding").extra_length

    def subset_files(self, wildcards: _Wildcards) -> dict[str, Path]:
        """Return, by name, the reference files of the subsets of a test set that get their own scores."""
        task = self.task(wildcards)
        if wildcards.split != "test":
            return {}
        unseen = {"unseen": self.data(wildcards).unseen} if task.unseen else {}
        return {name: RESOURCES.corpus(corpus, task.target) for name, corpus in (task.subsets or {}).items()} | unseen

    def subsets(self, wildcards: _Wildcards) -> Paths:
        return list(self.subset_files(wildcards).values())

    def subset_options(self, wildcards: _Wildcards) -> _Options:
        """Return the options of `score` for the subsets, and --tokenized if the text is already tokenised."""
        options = [word for name, path in self.subset_files(wildcards).items() for word in ("--subset", name, path)]
        given = self.at(wildcards.scale).preprocessing(wildcards.task).tokenizer == "given"
        return [*options, *(["--tokenized"] if given else [])]

    def vocabulary_file(self, wildcards: _Wildcards) -> list[str]:
        """Return the vocabulary that a task reuses, if any."""
        file = getattr(self.task(wildcards), "vocabulary_file", None)
        return [file] if file else []

    def vocabulary_options(self, wildcards: _Wildcards) -> dict[str, int]:
        """Return the sizes of a vocabulary. A parser's vocabulary has its symbols before its subwords."""
        task = self.task(wildcards)
        return {"subwords": task.vocabulary} | ({"symbols": task.symbols} if task.parses else {})

    # ------------------------------------------------------------------ training, search and scores (§5, §6)

    def experiment(self, wildcards: _Wildcards) -> dict[str, Any]:
        """Return the settings of a run."""
        run = RunName(wildcards.task, wildcards.experiment, int(wildcards.seed))
        return to_builtins(self.at(wildcards.scale).experiment(run))

    def identity(self, wildcards: _Wildcards) -> dict[str, Any]:
        """Return the settings that determine the result of a training."""
        return {key: part for key, part in self.experiment(wildcards).items() if key not in ("label", "running")}

    def initial_weights(self, wildcards: _Wildcards) -> list[str]:
        """Return the file of a training's initial weights, if any. The file may belong to a different run."""
        initial = self.experiment(wildcards)["training"]["initial_weights"]
        return [initial] if initial else []

    def decoding(self, wildcards: _Wildcards) -> dict[str, Any]:
        """Return the search settings of a run."""
        return to_builtins(self.at(wildcards.scale).decoding(wildcards.task))

    def weights(self, wildcards: _Wildcards) -> Path:
        run = self.run(wildcards)
        return run.last if wildcards.suffix == ".last" else run.average

    def search(self, wildcards: _Wildcards) -> str:
        """Return as JSON the changes to the run's search settings for a translation."""
        return json.dumps(DECODINGS[wildcards.suffix])

    def analysed(self, wildcards: _Wildcards) -> list[Path]:
        """Return the files that an analysis reads in addition to the run's weights and the dev set."""
        return ANALYSES[wildcards.analysis].reads(self.run(wildcards), self.data(wildcards))

    def analysis_options(self, wildcards: _Wildcards) -> _Options:
        """Return the settings of an analysis as options of `analyse`."""
        options = ["--data", self.data(wildcards).folder] if ANALYSES[wildcards.analysis].needs_data else []
        for name, value in registry.settings_of(self.at(wildcards.scale), wildcards.analysis).items():
            options += [f"--{name}", *(value if isinstance(value, list) else [value])]
        return options

    # ------------------------------------------------------------------ tables, figures, the page

    def section(self, name: str) -> Callable[[_Wildcards], dict[str, Any]]:
        """Return a params function for a section of the configuration."""
        return lambda wildcards: to_builtins(self.at(wildcards.scale).section(name))

    def attended(self, wildcards: _Wildcards) -> registry.Files:
        """Return the files of the base model, and the text for its attention figures."""
        scale = self.at(wildcards.scale)
        run = scale.run(scale.base())
        text = scale.text(scale.first_task, "test", "source")
        return {"run": [run.experiment, run.decoding, run.vocabulary], "weights": run.average, "text": text}

    def figure_sentences(self, wildcards: _Wildcards) -> str:
        """Return as JSON the sentences of Figures 3 to 5."""
        sentences = to_builtins(self.at(wildcards.scale).entry.figures or {})
        return json.dumps({figure: sentence for figure, sentence in sentences.items() if sentence})

    def files_of(self, entries: dict, wildcard: str) -> Callable[[_Wildcards], registry.Files]:
        """Return an input function for the input files of a table or figure."""
        return lambda wildcards: entries[getattr(wildcards, wildcard)].files(self.at(wildcards.scale))

    def params_of(self, entries: dict, wildcard: str) -> Callable[[_Wildcards], dict[str, Any]]:
        return lambda wildcards: entries[getattr(wildcards, wildcard)].params(self.at(wildcards.scale))

    def page_files(self, wildcards: _Wildcards) -> registry.Files:
        """Return the input files of the page. For a partial page, return only existing files."""
        scale = self.at(wildcards.scale)
        files = {
            "runs": scale.of_runs(self.reported(scale), lambda run: run.record),
            "scores": [path for name in registry.scored_tables(scale) for path in TABLES[name].score_files(scale)],
            "samples": [path for paths in self.samples(scale) for path in paths],
        }
        if self.config.partial:
            files["samples"] = [path for path in files["samples"] if path.is_relative_to("resources") or path.exists()]
        return {name: list(dict.fromkeys(paths)) for name, paths in files.items()} | {
            "tables": [scale.files.table(name, "json") for name in registry.made(scale, TABLES)],
            "figures": [scale.files.figure(name, "svg") for name in registry.made(scale, FIGURES)],
            "attention": [] if registry.unknown_attention(scale) else scale.fixed(scale.files.attention),
        }

    def reported(self, scale: Pipeline) -> list[RunName]:
        runs = (run for name in registry.scored_tables(scale) for run in TABLES[name].runs(scale))
        return list(dict.fromkeys(runs))

    def samples(self, scale: Pipeline) -> list[Paths]:
        """Return three files per task: the first base run's translation of the test set, source and reference.

        Return none for a page without samples.
        """
        translations = []
        for task in scale.entry.tasks if self.config.report.samples else ():
            run = next((run for run in self.reported(scale) if run[:2] == (task, "base")), None)
            if run:
                sides = [path for side in ("source", "target") for path in scale.text(task, "test", side)]
                translations.append([scale.fixed(scale.run(run).translation("test")), *sides])
        return translations

    def page_params(self, wildcards: _Wildcards) -> dict[str, Any]:
        """Return the parameters of the page: expected files, parts that cannot be made (with reasons), and prices."""
        scale, report = self.at(wildcards.scale), self.config.report
        runs = {name: TABLES[name].runs(scale) for name in registry.scored_tables(scale)}
        scores = [scale.run(run).scores(TABLES[name].scores) for name, of_table in runs.items() for run in of_table]
        prices = {"core": report.core_hour, "GPU": report.gpu_hour}
        return {
            "scale": scale.name,
            "title": f"Attention Is All You Need, at scale {scale.name}",
            "label": scale.entry.label,
            "data_of_paper": scale.entry.data_of_paper,
            "made_up": all(self.config.corpora[task.test].grammar for task in scale.entry.tasks.values()),
            "runs": [str(scale.fixed(scale.run(run).record)) for run in self.reported(scale)],
            "scores": [str(scale.fixed(path)) for path in dict.fromkeys(scores)],
            "translations": [list(map(str, paths)) for paths in self.samples(scale)],
            "missing": registry.obstacles(scale),
            "samples": report.samples,
            "prices": {unit: None if price == "unknown" else price for unit, price in prices.items()},
            "currency": report.currency,
        }

    def everything(self) -> Paths:
        """Return all tables and figures of the configured scale, and its page."""
        scale = self.at(self.config.scale)
        tables = product(registry.made(scale, TABLES), ("csv", "json", "md", "tex", "html"))
        figures = product(registry.made(scale, FIGURES), ("pdf", "svg", "png"))
        return [*starmap(scale.files.table, tables), *starmap(scale.files.figure, figures), scale.files.report]


def untracked(function: Callable[[_Wildcards], Any]) -> Callable[[_Wildcards, list[str]], Any]:
    """Wrap a params function so that a changed value does not rerun finished jobs.

    Snakemake does not compare the values of a function that takes `output`, because they may contain paths.
    """
    return lambda wildcards, output: function(wildcards)
