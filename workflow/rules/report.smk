# The page of a scale, in one file: tables, figures, samples, attention, and the runs behind them.


rule report:
    input:
        tables=tables_of_page,
        figures=lambda wildcards: collect(
            "results/{scale}/figures/{figure}.svg",
            scale=wildcards.scale,
            figure=figures_of_scale(wildcards.scale),
        ),
        # On a partial page those that are there.
        runs=lambda wildcards: present(files_of_page(wildcards.scale, "run.json")),
        scores=lambda wildcards: present(files_of_page(wildcards.scale)),
        attention=lambda wildcards: (
            f"results/{wildcards.scale}/attention.json"
            if attention_is_known(wildcards.scale)
            else []
        ),
        samples=files_of_samples,
        code=package("report/figures", "parsing", "evaluation", "report/tables", *PAGE),
    output:
        "results/{scale}/report.html",
    log:
        "logs/report/{scale}.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(2000),
    params:
        title="Attention Is All You Need, at scale {scale}",
        label=lookup("scales/{scale}/label", within=config),
        options=options_of_page,
    shell:
        "python -m transformer report --scale {wildcards.scale} --title {params.title:q} --label={params.label:q}"
        " --table {input.tables:q} --figure {input.figures:q} --attention {input.attention:q} {params.options:q}"
        " --output {output:q} 2>&1 | tee {log:q}"
