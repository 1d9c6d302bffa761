# §6.3: English constituency parsing with a trained run, its scores, and silver trees for another parser.


rule parse:
    input:
        PARSER_RUN.experiment,
        PARSER_RUN.decoding,
        PARSER_RUN.vocabulary,
        PARSER_RUN.average,
        words=DATA.tokens("{split}", "source"),
        code=ask.code(*SEARCH, "parsing", "commands/parse.py"),
    output:
        trees=PARSER_RUN.trees("{split}", "{search}"),
        parses=PARSER_RUN.parses("{split}", "{search}"),
    log:
        "logs/parse/{scale}/{task}/{seed}/{split}{search}.log",
    wildcard_constraints:
        split="dev|test|elsewhere",
    conda:
        "../../environment.yml"
    threads: share_of_processors
    resources:
        **SEARCHING,
    params:
        run=subpath(output.trees, parent=True),
        search=lambda wildcards: PARSER_SEARCHES[wildcards.search],
    shell:
        f"{ON_GPUS} parse"
        " {params.search} --run {params.run:q} --input {input.words:q} --tokenized"
        " --output {output.trees:q} --json {output.parses:q} --threads {threads} 2>&1 | tee {log:q}"


rule evalb:
    input:
        PARSER_RUN.record,
        PARSER_RUN.decoding,
        PARSER_RUN.average,
        gold=ask.side("trees"),
        test=PARSER_RUN.trees("{split}", "{search}"),
        parses=PARSER_RUN.parses("{split}", "{search}"),
        code=ask.code(*SCORES, "parsing", "commands/score.py"),
    output:
        PARSER_RUN.scores("{split}", "{search}"),
    log:
        "logs/evalb/{scale}/{task}/{seed}/{split}{search}.log",
    wildcard_constraints:
        split="dev|test|elsewhere",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500),
    params:
        run=subpath(output[0], parent=True),
    shell:
        "python -m transformer evalb --gold {input.gold:q} --test {input.test:q} --gold-tags --parses {input.parses:q}"
        " --run {params.run:q} --json {output:q} 2>&1 | tee {log:q}"


# The paper's 17 million trees are not public. Instead, a parser labels plain text. Another parser learns from the trees
# with the best scores.
rule silver_parse:
    input:
        unpack(ask.silver_files),  # code is not an input, so edits do not rebuild training data
    output:
        trees=DATA.parsed,
        parses=DATA.parsed_scores,
    log:
        "logs/silver_parse/{scale}/{task}.log",
    priority: FIRST
    conda:
        "../../environment.yml"
    threads: share_of_processors
    resources:
        **SEARCHING,
    params:
        run=subpath(input.decoding, parent=True),
        decoding=ask.silver_decoding,
        most=lambda wildcards: ask.task(wildcards).silver.sentences,
    shell:
        f"{ON_GPUS} parse"
        " --constrained --run {params.run:q} --input {input.text:q} --most {params.most}"
        " --decoding {params.decoding:q} --output {output.trees:q} --json {output.parses:q} --threads {threads}"
        " 2>&1 | tee {log:q}"


rule silver:
    input:
        trees=DATA.parsed,
        parses=DATA.parsed_scores,
    output:
        DATA.silver,
    log:
        "logs/silver/{scale}/{task}.log",
    priority: FIRST
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500, large=16000, growth=2),
    params:
        keep=lambda wildcards: ask.task(wildcards).silver.keep,
        max_words=lambda wildcards: ask.preprocessing(wildcards)["max_words"],
    script:
        "../scripts/silver.py"
