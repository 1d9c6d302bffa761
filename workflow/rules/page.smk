# Answers the report rule's questions: what is to be on the page of a scale, and where it lies.
PARTS = {"table": ["table1", "table2", "table3", "table4", "why"], "figure": list(FIGURES)}  # in the page's order
ENDINGS = {"table": "html", "figure": "svg"}


def made_of_page(wildcards):
    """All tables and figures that can be made at this scale."""
    return [*tables_of_scale(wildcards.scale), *figures_of_scale(wildcards.scale)]


def parts_of_page(kind):
    """An input function: those tables, or those figures."""

    def files(wildcards):
        made = made_of_page(wildcards)
        return [f"results/{wildcards.scale}/{kind}s/{part}.{ENDINGS[kind]}" for part in PARTS[kind] if part in made]

    return files


def why_not_made(wildcards, part):
    """What a part of the page lacks."""
    if part == "table4":
        return "this scale has no treebank, or it is not on this machine"
    if part in {"figure3", "figure4", "figure5"} - set(config["scales"][wildcards.scale].get("figures", {})):
        return "config.yaml has no sentence for it at this scale"
    return "the base model that it shows is not trained"


def runs_of_page(file):
    """An input function: this file of every run in a table; if None, its score there."""

    def files(wildcards):
        tables = [(runs_of_table_2, "test.json"), (runs_of_table_3, "dev.last.json")]
        if "table4" in tables_of_scale(wildcards.scale):
            tables.append((runs_of_table_4, "test.json"))
        return list(dict.fromkeys(path for runs, score in tables for path in runs(file or score)(wildcards)))

    return files


def attention_of_page(wildcards):
    """What the attention viewer shows; of a partial page, where the base model is trained."""
    trained = all(Path(path).exists() for path in base_run("average.safetensors")(wildcards))
    return f"results/{wildcards.scale}/attention.json" if trained or not config["partial"] else []


def samples_of_page(wildcards):
    """Files by option: of every task its first run's output on the test set, and what it is compared with."""
    corpora, scale = "resources/corpora", config["scales"][wildcards.scale]
    translations, parses = [], []
    for task, about in scale["tasks"].items():
        (ours,) = run_files(wildcards.scale, [task], ["base"], "test.hyp", scale["seeds"][:1])
        translations.append([ours, *(f"{corpora}/{about['test']}.{about[side]}" for side in ("source", "target"))])
    if "table4" in tables_of_scale(wildcards.scale):
        parsing = parsing_of(wildcards.scale)
        for task, about in parsing["tasks"].items():
            (ours,) = run_files(wildcards.scale, [task], [PARSER], "test.trees", parsing["seeds"][:1])
            parses.append([ours, f"{corpora}/{about['test']}.trees"])
    return {"--translations": translations, "--parses": parses}


def files_of_samples(wildcards):
    """The same files; of a partial page, where the output is there already."""
    sets = [files for of_option in samples_of_page(wildcards).values() for files in of_option]
    return [path for files in sets if not config["partial"] or Path(files[0]).exists() for path in files]


def options_of_page(wildcards, input):
    """What is to be there besides the inputs, what cannot be made, and an hour's cost, as options of the report stage."""
    options = ["--samples", config["report"]["samples"], "--currency", config["report"]["currency"]]
    made = made_of_page(wildcards) + (["attention"] if input.attention else [])
    for part in [*PARTS["table"], *PARTS["figure"], "attention"]:
        options += [] if part in made else ["--missing", part, why_not_made(wildcards, part)]
    options += ["--run", *runs_of_page("run.json")(wildcards), "--score", *runs_of_page(None)(wildcards)]
    for option, sets in samples_of_page(wildcards).items():
        options += [word for files in sets for word in (option, *files)]
    for unit in ("core_hour", "gpu_hour"):
        if config["report"][unit] != "unknown":
            options += [f"--{unit.replace('_', '-')}", config["report"][unit]]
    return options
