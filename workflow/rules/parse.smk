# §6.3: English constituency parsing, from treebanks to scores. What is learned and how is the other rules' business.


rule treebank:
    input:
        download_of_treebank,
    output:
        "resources/corpora/{corpus}.trees",
    log:
        "logs/treebank/{corpus}.log",
    wildcard_constraints:
        corpus=any_of(
            name for name, corpus in config["corpora"].items() if "treebank" in corpus
        ),
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500),
    params:
        options=treebank_options,
    shell:
        "python -m transformer treebank {params.options:q} --output {output:q} 2>&1 | tee {log:q}"


rule linearize:
    input:
        trees=trees_of,
        silver=silver_of,
    output:
        "results/{scale}/data/{task}/{split}.source.tok",
        "results/{scale}/data/{task}/{split}.target.tok",
        "results/{scale}/data/{task}/{split}.json",
    log:
        "logs/linearize/{scale}/{task}/{split}.log",
    wildcard_constraints:
        task=any_of(names_of_tasks("parsing")),
    priority: FIRST
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500, large=8000),
    params:
        mix=mix_options,
        output=subpath(output[2], strip_suffix=".json"),
    shell:
        "python -m transformer linearize --trees {input.trees:q} {params.mix:q} --output {params.output:q}"
        " 2>&1 | tee {log:q}"


rule parse:
    input:
        multiext(
            "results/{scale}/runs/{task}/parser/{seed}/",
            "experiment.yaml",
            "decoding.yaml",
            "vocabulary.model",
            "average.safetensors",
        ),
        words="results/{scale}/data/{task}/{split}.source.tok",
        code=package(
            *SEARCH,
            *collect(
                "parsing/{name}.py",
                name=["linearization", "parser", "trees"],
            ),
            "commands/parse.py",
        ),
    output:
        trees="results/{scale}/runs/{task}/parser/{seed}/{split}{search}.trees",
        parses="results/{scale}/runs/{task}/parser/{seed}/{split}{search}.parses.json",
    log:
        "logs/parse/{scale}/{task}/{seed}/{split}{search}.log",
    wildcard_constraints:
        split="dev|test|elsewhere",
    conda:
        "../../environment.yml"
    threads: share_of_processors
    resources:
        mem_mb=memory(2500, large=12000),
        gpu=gpus_of_run,
        launch="here",
    params:
        run=subpath(output.trees, parent=True),
        search=lambda wildcards: SEARCHES[wildcards.search],
    shell:
        f"{SCRIPTS}/gpus"
        " {resources.launch} {resources.gpu} {threads} python -m transformer parse"
        " {params.search} --run {params.run:q} --input {input.words:q} --tokenized"
        " --output {output.trees:q} --json {output.parses:q} --threads {threads} 2>&1 | tee {log:q}"


rule evalb:
    input:
        run=multiext(
            "results/{scale}/runs/{task}/parser/{seed}/", "run.json", "decoding.yaml"
        ),
        weights=weights_of_score,
        gold=trees_of,
        test="results/{scale}/runs/{task}/parser/{seed}/{split}{search}.trees",
        parses="results/{scale}/runs/{task}/parser/{seed}/{split}{search}.parses.json",
        code=package("parsing", "evaluation", "commands/score.py"),
    output:
        "results/{scale}/runs/{task}/parser/{seed}/{split}{search}.json",
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


# The paper's 17 million trees are not public. Here a parser labels plain text, and another learns from what it was
# surest of.
rule silver_parse:
    input:
        lambda wildcards: parser_of_silver(
            wildcards, "experiment.yaml", "vocabulary.model", "average.safetensors"
        ),
        decoding=lambda wildcards: parser_of_silver(wildcards, "decoding.yaml")[0],
        # And no code: what is learned from is not prepared again after an edit.
        text=lambda wildcards: collect(
            "resources/corpora/{corpus}.en",
            corpus=task_of(wildcards)["silver"]["text"],
        ),
    output:
        trees="results/{scale}/data/{task}/parsed.trees",
        parses="results/{scale}/data/{task}/parsed.json",
    log:
        "logs/silver_parse/{scale}/{task}.log",
    priority: FIRST
    conda:
        "../../environment.yml"
    threads: share_of_processors
    resources:
        mem_mb=memory(2500, large=12000),
        gpu=gpus_of_run,
        launch="here",
    params:
        run=subpath(input.decoding, parent=True),
        decoding=json.dumps(config["parsing"]["silver"]),
        most=lookup(
            "scales/{scale}/parsing/tasks/{task}/silver/sentences", within=config
        ),
    shell:
        f"{SCRIPTS}/gpus"
        " {resources.launch} {resources.gpu} {threads} python -m transformer parse"
        " --constrained --run {params.run:q} --input {input.text:q} --most {params.most}"
        " --decoding {params.decoding:q} --output {output.trees:q} --json {output.parses:q} --threads {threads}"
        " 2>&1 | tee {log:q}"


rule silver:
    input:
        trees="results/{scale}/data/{task}/parsed.trees",
        parses="results/{scale}/data/{task}/parsed.json",
    output:
        "results/{scale}/data/{task}/silver.trees",
    log:
        "logs/silver/{scale}/{task}.log",
    priority: FIRST
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500, large=16000),
    params:
        keep=lookup("scales/{scale}/parsing/tasks/{task}/silver/keep", within=config),
        most=lookup("preparation/max_words", within=config),
    shell:
        "python -m transformer silver --trees {input.trees:q} --parses {input.parses:q} --keep {params.keep}"
        " --most-words {params.most} --output {output:q} 2>&1 | tee {log:q}"
