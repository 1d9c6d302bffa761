# The paper's tables, each beside ours: .csv has all digits; .md, .tex and .html are for readers, .json for the page.


rule measure:
    input:
        code=package(
            "model",
            "evaluation/layers.py",
            "commands/measure.py",
        ),
    output:
        "results/{scale}/layers.json",
    log:
        "logs/measure/{scale}.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(2500),
    params:
        lengths=lookup("table1/lengths", within=config),
        width=lookup("table1/width", within=config),
        widths=lookup("table1/widths", within=config),
        length=lookup("table1/length", within=config),
        paths=lookup("table1/paths", within=config),
        k=lookup("table1/k", within=config),
        r=lookup("table1/r", within=config),
        seconds=lookup("table1/seconds", within=config),
    shell:
        "python -m transformer measure --lengths {params.lengths} --width {params.width} --widths {params.widths}"
        " --length {params.length} --paths {params.paths} --k {params.k} --r {params.r} --seconds {params.seconds}"
        " --output {output:q} 2>&1 | tee {log:q}"


rule table:
    input:
        unpack(inputs_of_table),
        code=package("report/tables", "evaluation"),
    output:
        multiext("results/{scale}/tables/{table}", ".csv", ".md", ".tex", ".json"),
        html=report(
            "results/{scale}/tables/{table}.html",
            caption="../report/table.rst",
            category="Tables",
            labels={"table": "{table}"},
        ),
    log:
        "logs/table/{scale}/{table}.log",
    wildcard_constraints:
        table=any_of(TABLES),
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500),
    params:
        options=options_of_table,
        output=subpath(output.html, strip_suffix=".html"),
    shell:
        "python -m transformer table {wildcards.table} {params.options:q} --output {params.output:q} 2>&1 | tee {log:q}"
