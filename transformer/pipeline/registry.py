"""The tables and figures, each with its title, trainings, input files and parameters.

For each entry, transformer/report/build.py has a function of equal name. This function takes the files and parameters
by name. This module does not import build.py, because Snakemake must start without the plotting packages.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from transformer.config.scales import BLEU_VARIANTS, RunName, set_keys
from transformer.evaluation.analyses import ANALYSES
from transformer.layout import RESOURCES, Run
from transformer.pipeline.scale import Pipeline
from transformer.storage.files import InputError

Files = dict[str, Path | list[Path]]

# The base model's searches with other settings, for the table `bleu_variants`: changes by suffix of the translations.
SEARCHES = {".beam-1": {"beam": 1}, ".alpha-0": {"alpha": 0.0}, ".extra_length-0": {"extra_length": 0}}
# A parser's two searches, as option by suffix of the trees: trees are repaired, or only valid trees are searched.
PARSER_SEARCHES = {"": "", ".constrained": "--constrained"}


def _no_runs(pipeline: Pipeline) -> list[RunName]:
    return []


@dataclass(frozen=True)
class _Entry:
    """A table or a figure: its title on the page, and its inputs."""

    title: str
    paper: str = ""  # name of the file with the paper's numbers, workflow/paper/{paper}.csv
    runs: Callable[[Pipeline], list[RunName]] = _no_runs  # trainings in the table or figure
    scores: str = ""  # name of each run's score file, without ending
    tested: bool = False  # true if scores on the test set are read as well
    texts: tuple[str, ...] = ()  # texts of the scale to pass: label, dev_label, data_of_paper
    own_files: Callable[[Pipeline], Files] = lambda pipeline: {}
    own_params: Callable[[Pipeline], dict[str, Any]] = lambda pipeline: {}
    obstacle: Callable[[Pipeline], str | None] = lambda pipeline: None  # reason why a scale cannot have the entry

    def score_files(self, pipeline: Pipeline, name: str = "") -> list[Path]:
        return pipeline.of_runs(self.runs(pipeline), lambda run: run.scores(name or self.scores))

    def files(self, pipeline: Pipeline) -> Files:
        files: Files = {"paper": pipeline.paper(self.paper)} if self.paper else {}
        files |= {"score": self.score_files(pipeline)} if self.scores else {}
        files |= {"test": self.score_files(pipeline, "test")} if self.tested else {}
        return files | self.own_files(pipeline)

    def params(self, pipeline: Pipeline) -> dict[str, Any]:
        """Return the parameters: texts of the scale, names of the expected runs, and the entry's own parameters."""
        entry, dev = pipeline.entry, pipeline.tasks[pipeline.first_task].dev
        known = {"label": entry.label, "dev_label": dev, "data_of_paper": entry.data_of_paper}
        params = {name: known[name] for name in self.texts}
        params |= {} if self.runs is _no_runs else {"expected": list(map(str, self.runs(pipeline)))}
        return params | self.own_params(pipeline)


# ------------------------------------------------------------------ tables


def _layer_times(pipeline: Pipeline) -> Files:
    return {"measured": pipeline.fixed(pipeline.files.layers)}


def _recall(pipeline: Pipeline) -> Files:
    """Return the file of recall by distance. It takes minutes, so only a scale with other architectures measures it.

    For a partial page, return none if the file is missing.
    """
    path, asked = pipeline.fixed(pipeline.files.recall), _baseline_runs(pipeline)
    return {"recall": [path] if (path.exists() if pipeline.config.partial else asked) else []}


def _table_4_files(pipeline: Pipeline) -> Files:
    runs = pipeline.parser_runs()
    second = [run for run in runs if pipeline.parsing[run.task].out_of_domain]
    return {
        "constrained": pipeline.of_runs(runs, lambda run: run.scores("test", ".constrained")),
        "dev": pipeline.of_runs(runs, lambda run: run.scores("dev")),
        "out_of_domain": pipeline.of_runs(second, lambda run: run.scores("elsewhere", ".constrained")),
    }


def _table_4_params(pipeline: Pipeline) -> dict[str, Any]:
    tasks = pipeline.parsing
    entries = {
        name: {"training": task.training, "label": task.label, "silver": task.silver is not None}
        for name, task in tasks.items()
    }
    second = dict.fromkeys(task.out_of_domain for task in tasks.values() if task.out_of_domain)
    return {"task": entries, "out_of_domain_label": " and ".join(second)}


def _no_treebank(pipeline: Pipeline) -> str | None:
    missing = not pipeline.parsing or pipeline.absent_treebank
    return "this scale or this machine has no treebank" if missing else None


