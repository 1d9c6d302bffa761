# "Attention Is All You Need", from nothing to its tables: `snakemake --cores all`.
#
#   resources/downloads, resources/corpora            what came from elsewhere, checked
#   results/{scale}/data/{task}/                      tokenised text, vocabulary, token arrays
#   results/{scale}/runs/{task}/{experiment}/{seed}/  one training: weights, translations, scores
#   results/{scale}/tables, figures, report.html      what it was all for; how it was made: REPRODUCIBILITY.md
import sys

from snakemake.utils import min_version

min_version("9.25")


configfile: "config.yaml"


sys.path.insert(0, workflow.basedir)  # where `snakemake` itself would not look for the package
try:
    from transformer.config import settings
except ImportError as problem:
    sys.exit(f"Snakefile: {problem}: run `make`, or Snakemake in the environment of environment.yml, in this folder")
settings.accept(config, workflow.configfiles)


# What the rules ask config.yaml.
include: "workflow/inputs/common.smk"


check_python()


include: "workflow/inputs/fetch.smk"
include: "workflow/inputs/prepare.smk"
include: "workflow/inputs/train.smk"
include: "workflow/inputs/translate.smk"
include: "workflow/inputs/probe.smk"
include: "workflow/inputs/parse.smk"
include: "workflow/inputs/take.smk"
include: "workflow/inputs/tables.smk"
include: "workflow/inputs/figures.smk"
include: "workflow/inputs/page.smk"


wildcard_constraints:
    scale=any_of(config["scales"]),
    task=any_of(names_of_tasks("tasks") | names_of_tasks("parsing")),
    experiment=any_of([*experiments_of(config), PARSER]),
    seed=r"\d+",
    split="train|dev|test|elsewhere",
    weights=any_of(WEIGHTS),
    search=any_of(SEARCHES),
    part=r"\d+",
    parts=r"\d+",
    file=any_of(config["downloads"]),
    language="[A-Za-z][A-Za-z0-9_-]*",


include: "workflow/rules/fetch.smk"
include: "workflow/rules/prepare.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/translate.smk"
include: "workflow/rules/probe.smk"
include: "workflow/rules/parse.smk"
include: "workflow/rules/take.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        collect(
            "results/{scale}/tables/{table}.{ending}",
            scale=config["scale"],
            table=tables_of_scale(config["scale"]),
            ending=["csv", "json", "md", "tex", "html"],
        ),
        collect(
            "results/{scale}/figures/{figure}.{ending}",
            scale=config["scale"],
            figure=figures_of_scale(config["scale"]),
            ending=["pdf", "svg", "png"],
        ),
        f"results/{config['scale']}/report.html",
        f"results/{config['scale']}/REPRODUCIBILITY.md",
