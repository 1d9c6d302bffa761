# Table 1: layers are timed and their stacks followed, which needs no training.


rule measure:
    input:
        code=package("tables"),
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


rule table1:
    input:
        paper="workflow/paper/table1.csv",
        measured=rules.measure.output,
        code=package("tables"),
    output:
        table_files("table1"),
    log:
        "logs/table1/{scale}.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500),
    params:
        output=subpath(output[0], strip_suffix=".csv"),
    shell:
        "python -m transformer table1 --paper {input.paper:q} --measured {input.measured:q} --output {params.output:q}"
        " 2>&1 | tee {log:q}"
