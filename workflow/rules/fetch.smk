# §5.1: from URLs, files and the project's grammar to plain text with one sentence per line.


rule fetch:
    output:
        RESOURCES.download("{file}"),
    log:
        "logs/fetch/{file}.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        wanted=ask.checksum,  # only a change of the checksum means new bytes
        options=untracked(ask.fetch_options),
    shell:
        "python -m transformer fetch {params.options:q} --output {output:q} 2>&1 | tee {log:q}"


rule unpack:
    input:
        archive=ask.archive,
    output:
        RESOURCES.corpus("{corpus}", "{language}"),
    log:
        "logs/unpack/{corpus}.{language}.log",
    wildcard_constraints:
        corpus=any_of(ask.corpora("files")),
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1000),
    params:
        options=ask.unpack_options,
    script:
        "../scripts/unpack.py"


rule generate:
    output:
        [RESOURCES.corpus("{corpus}", ending) for ending in ("en", "de", "fr", "trees")],
    log:
        "logs/generate/{corpus}.log",
    wildcard_constraints:
        corpus=any_of(ask.corpora("grammar")),
    priority: FIRST
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1000),
    params:
        slice=ask.slice_of_grammar,
    script:
        "../scripts/generate.py"


rule treebank:
    input:
        ask.treebank,
    output:
        RESOURCES.corpus("{corpus}", "trees"),
    log:
        "logs/treebank/{corpus}.log",
    wildcard_constraints:
        corpus=any_of(ask.corpora("treebank")),
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500),
    params:
        options=ask.treebank_options,
    script:
        "../scripts/treebank.py"
