# The paper's tables next to ours (.csv has all digits), the figures, and the page of a scale with all results.
MADE_BY = ["evaluation", "pipeline/registry.py", "report/tables"]
TABLE_CODE = [*MADE_BY, "report/__init__.py", "report/templates/table.html", TEXT]
TABLE_CODE += ["data/corpus.py", "model/cost.py"]


rule table:
    input:
        unpack(ask.files_of(TABLES, "table")),
        code=ask.code(*TABLE_CODE),
    output:
        [RESULTS.table("{table}", ending) for ending in ("csv", "md", "tex", "json")],
        html=report(
            RESULTS.table("{table}", "html"),
            caption="../report/caption.rst",
            category="Tables",
            labels={"table": "{table}"},
        ),
    log:
        "logs/table/{scale}/{table}.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500),
    params:
        title=lambda wildcards: TABLES[wildcards.table].title,
        table=ask.params_of(TABLES, "table"),
    script:
        "../scripts/table.py"


rule figure:
    input:
        unpack(ask.files_of(FIGURES, "figure")),
        code=ask.code(*MADE_BY, "report/figures", "model", "config/experiment.py"),
    output:
        [RESULTS.figure("{figure}", ending) for ending in ("pdf", "json", "png")],
        svg=report(
            RESULTS.figure("{figure}", "svg"),
            caption="../report/caption.rst",
            category="Figures",
            labels={"figure": "{figure}"},
        ),
    log:
        "logs/figure/{scale}/{figure}.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500),
    params:
        title=lambda wildcards: FIGURES[wildcards.figure].title,
        figure=ask.params_of(FIGURES, "figure"),
    script:
        "../scripts/figure.py"


rule page:
    input:
        unpack(ask.page_files),
        code=ask.code("report", "evaluation", "parsing", "pipeline/registry.py"),
    output:
        RESULTS.report,
    log:
        "logs/page/{scale}.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(2000),
    params:
        page=ask.page_params,
    script:
        "../scripts/page.py"
