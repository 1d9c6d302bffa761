"""The tables, figures and analyses. Each has one entry here and is listed nowhere else.

An entry of a table or figure names the function that makes it, the trainings that it needs, the files that the function
reads, by name, and its parameters. To add one, write the function and add an entry.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from transformer.config.runs import TABLE_2, WHY, RunName, parser_runs, runs_of, tested_claims
from transformer.layout import Run
from transformer.pipeline import RESOURCES, Pipeline, names

Files = dict[str, Path | list[Path]]

# What is measured on trained runs for Table 5, and on which experiments.
ANALYSES = {
    "averaging": ("base", "big"),
    "heads": ("base",),
    "lengths": ("base", "learned-positions", "no-positions"),
    "smoothing": ("base", "smoothing-0.0", "smoothing-0.2"),
}
# Other searches by the base model, for the table `why`: the suffix of their translations, and what differs.
SEARCHES = {".beam-1": {"beam": 1}, ".alpha-0": {"alpha": 0.0}, ".extra_length-0": {"extra_length": 0}}
# How a parser searches: the suffix of its trees, and the option. Trees are repaired, or search is held to trees.
PARSER_SEARCHES = {"": "", ".constrained": "--constrained"}
# The experiments that Table 5 compares the claims with, or measures.
TABLE_5 = ("base", "big", "heads-1", "N-2", "learned-positions", "smoothing-0.0", "smoothing-0.2")


@dataclass(frozen=True)
class Entry:
    """A table or a figure: its title on the page, and how it is made."""

    title: str
    function: str  # module:function in transformer.report; takes the files and the parameters as two namespaces
    files: Callable[[Pipeline], Files]
    params: Callable[[Pipeline], dict[str, Any]] = lambda pipeline: {}
    runs: Callable[[Pipeline], list[RunName]] = lambda pipeline: []  # the trainings that it needs
    scores: str = ""  # of a table of scores, the name of each run's score file without its ending
    obstacle: Callable[[Pipeline], str | None] = lambda pipeline: None  # why a scale cannot have it

    def make(self, files: Any, params: Any) -> Any:
        """Import the function and call it."""
        module, function = self.function.split(":")
        return getattr(import_module(f"transformer.report.{module}"), function)(files, params)


def scores(pipeline: Pipeline, table: str) -> list[Path]:
    """Return the score files of a table."""
    entry = TABLES[table]
    return pipeline.of_runs(entry.runs(pipeline), lambda run: run.scores(entry.scores))


def expected(pipeline: Pipeline, table: str) -> list[str]:
    """Return the names of all runs that a table should have."""
    return names(TABLES[table].runs(pipeline))


# ------------------------------------------------------------------ tables


def runs_of_table_2(pipeline: Pipeline) -> list[RunName]:
    return runs_of(pipeline.config, pipeline.entry["tasks"], TABLE_2)


def runs_of_table_3(pipeline: Pipeline) -> list[RunName]:
    return runs_of(pipeline.config, [pipeline.first_task], pipeline.config["experiments"])


def runs_of_table_4(pipeline: Pipeline) -> list[RunName]:
    return parser_runs(pipeline.config)


def runs_of_table_5(pipeline: Pipeline) -> list[RunName]:
    compared = [name for name in TABLE_5 if name in pipeline.config["experiments"]]
    return runs_of(pipeline.config, [pipeline.first_task], [*compared, *tested_claims(pipeline.config)])


def runs_of_why(pipeline: Pipeline) -> list[RunName]:
    return runs_of(pipeline.config, [pipeline.first_task], WHY)


def table_3_params(pipeline: Pipeline) -> dict[str, Any]:
    settings = {"width": pipeline.entry["width"], "depth": pipeline.entry["depth"], "own": pipeline.own_values}
    return compared_params(pipeline, "table3", pipeline.dev_label) | settings


def table_4_files(pipeline: Pipeline) -> Files:
    runs = runs_of_table_4(pipeline)
    second = [run for run in runs if "elsewhere" in pipeline.tasks[run.task]]
    return {
        "paper": pipeline.paper("table4"),
        "score": scores(pipeline, "table4"),
        "constrained": pipeline.of_runs(runs, lambda run: run.scores("test", ".constrained")),
        "elsewhere": pipeline.of_runs(second, lambda run: run.scores("elsewhere", ".constrained")),
    }


def table_4_params(pipeline: Pipeline) -> dict[str, Any]:
    tasks = pipeline.parsing
    entries = {
        name: {"training": task["training"], "label": task["label"], "silver": "silver" in task}
        for name, task in tasks.items()
    }
    second = dict.fromkeys(task["elsewhere"] for task in tasks.values() if "elsewhere" in task)
    return {
        "task": entries,
        "elsewhere_label": " and ".join(second),
        "data_of_paper": pipeline.data_of_paper,
        "expected": expected(pipeline, "table4"),
    }


def no_treebank(pipeline: Pipeline) -> str | None:
    missing = not pipeline.parsing or pipeline.absent_treebank
    return "this scale has no treebank, or it is not on this machine" if missing else None


def analysed_runs(pipeline: Pipeline, analysis: str) -> list[RunName]:
    """Return the runs of Table 5 that an analysis measures."""
    return [run for run in runs_of_table_5(pipeline) if run.experiment in ANALYSES[analysis]]


def analysis_files(pipeline: Pipeline, analysis: str) -> list[Path]:
    """Return the results of an analysis."""
    return pipeline.of_runs(analysed_runs(pipeline, analysis), lambda run: run.analysis(analysis))


def table_5_files(pipeline: Pipeline) -> Files:
    analyses = {name: analysis_files(pipeline, name) for name in ANALYSES}
    return {"paper": pipeline.paper("table5"), "score": scores(pipeline, "table5")} | analyses


def table_5_params(pipeline: Pipeline) -> dict[str, Any]:
    probes = [f"{name}:{run}" for name in ANALYSES for run in names(analysed_runs(pipeline, name))]
    return {"label": pipeline.dev_label, "expected": expected(pipeline, "table5"), "probes": probes}


def why_files(pipeline: Pipeline) -> Files:
    """Return what the table `why` reads; of a partial page, another search's translations all or none."""
    base = [run for run in runs_of_why(pipeline) if run.experiment == "base"]
    scored = pipeline.of_runs(base, lambda run: run.scores("test"))
    task = pipeline.tasks[pipeline.first_task]

    def beside(file: Callable[[Run], Path]) -> list[Path]:
        paths = [pipeline.fixed(file(Run(path.parent))) for path in scored]
        return paths if not pipeline.partial or all(path.exists() for path in paths) else []

    return {
        "paper": pipeline.paper("table2"),
        "score": scored,
        "hyp": beside(lambda run: run.translation("test")),
        "last": beside(lambda run: run.translation("test", ".last")),
        "ref": RESOURCES.corpus(task["test"], task["target"]),
        "dev_score": scores(pipeline, "why"),
        "measures": pipeline.paper("measures"),
        "also": beside(lambda run: run.vocabulary) + beside(lambda run: run.experiment),
    } | {name_of_search(suffix): beside(lambda run, s=suffix: run.translation("test", s)) for suffix in SEARCHES}


