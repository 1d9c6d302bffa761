# The paper's tables, each beside ours.


rule table2:
    input:
        paper="workflow/paper/table2.csv",
        scores=runs_of_table_2("test.json"),
        code=["transformer/tables.py", "transformer/table2.py"],
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


rule table3:
    input:
        paper="workflow/paper/table3.csv",
        scores=runs_of_table_3("dev.last.json"),
        hyps=runs_of_table_3("dev.last.hyp"),
        ref=references_of_table_3,
        code=["transformer/tables.py", "transformer/table3.py", "transformer/significance.py"],
    output:
        multiext("results/{scale}/tables/table3", ".csv", ".md"),
    log:
        "logs/table3/{scale}.log",
    conda:
        "../../environment.yml"
    params:
        label=label_of_table_3,
        width=lookup("scales/{scale}/width", within=config),
        depth=lookup("scales/{scale}/depth", within=config),
        output=subpath(output[0], strip_suffix=".csv"),
    shell:
        "python -m transformer table3 --paper {input.paper:q} --label {params.label:q} --width {params.width}"
        " --depth {params.depth} --score {input.scores:q} --hyp {input.hyps:q} --ref {input.ref:q}"
        " --output {params.output:q} 2>&1 | tee {log:q}"


rule table4:
    input:
        paper="workflow/paper/table4.csv",
        scores=runs_of_table_4("test.json"),
        constrained=runs_of_table_4("test.constrained.json"),
        elsewhere=runs_of_table_4("elsewhere.constrained.json", needs="elsewhere"),
        code=["transformer/tables.py", "transformer/table4.py"],
    output:
        multiext("results/{scale}/tables/table4", ".csv", ".md"),
    log:
        "logs/table4/{scale}.log",
    conda:
        "../../environment.yml"
    params:
        tasks=rows_of_table_4,
        elsewhere=elsewhere_options,
        output=subpath(output[0], strip_suffix=".csv"),
    shell:
        "python -m transformer table4 --paper {input.paper:q} --task {params.tasks:q} --score {input.scores:q}"
        " --constrained {input.constrained:q} {params.elsewhere:q} --output {params.output:q} 2>&1 | tee {log:q}"