def _stated_runs(pipeline: Pipeline) -> list[RunName]:
    return pipeline.table_2_runs() + ([] if _no_treebank(pipeline) else pipeline.parser_runs())


def _training_files(pipeline: Pipeline) -> Files:
    runs = _stated_runs(pipeline)
    manifests = [pipeline.files.data(task).manifest for task in dict.fromkeys(run.task for run in runs)]
    return {"run": pipeline.of_runs(runs, lambda run: run.record), "data": pipeline.available(manifests)}


def settings_of(pipeline: Pipeline, analysis: str) -> dict[str, Any]:
    """Return the settings of an analysis at this scale. Raises InputError if a setting is missing."""
    if missing := _missing_settings(pipeline, analysis):
        raise InputError(f"analyses: {analysis}: missing key {missing[0]!r} at scale {pipeline.name}")
    given = set_keys(pipeline.section("analyses"))
    return {key: given[key] for key in ANALYSES[analysis].Settings.__struct_fields__ if key in given}


def _missing_settings(pipeline: Pipeline, analysis: str) -> list[str]:
    """Return the missing required keys of an analysis in the section `analyses`."""
    given = set_keys(pipeline.section("analyses"))
    fields = msgspec.structs.fields(ANALYSES[analysis].Settings)
    return [field.name for field in fields if field.required and field.name not in given]


def analysed_runs(pipeline: Pipeline, analysis: str) -> list[RunName]:
    """Return the runs that an analysis measures at this scale. Return none if the scale omits a required setting."""
    kind = ANALYSES[analysis]
    if _missing_settings(pipeline, analysis) or (kind.needs_heads and _no_transformer(pipeline)):
        return []
    named = [run for run in pipeline.table_5_runs() if run.experiment in kind.experiments]
    return named + (_baseline_runs(pipeline) if kind.of_baselines else [])


def _analysis_files(pipeline: Pipeline, analysis: str) -> list[Path]:
    return pipeline.of_runs(analysed_runs(pipeline, analysis), lambda run: run.analysis(analysis))


def _bleu_variant_files(pipeline: Pipeline) -> Files:
    """Return the files of `bleu_variants`. For a partial page, list a search only if all runs have its translation."""
    base = pipeline.runs([pipeline.first_task], ["base"])
    scored = pipeline.of_runs(base, lambda run: run.scores("test"))
    task = pipeline.tasks[pipeline.first_task]

    def beside(file: Callable[[Run], Path]) -> list[Path]:
        paths = [pipeline.fixed(file(Run(path.parent))) for path in scored]
        return paths if not pipeline.config.partial or all(path.exists() for path in paths) else []

    return {
        "score": scored,
        "hyp": beside(lambda run: run.translation("test")),
        "last": beside(lambda run: run.translation("test", ".last")),
        "ref": RESOURCES.corpus(task.test, task.target),
        "dev_score": TABLES["bleu_variants"].score_files(pipeline),
        "measures": pipeline.paper("measures"),
        "vocabulary": beside(lambda run: run.vocabulary),
        "experiment": beside(lambda run: run.experiment),
    } | {_name_of_search(suffix): beside(lambda run, s=suffix: run.translation("test", s)) for suffix in SEARCHES}


def _name_of_search(suffix: str) -> str:
    """Return a search's key in the files of the table `bleu_variants`: beam_1, alpha_0."""
    return suffix.removeprefix(".").replace("-", "_")


def _architectures(pipeline: Pipeline) -> dict[str, Any]:
    runs = _first_runs(pipeline)
    return {"architectures": {run.experiment: pipeline.experiment(run).model.architecture for run in runs}}


def _first_runs(pipeline: Pipeline) -> list[RunName]:
    """Return the first run of each row of Table 2. Tasks may train different rows."""
    firsts: dict[str, RunName] = {}
    for run in pipeline.table_2_runs():
        firsts.setdefault(run.experiment, run)
    return list(firsts.values())


def _logs(pipeline: Pipeline, runs: list[RunName]) -> Files:
    return {"metrics": pipeline.of_runs(runs, lambda run: run.metrics)}


