# What Table 5 measures on trained runs, without training.


rule probe:
    input:
        multiext(
            "results/{scale}/runs/{task}/{experiment}/{seed}/",
            "experiment.yaml",
            "decoding.yaml",
            "vocabulary.model",
            "run.json",
        ),
        also_probed,
        weights="results/{scale}/runs/{task}/{experiment}/{seed}/average.safetensors",
        source=side("source", "dev"),
        target=side("target", "dev"),
        code=package(
            *SEARCH,
            "evaluation",
            "evaluation",
            "training/batches.py",
            "training/loss.py",
            "commands/probe.py",
        ),
    output:
        "results/{scale}/runs/{task}/{experiment}/{seed}/{probe}.json",
    log:
        "logs/probe/{scale}/{task}/{experiment}/{seed}/{probe}.log",
    wildcard_constraints:
        experiment=any_of(experiments_of(config)),
        probe=any_of(PROBED),
    conda:
        "../../environment.yml"
    threads: share_of_processors
    resources:
        mem_mb=memory(2500, large=12000),
        gpu=gpus_of_run,
        launch="here",
    params:
        run=subpath(output[0], parent=True),
        options=probe_options,
    shell:
        f"{SCRIPTS}/gpus"
        " {resources.launch} {resources.gpu} {threads} python -m transformer probe"
        " {wildcards.probe} --run {params.run:q} --source {input.source:q} --target {input.target:q}"
        " {params.options:q} --threads {threads} --output {output:q} 2>&1 | tee {log:q}"
