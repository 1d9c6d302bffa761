# §5.1: clean, tokenise, learn the shared byte-pair vocabulary, encode.


rule tokenize:
    input:
        source=side("source"),
        target=side("target"),
    output:
        "results/{scale}/data/{task}/{split}.source.tok",
        "results/{scale}/data/{task}/{split}.target.tok",
        "results/{scale}/data/{task}/{split}.json",
    log:
        "logs/tokenize/{scale}/{task}/{split}.log",
    wildcard_constraints:
        task=any_of(names_of_tasks("tasks")),
    priority: FIRST
    conda:
        "../../environment.yml"
    threads: prepare_threads
    resources:
        mem_mb=memory(1000, each_thread=300),
    params:
        languages=lambda wildcards: [
            task_of(wildcards)[name] for name in ("source", "target")
        ],
        preparation=preparation,
        clean=lambda wildcards: "--clean" if wildcards.split == "train" else "",
        output=subpath(output[2], strip_suffix=".json"),
    shell:
        "python -m transformer tokenize --source {input.source:q} --target {input.target:q}"
        " --languages {params.languages:q} --preparation {params.preparation:q} {params.clean}"
        " --processes {threads} --output {params.output:q} 2>&1 | tee {log:q}"


# Scored against themselves, the references show before days of training that a subset is one.
rule subsets:
    input:
        ref=side("target"),
        subsets=references_of_subsets,
    output:
        "results/{scale}/data/{task}/{split}.subsets.json",
    log:
        "logs/subsets/{scale}/{task}/{split}.log",
    wildcard_constraints:
        task=any_of(names_of_tasks("tasks")),
        split="test",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1000),
    params:
        language=lookup("scales/{scale}/tasks/{task}/target", within=config),
        subsets=subset_options,
    shell:
        "python -m transformer score --hyp {input.ref:q} --ref {input.ref:q} --lang {params.language}"
        " {params.subsets:q} --json {output:q} 2>&1 | tee {log:q}"


rule vocabulary:
    input:
        source="results/{scale}/data/{task}/train.source.tok",
        target="results/{scale}/data/{task}/train.target.tok",
    output:
        "results/{scale}/data/{task}/vocabulary.model",
    log:
        "logs/vocabulary/{scale}/{task}.log",
    priority: FIRST
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500, large=10000),
    params:
        options=vocabulary_options,
        sentences=lookup("preparation/vocabulary_sentences", within=config),
    shell:
        "python -m transformer vocabulary {params.options:q} --sentences {params.sentences} --output {output:q}"
        " 2>&1 | tee {log:q}"


rule encode:
    input:
        collect(
            "results/{{scale}}/data/{{task}}/{split}.{ending}",
            split=["train", "dev"],
            ending=["source.tok", "target.tok", "json"],
        ),
        "results/{scale}/data/{task}/vocabulary.model",
    output:
        collect(
            "results/{{scale}}/data/{{task}}/{split}.{side}.{kind}",
            split=["train", "dev"],
            side=["source", "target"],
            kind=["ids", "offsets"],
        ),
        about="results/{scale}/data/{task}/data.json",
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
    shell:
        "python -m transformer encode --data {params.data:q} --splits {params.splits}"
        " --processes {threads} 2>&1 | tee {log:q}"