TABLES = {  # in the order of the page
    "table1": _Entry(
        "Table 1: kinds of layers", paper="table1", own_files=lambda scale: _layer_times(scale) | _recall(scale)
    ),
    "table2": _Entry(
        "Table 2: translation",
        paper="table2",
        runs=Pipeline.table_2_runs,
        scores="test",
        texts=("label", "data_of_paper"),
        own_files=lambda pipeline: {
            "settings": pipeline.paper("table3"),
            "stated": pipeline.paper("training"),
            **_logs(pipeline, pipeline.runs(pipeline.entry.tasks, ["base", *pipeline.config.baselines])),
            "lengths": _analysis_files(pipeline, "lengths"),
        },
        own_params=_architectures,
    ),
    "table3": _Entry(
        "Table 3: variations on the model",
        paper="table3",
        runs=Pipeline.table_3_runs,
        scores="dev.last",
        tested=True,
        texts=("label", "dev_label", "data_of_paper"),
        own_params=lambda pipeline: {
            "values": pipeline.values(dict.fromkeys(run.experiment for run in pipeline.table_3_runs()))
        },
    ),
    "table4": _Entry(
        "Table 4: parsing",
        paper="table4",
        runs=Pipeline.parser_runs,
        scores="test",
        texts=("data_of_paper",),
        own_files=_table_4_files,
        own_params=_table_4_params,
        obstacle=_no_treebank,
    ),
    "table5": _Entry(
        "Table 5: the paper's claims about its design",
        paper="table5",
        runs=Pipeline.table_5_runs,
        scores="dev.last",
        tested=True,
        texts=("label", "dev_label"),
        own_files=lambda pipeline: {name: _analysis_files(pipeline, name) for name in ANALYSES},
        own_params=lambda pipeline: {
            "ablations": pipeline.trained_ablations,
            "expected_analyses": [f"{name}:{run}" for name in ANALYSES for run in analysed_runs(pipeline, name)],
        },
    ),
    "training": _Entry(
        "Data and training, stated and measured",
        paper="training",
        own_files=_training_files,
        own_params=lambda pipeline: {
            "expected": list(map(str, _stated_runs(pipeline))),
            "subwords": {name: task.vocabulary for name, task in pipeline.tasks.items()},
        },
    ),
    "bleu_variants": _Entry(
        "What each choice is worth",
        paper="table2",
        runs=lambda pipeline: pipeline.runs([pipeline.first_task], BLEU_VARIANTS),
        scores="dev.last",
        texts=("dev_label",),
        own_files=_bleu_variant_files,
        own_params=lambda pipeline: {
            "label": f"{pipeline.name}: {pipeline.tasks[pipeline.first_task].test}",
            "searches": {_name_of_search(suffix): changes for suffix, changes in SEARCHES.items()},
        },
    ),
}


# ------------------------------------------------------------------ figures


def _no_weights(pipeline: Pipeline) -> str | None:
    weights = pipeline.base_file(lambda run: run.average)
    there = not pipeline.config.partial or weights.exists()
    return None if there else f"no file {'/'.join(weights.parts[-4:])}"


def _no_transformer(pipeline: Pipeline) -> str | None:
    architecture = pipeline.base_model.architecture
    return None if architecture == "transformer" else f"expected a Transformer as base model, found {architecture!r}"


def _no_positions(pipeline: Pipeline) -> str | None:
    none = "the base model has no positions" if pipeline.base_model.positions == "none" else None
    return _no_transformer(pipeline) or none or _no_weights(pipeline)


def _no_dot_products(pipeline: Pipeline) -> str | None:
    attention = pipeline.base_model.attention
    other = f"expected dot-product attention in the base model, found {attention}" if attention != "dot" else None
    return _no_transformer(pipeline) or other


def _no_heads(pipeline: Pipeline) -> str | None:
    base = [run for run in analysed_runs(pipeline, "heads") if run == pipeline.base()]
    if pipeline.of_runs(base, lambda run: run.analysis("heads")):
        return None
    unmeasured = "the base model is trained, but its heads are not measured"
    return _no_transformer(pipeline) or _no_weights(pipeline) or unmeasured


def unknown_attention(pipeline: Pipeline) -> str | None:
    """Return the reason why the attention of the base model neither exists nor can be computed."""
    return _no_transformer(pipeline) or (None if pipeline.files.attention.exists() else _no_weights(pipeline))


def _attention_figure(name: str, title: str) -> _Entry:
    def obstacle(pipeline: Pipeline) -> str | None:
        if getattr(pipeline.entry.figures, name, None) is None:
            return "config.yaml has no sentence for this figure at this scale"
        return unknown_attention(pipeline)

    def files(pipeline: Pipeline) -> Files:
        return {"attention": pipeline.fixed(pipeline.files.attention)}

    return _Entry(title, own_files=files, obstacle=obstacle)


def _base_experiment(pipeline: Pipeline) -> Files:
    return {"experiment": pipeline.base_file(lambda run: run.experiment)}


def _runs_of_curves(pipeline: Pipeline) -> list[RunName]:
    tables = [TABLES[name] for name in ("table3", "table5", "table2", "table4")]
    return list(dict.fromkeys(run for entry in tables if not entry.obstacle(pipeline) for run in entry.runs(pipeline)))


