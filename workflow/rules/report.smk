# The page of a scale, in one file: tables, figures, samples, attention, and the runs behind them.


rule report:
    input:
        tables=parts_of_page("table", made_alone=True),
        figures=parts_of_page("figure", made_alone=True),
        runs=present(runs_of_page, "run.json"),
        scores=present(runs_of_page, None),
        attention=attention_of_page,
        samples=files_of_samples,
        code=CODE_OF_PAGE,
    output:
        "results/{scale}/report.html",
    log:
        "logs/report/{scale}.log",
    conda:
        "../../environment.yml"
    params:
        title="Attention Is All You Need, at scale {scale}",
        label=lookup("scales/{scale}/label", within=config),
        attention="results/{scale}/attention.json",
        options=options_of_page,
    shell:
        "python -m transformer report --title {params.title:q} --label {params.label:q} {params.options:q}"
        " --attention {params.attention:q} --output {output:q} 2>&1 | tee {log:q}"