def name_of_search(suffix: str) -> str:
    """Return the name of a search's translations among the files of `why`: beam_1, alpha_0."""
    return suffix.removeprefix(".").replace("-", "_")


def why_params(pipeline: Pipeline) -> dict[str, Any]:
    searches = {name_of_search(suffix): changes for suffix, changes in SEARCHES.items()}
    labels = {"label": f"{pipeline.name}: {pipeline.tasks[pipeline.first_task]['test']}"}
    return labels | {
        "dev_label": pipeline.dev_label,
        "expected": expected(pipeline, "why"),
        "searches": searches,
    }


def scored_files(table: str) -> Callable[[Pipeline], Files]:
    return lambda pipeline: {"paper": pipeline.paper(table), "score": scores(pipeline, table)}


def compared_params(pipeline: Pipeline, table: str, label: str) -> dict[str, Any]:
    return {"label": label, "data_of_paper": pipeline.data_of_paper, "expected": expected(pipeline, table)}


TABLES = {  # in the page's order
    "table1": Entry(
        title="Table 1: kinds of layers",
        function="tables.table1:table1",
        files=lambda pipeline: {"paper": pipeline.paper("table1"), "measured": pipeline.fixed(pipeline.files.layers)},
    ),
    "table2": Entry(
        title="Table 2: translation",
        function="tables.table2:table2",
        runs=runs_of_table_2,
        scores="test",
        files=scored_files("table2"),
        params=lambda pipeline: compared_params(pipeline, "table2", pipeline.label),
    ),
    "table3": Entry(
        title="Table 3: variations on the model",
        function="tables.table3:table3",
        runs=runs_of_table_3,
        scores="dev.last",
        files=scored_files("table3"),
        params=table_3_params,
    ),
    "table4": Entry(
        title="Table 4: parsing",
        function="tables.table4:table4",
        runs=runs_of_table_4,
        scores="test",
        files=table_4_files,
        params=table_4_params,
        obstacle=no_treebank,
    ),
    "table5": Entry(
        title="Table 5: the paper's claims about its design",
        function="tables.table5:table5",
        runs=runs_of_table_5,
        scores="dev.last",
        files=table_5_files,
        params=table_5_params,
    ),
    "why": Entry(
        title="What each choice is worth",
        function="tables.why:why",
        runs=runs_of_why,
        scores="dev.last",
        files=why_files,
        params=why_params,
    ),
}


