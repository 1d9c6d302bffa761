# §5.1: clean, tokenise, learn the shared byte-pair vocabulary, encode.


rule tokenize:
    input:
        source=ask.side("source"),
        target=ask.side("target"),
        vocabulary=ask.vocabulary_of_search,
    output:
        DATA.tokens("{split}", "source"),
        DATA.tokens("{split}", "target"),
        DATA.counts("{split}"),
    log:
        "logs/tokenize/{scale}/{task}/{split}.log",
    wildcard_constraints:
        task=any_of(TRANSLATION_TASKS),
    priority: FIRST
    conda:
        "../../environment.yml"
    threads: prepare_threads
    resources:
        mem_mb=memory(1000, each_thread=300),
    params:
        languages=ask.languages,
        preparation=ask.preparation,
        use=ask.use_of_text,
        output=subpath(output[2], strip_suffix=".json"),
    shell:
        "python -m transformer tokenize --source {input.source:q} --target {input.target:q}"
        " --languages {params.languages:q} --preparation {params.preparation:q} {params.use:q}"
        " --processes {threads} --output {params.output:q} 2>&1 | tee {log:q}"


rule linearize:
    input:
        trees=ask.side("trees"),
        silver=ask.silver,
    output:
        DATA.tokens("{split}", "source"),
        DATA.tokens("{split}", "target"),
        DATA.counts("{split}"),
    log:
        "logs/linearize/{scale}/{task}/{split}.log",
    wildcard_constraints:
        task=any_of(PARSING_TASKS),
    priority: FIRST
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500, large=8000, growth=2),
    params:
        mix=ask.mix_options,
        output=subpath(output[2], strip_suffix=".json"),
    shell:
        "python -m transformer linearize --trees {input.trees:q} {params.mix:q} --output {params.output:q}"
        " 2>&1 | tee {log:q}"


rule vocabulary:
    input:
        source=DATA.tokens("train", "source"),
        target=DATA.tokens("train", "target"),
    output:
        DATA.vocabulary,
    log:
        "logs/vocabulary/{scale}/{task}.log",
    priority: FIRST
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500, large=10000, growth=2),
    params:
        options=ask.vocabulary_options,
        sentences=ask.prepared("vocabulary_sentences"),
    shell:
        "python -m transformer vocabulary {params.options:q} --sentences {params.sentences} --output {output:q}"
        " 2>&1 | tee {log:q}"


rule encode:
    input:
        [
            path
            for split in ("train", "dev")
            for path in (
                DATA.tokens(split, "source"),
                DATA.tokens(split, "target"),
                DATA.counts(split),
            )
        ],
        DATA.vocabulary,
    output:
        *DATA.arrays("train"),
        *DATA.arrays("dev"),
        about=DATA.manifest,
    log:
        "logs/encode/{scale}/{task}.log",
    priority: FIRST
    conda:
        "../../environment.yml"
    threads: prepare_threads
    resources:
        mem_mb=memory(1000, each_thread=300),
    params:
        data=subpath(output.about, parent=True),
        splits=["train", "dev"],
        longest=ask.longest,
    shell:
        "python -m transformer encode --data {params.data:q} --splits {params.splits}"
        " {params.longest:q} --processes {threads} 2>&1 | tee {log:q}"
