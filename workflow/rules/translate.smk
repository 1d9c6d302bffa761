# §6.1: beam search, and BLEU.


rule decoding:
    output:
        "results/{scale}/runs/{task}/{experiment}/{seed}/decoding.yaml",
    log:
        "logs/decoding/{scale}/{task}/{experiment}/{seed}.log",
    priority: FIRST
    localrule: True
    conda:
        "../../environment.yml"
    params:
        settings=lambda wildcards: json.dumps(
            (config["parsing"] if wildcards.experiment == PARSER else config)[
                "decoding"
            ]
        ),
    shell:
        "python -m transformer resolve --decoding {params.settings:q} --output {output:q} 2>&1 | tee {log:q}"


rule translate:
    input:
        multiext(
            "results/{scale}/runs/{task}/{experiment}/{seed}/",
            "experiment.yaml",
            "decoding.yaml",
            "vocabulary.model",
        ),
        weights=weights_of,
        text=side("source"),
        code=package(*SEARCH, "commands/translate.py"),
    output:
        "results/{scale}/runs/{task}/{experiment}/{seed}/{split}{weights}{change}.hyp",
    log:
        "logs/translate/{scale}/{task}/{experiment}/{seed}/{split}{weights}{change}.log",
    wildcard_constraints:
        experiment=any_of(experiments_of(config)),
        split="dev|test",
        change=any_of(CHANGES),
    conda:
        "../../environment.yml"
    threads: share_of_processors
    resources:
        mem_mb=memory(2500, large=12000),
        gpu=gpus_of_run,
        launch="here",
    params:
        run=subpath(output[0], parent=True),
        decoding=lambda wildcards: json.dumps(CHANGES[wildcards.change]),
    shell:
        f"{SCRIPTS}/gpus"
        " {resources.launch} {resources.gpu} {threads} python -m transformer translate"
        " --run {params.run:q} --weights {input.weights:q}"
        " --decoding {params.decoding:q} --input {input.text:q} --output {output:q} --threads {threads}"
        " 2>&1 | tee {log:q}"


rule score:
    input:
        hyp="results/{scale}/runs/{task}/{experiment}/{seed}/{split}{weights}.hyp",
        ref=side("target"),
        subsets=references_of_subsets,
        run=multiext(
            "results/{scale}/runs/{task}/{experiment}/{seed}/",
            "run.json",
            "decoding.yaml",
        ),
        weights=weights_of_score,
        code=package("evaluation", "commands/score.py"),
    output:
        "results/{scale}/runs/{task}/{experiment}/{seed}/{split}{weights}.json",
    log:
        "logs/score/{scale}/{task}/{experiment}/{seed}/{split}{weights}.log",
    wildcard_constraints:
        experiment=any_of(experiments_of(config)),
        split="dev|test",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500),
    params:
        language=lookup("scales/{scale}/tasks/{task}/target", within=config),
        run=subpath(output[0], parent=True),
        subsets=subset_options,
        weights=lambda wildcards: moved(weights_of(wildcards)),
    shell:
        "python -m transformer score --hyp {input.hyp:q} --ref {input.ref:q} --lang {params.language}"
        " {params.subsets:q} --run {params.run:q} --weights {params.weights:q} --json {output:q}"
        " 2>&1 | tee {log:q}"
