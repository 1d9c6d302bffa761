# §6.1: beam search, and BLEU.


rule decoding:
    output:
        "results/{scale}/runs/{task}/{experiment}/{seed}/decoding.yaml",
    log:
        "logs/decoding/{scale}/{task}/{experiment}/{seed}.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        settings=decoding_of,
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
        code=["transformer/search.py", "transformer/incremental.py", "transformer/translation.py"],
    output:
        "results/{scale}/runs/{task}/{experiment}/{seed}/{split}{weights}.hyp",
    log:
        "logs/translate/{scale}/{task}/{experiment}/{seed}/{split}{weights}.log",
    wildcard_constraints:
        experiment=any_of(config["experiments"]),
        split="dev|test",
    conda:
        "../../environment.yml"
    threads: train_threads
    params:
        run=subpath(output[0], parent=True),
    shell:
        "python -m transformer translate --run {params.run:q} --weights {input.weights:q} --input {input.text:q}"
        " --output {output:q} --threads {threads} 2>&1 | tee {log:q}"


rule score:
    input:
        hyp="results/{scale}/runs/{task}/{experiment}/{seed}/{split}{weights}.hyp",
        ref=side("target"),
        run=multiext(
            "results/{scale}/runs/{task}/{experiment}/{seed}/",
            "run.json",
            "decoding.yaml",
        ),
        weights=weights_of,
        code="transformer/bleu.py",
    output:
        "results/{scale}/runs/{task}/{experiment}/{seed}/{split}{weights}.json",
    log:
        "logs/score/{scale}/{task}/{experiment}/{seed}/{split}{weights}.log",
    wildcard_constraints:
        experiment=any_of(config["experiments"]),
        split="dev|test",
    conda:
        "../../environment.yml"
    params:
        language=lookup("scales/{scale}/tasks/{task}/target", within=config),
        run=subpath(output[0], parent=True),
    shell:
        "python -m transformer score --hyp {input.hyp:q} --ref {input.ref:q} --language {params.language}"
        " --run {params.run:q} --weights {input.weights:q} --json {output:q} 2>&1 | tee {log:q}"