# ------------------------------------------------------------------ figures


def untrained(pipeline: Pipeline) -> str | None:
    return None if pipeline.base_is_trained else "the base model that it shows is not trained"


def no_sentence(figure: str) -> Callable[[Pipeline], str | None]:
    def obstacle(pipeline: Pipeline) -> str | None:
        if figure not in pipeline.entry.get("figures", {}):
            return "config.yaml has no sentence for it at this scale"
        return None if pipeline.attention_is_known else untrained(pipeline)

    return obstacle


def no_positions(pipeline: Pipeline) -> str | None:
    return "the base model has none" if pipeline.base_model.positions == "none" else untrained(pipeline)


def no_dot_products(pipeline: Pipeline) -> str | None:
    if (attention := pipeline.base_model.attention) == "dot":
        return None
    return f"it shows dot products, and attention in the base model is {attention}"


def no_heads(pipeline: Pipeline) -> str | None:
    if pipeline.of_runs([pipeline.base()], lambda run: run.analysis("heads")):
        return None
    return untrained(pipeline) or "the base model is trained, but its heads were not measured"


def attention_figure(name: str, title: str) -> Entry:
    files = {"files": lambda pipeline: {"attention": pipeline.fixed(pipeline.files.attention)}}
    return Entry(title=title, function=f"figures.attention:{name}", obstacle=no_sentence(name), **files)


def base_experiment(pipeline: Pipeline) -> Files:
    return {"experiment": pipeline.base_file(lambda run: run.experiment)}


def curves_runs(pipeline: Pipeline) -> list[RunName]:
    """Return the trainings of Tables 2 to 4, each once."""
    tables = [TABLES[name] for name in ("table3", "table2", "table4")]
    return list(dict.fromkeys(run for entry in tables if not entry.obstacle(pipeline) for run in entry.runs(pipeline)))


def curves_params(pipeline: Pipeline) -> dict[str, Any]:
    task = pipeline.first_task if pipeline.data_of_paper else None
    return {"task": task, "label": pipeline.dev_label, "expected": names(curves_runs(pipeline))}