def _base_and_baselines(pipeline: Pipeline) -> list[RunName]:
    return pipeline.runs([pipeline.first_task], ["base", *pipeline.config.baselines])


def _baseline_runs(pipeline: Pipeline) -> list[RunName]:
    return pipeline.runs([pipeline.first_task], pipeline.config.baselines)


def _no_baseline(pipeline: Pipeline) -> str | None:
    trained = pipeline.of_runs(_baseline_runs(pipeline), lambda run: run.scores("test"))
    return None if trained else "no model with a different architecture is trained"


def _no_variation(pipeline: Pipeline) -> str | None:
    runs = pipeline.table_3_runs()
    trained = {run.experiment for run in runs if pipeline.of_runs([run], lambda run: run.scores("dev.last"))}
    found = ", ".join(sorted(trained)) or "none"
    return None if trained > {"base"} else f"expected base and another trained row of Table 3, found {found}"


FIGURES = {  # in the order of the page
    "differences": _Entry(
        "Table 3: the differences from base",
        paper="table3",
        runs=Pipeline.table_3_runs,
        scores="dev.last",
        tested=True,
        obstacle=_no_variation,
    ),
    "figure1": _Entry("Figure 1: the model", own_files=_base_experiment, obstacle=_no_transformer),
    "figure2": _Entry("Figure 2: attention", own_files=_base_experiment, obstacle=_no_dot_products),
    "figure3": _attention_figure("figure3", "Figure 3: attention over a long distance"),
    "figure4": _attention_figure("figure4", "Figure 4: attention and anaphora"),
    "figure5": _attention_figure("figure5", "Figure 5: attention and structure"),
    "positions": _Entry(
        "Positional encoding",
        own_files=lambda pipeline: (
            _base_experiment(pipeline) | {"weights": pipeline.base_file(lambda run: run.average)}
        ),
        obstacle=_no_positions,
    ),
    "schedule": _Entry(
        "Learning rate",
        own_files=lambda pipeline: {
            "experiment": pipeline.of_runs(
                _first_runs(pipeline),
                lambda run: run.experiment,
            )
        },
    ),
    "curves": _Entry(
        "Learning curves",
        runs=_runs_of_curves,
        texts=("dev_label",),
        own_files=lambda pipeline: _logs(pipeline, _runs_of_curves(pipeline)),
    ),
    "bleu_parameters": _Entry(
        "BLEU and parameters", paper="table3", runs=Pipeline.table_3_runs, scores="dev.last", texts=("dev_label",)
    ),
    "bleu_flops": _Entry(
        "BLEU and the cost of training", paper="table2", runs=Pipeline.table_2_runs, scores="test", texts=("label",)
    ),
    "cost_curves": _Entry(
        "BLEU and the cost of training so far",
        runs=_base_and_baselines,
        scores="test",
        texts=("dev_label",),
        own_files=lambda pipeline: _logs(pipeline, _base_and_baselines(pipeline)),
        obstacle=_no_baseline,
    ),
    "timing": _Entry("Time of a layer", own_files=_layer_times),
    "recall": _Entry(
        "Recall by distance",
        own_files=lambda pipeline: {"recall": pipeline.fixed(pipeline.files.recall)},
        obstacle=lambda pipeline: None if _recall(pipeline)["recall"] else "recall is not measured",
    ),
    "head_importance": _Entry(
        "Heads: importance and distance",
        own_files=lambda pipeline: {"heads": pipeline.base_file(lambda run: run.analysis("heads"))},
        obstacle=_no_heads,
    ),
    "bleu_length": _Entry(
        "BLEU and sentence length",
        runs=lambda pipeline: analysed_runs(pipeline, "lengths"),
        texts=("dev_label",),
        own_files=lambda pipeline: {"lengths": _analysis_files(pipeline, "lengths")},
    ),
}


def made(pipeline: Pipeline, entries: dict[str, _Entry]) -> list[str]:
    """Return the names of the tables or figures that a scale can have."""
    return [name for name, entry in entries.items() if not entry.obstacle(pipeline)]


def obstacles(pipeline: Pipeline) -> dict[str, str]:
    """Return, by title, the reason why a scale cannot have a part of the page."""
    found = {entry.title: entry.obstacle(pipeline) for entry in [*TABLES.values(), *FIGURES.values()]}
    found["Attention viewer"] = unknown_attention(pipeline)
    return {title: reason for title, reason in found.items() if reason}


def scored_tables(pipeline: Pipeline) -> list[str]:
    """Return the tables with scores, in the page's order. `bleu_variants` only repeats runs of Tables 2 and 3."""
    return [name for name in made(pipeline, TABLES) if TABLES[name].scores and name != "bleu_variants"]
