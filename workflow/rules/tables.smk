# The paper's tables, each beside ours.


rule table2:
    input:
        paper="workflow/paper/table2.csv",
        scores=scores_of,
        code="transformer/tables.py",
    output:
        multiext("results/{scale}/tables/table2", ".csv", ".md"),
    log:
        "logs/table2/{scale}.log",
    conda:
        "../../environment.yml"
    params:
        label=lookup("scales/{scale}/label", within=config),
        output=subpath(output[0], strip_suffix=".csv"),
    shell:
        "python -m transformer table2 --paper {input.paper:q} --label {params.label:q} --score {input.scores:q}"
        " --output {params.output:q} 2>&1 | tee {log:q}"