def figure_params(table: str) -> Callable[[Pipeline], dict[str, Any]]:
    def params(pipeline: Pipeline) -> dict[str, Any]:
        label = pipeline.label if table == "table2" else pipeline.dev_label
        return {"label": label, "expected": expected(pipeline, table)}

    return params


FIGURES = {  # in the page's order
    "figure1": Entry("Figure 1: the model", "figures.architecture:figure1", base_experiment),
    "figure2": Entry("Figure 2: attention", "figures.architecture:figure2", base_experiment, obstacle=no_dot_products),
    "figure3": attention_figure("figure3", "Figure 3: attention over a long distance"),
    "figure4": attention_figure("figure4", "Figure 4: attention and anaphora"),
    "figure5": attention_figure("figure5", "Figure 5: attention and structure"),
    "positions": Entry(
        title="Positional encoding",
        function="figures.formulas:positions",
        files=lambda pipeline: base_experiment(pipeline) | {"weights": pipeline.base_file(lambda run: run.average)},
        obstacle=no_positions,
    ),
    "schedule": Entry(
        title="Learning rate",
        function="figures.formulas:schedule",
        files=lambda pipeline: {
            "experiment": pipeline.of_runs(
                [run for run in runs_of_table_2(pipeline) if run == pipeline.base(run.experiment)],
                lambda run: run.experiment,
            )
        },
    ),
    "curves": Entry(
        title="Learning curves",
        function="figures.curves:curves",
        files=lambda pipeline: {
            "metrics": pipeline.of_runs(curves_runs(pipeline), lambda run: run.metrics),
            "paper": pipeline.paper("table3"),
        },
        params=curves_params,
    ),
    "bleu_parameters": Entry(
        title="BLEU and parameters",
        function="figures.cost:bleu_parameters",
        files=scored_files("table3"),
        params=figure_params("table3"),
    ),
    "bleu_flops": Entry(
        title="BLEU and the cost of training",
        function="figures.cost:bleu_flops",
        files=lambda pipeline: scored_files("table2")(pipeline) | {"dev": scores(pipeline, "table3")},
        params=figure_params("table2"),
    ),
    "timing": Entry(
        title="Time of a layer",
        function="figures.formulas:timing",
        files=lambda pipeline: {"measured": pipeline.fixed(pipeline.files.layers)},
    ),
    "head_importance": Entry(
        title="Heads: importance and distance",
        function="figures.heads:head_importance",
        files=lambda pipeline: {"heads": pipeline.base_file(lambda run: run.analysis("heads"))},
        obstacle=no_heads,
    ),
    "bleu_length": Entry(
        title="BLEU and sentence length",
        function="figures.lengths:bleu_length",
        files=lambda pipeline: {"lengths": analysis_files(pipeline, "lengths")},
        params=lambda pipeline: {
            "label": pipeline.dev_label,
            "expected": names(analysed_runs(pipeline, "lengths")),
        },
    ),
}


def made(pipeline: Pipeline, entries: dict[str, Entry]) -> list[str]:
    """Return the tables or figures that a scale has."""
    return [name for name, entry in entries.items() if not entry.obstacle(pipeline)]


def obstacles(pipeline: Pipeline) -> dict[str, str]:
    """Return why tables, figures and the attention viewer cannot be made, by name."""
    found = {name: entry.obstacle(pipeline) for name, entry in [*TABLES.items(), *FIGURES.items()]}
    found["attention"] = None if pipeline.attention_is_known else untrained(pipeline)
    return {name: reason for name, reason in found.items() if reason}


def scored_tables(pipeline: Pipeline) -> list[str]:
    """Return the tables of scores whose runs the page describes, in its order; `why` shows runs of Tables 2 and 3."""
    return [name for name in made(pipeline, TABLES) if TABLES[name].scores and name != "why"]
