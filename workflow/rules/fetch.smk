# §5.1: from addresses, files and the project's own grammar to plain text, one sentence a line.


rule fetch:
    output:
        "resources/downloads/{file}",
    log:
        "logs/fetch/{file}.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        wanted=wanted_sum,  # only when this changes are there other bytes to fetch
        options=fetch_options,
    shell:
        "python -m transformer fetch {params.options:q} 2>&1 | tee {log:q}"


rule unpack:
    input:
        lambda wildcards: [source_of(entry) for entry in others_of(wildcards)],
        archive=lambda wildcards: source_of(file_of(wildcards)),
    output:
        "resources/corpora/{corpus}.{language}",
    log:
        "logs/unpack/{corpus}.{language}.log",
    wildcard_constraints:
        corpus=any_of(
            name for name, corpus in config["corpora"].items() if "files" in corpus
        ),
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1000),
    params:
        options=unpack_options,
    shell:
        "python -m transformer unpack --input {input.archive:q} {params.options:q} --output {output:q}"
        " 2>&1 | tee {log:q}"


rule generate:
    output:
        multiext("resources/corpora/{corpus}", ".en", ".de", ".fr", ".trees"),
    log:
        "logs/generate/{corpus}.log",
    wildcard_constraints:
        corpus=any_of(
            name for name, corpus in config["corpora"].items() if "grammar" in corpus
        ),
    priority: FIRST
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1000),
    params:
        seed=lookup("corpora/{corpus}/grammar/seed", within=config),
        skip=lookup("corpora/{corpus}/grammar/skip", within=config),
        take=lookup("corpora/{corpus}/grammar/take", within=config),
        output=subpath(output[0], strip_suffix=".en"),
    shell:
        "python -m transformer generate --seed {params.seed} --skip {params.skip} --take {params.take}"
        " --output {params.output:q} 2>&1 | tee {log:q}"
