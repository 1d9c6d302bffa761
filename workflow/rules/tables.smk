# The paper's tables, each beside ours: .csv has all digits; .md, .tex and .html are for readers.


rule table2:
    input:
        paper="workflow/paper/table2.csv",
        scores=present(runs_of_table_2, "test.json"),
        code=package("tables", "scoring"),
    output:
        table_files("table2"),
    log:
        "logs/table2/{scale}.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500),
    params:
        label=lookup("scales/{scale}/label", within=config),
        expected=names(runs_of_table_2),
        output=subpath(output[0], strip_suffix=".csv"),
    shell:
        "python -m transformer table2 --paper {input.paper:q} --label {params.label:q} --score {input.scores:q}"
        " --expected {params.expected} --output {params.output:q} 2>&1 | tee {log:q}"


rule table3:
    input:
        paper="workflow/paper/table3.csv",
        scores=present(runs_of_table_3, "dev.last.json"),
        code=package("tables", "scoring"),
    output:
        table_files("table3"),
    log:
        "logs/table3/{scale}.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500),
    params:
        label=label_of_table_3,
        width=lookup("scales/{scale}/width", within=config),
        depth=lookup("scales/{scale}/depth", within=config),
        expected=names(runs_of_table_3),
        output=subpath(output[0], strip_suffix=".csv"),
    shell:
        "python -m transformer table3 --paper {input.paper:q} --label {params.label:q} --width {params.width}"
        " --depth {params.depth} --score {input.scores:q} --expected {params.expected}"
        " --output {params.output:q} 2>&1 | tee {log:q}"


rule table4:
    input:
        paper="workflow/paper/table4.csv",
        scores=present(runs_of_table_4, "test.json"),
        constrained=present(runs_of_table_4, "test.constrained.json"),
        elsewhere=present(runs_of_table_4_elsewhere, "elsewhere.constrained.json"),
        code=package("tables", "scoring"),
    output:
        table_files("table4"),
    log:
        "logs/table4/{scale}.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500),
    params:
        tasks=rows_of_table_4,
        elsewhere=elsewhere_options,
        expected=names(runs_of_table_4),
        output=subpath(output[0], strip_suffix=".csv"),
    shell:
        "python -m transformer table4 --paper {input.paper:q} --task {params.tasks:q} --score {input.scores:q}"
        " --constrained {input.constrained:q} {params.elsewhere:q} --expected {params.expected}"
        " --output {params.output:q} 2>&1 | tee {log:q}"
