# "Attention Is All You Need", from nothing to its tables: `snakemake --cores all`.
#
#   resources/downloads, resources/corpora            what came from elsewhere, checked
#   results/{scale}/data/{task}/                      tokenised text, vocabulary, token arrays
#   results/{scale}/runs/{task}/{experiment}/{seed}/  one training: weights, translations, scores
#   results/{scale}/tables, figures, report.html      what it was all for
from snakemake.utils import min_version

min_version("9.25")


configfile: "config.yaml"


include: "workflow/rules/check.smk"
include: "workflow/rules/common.smk"
include: "workflow/inputs/tables.smk"
include: "workflow/inputs/figures.smk"
include: "workflow/inputs/page.smk"
include: "workflow/rules/fetch.smk"
include: "workflow/rules/prepare.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/translate.smk"
include: "workflow/rules/parse.smk"
include: "workflow/rules/taken.smk"
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
