# §6.1: beam search and BLEU.


rule decoding:
    output:
        RUN.decoding,
    log:
        "logs/decoding/{scale}/{task}/{experiment}/{seed}.log",
    priority: FIRST
    localrule: True
    conda:
        "../../environment.yml"
    params:
        settings=ask.decoding,
    script:
        "../scripts/settings.py"


rule translate:
    input:
        RUN.experiment,
        RUN.decoding,
        RUN.vocabulary,
        weights=ask.weights,
        text=ask.side("source"),
        measured=ask.measured,
        code=ask.code(*SEARCH, "commands/translate.py"),
    output:
        RUN.translation("{split}", "{suffix}"),
    log:
        "logs/translate/{scale}/{task}/{experiment}/{seed}/{split}{suffix}.log",
    wildcard_constraints:
        experiment=any_of(EXPERIMENTS),
        split="dev|test",
    conda:
        "../../environment.yml"
    threads: share_of_processors
    resources:
        **SEARCHING,
    params:
        run=subpath(output[0], parent=True),
        decoding=ask.search,
    shell:
        f"{ON_GPUS} translate"
        " --run {params.run:q} --weights {input.weights:q}"
        " --decoding {params.decoding:q} --input {input.text:q} --output {output:q} --threads {threads}"
        " 2>&1 | tee {log:q}"


rule score:
    input:
        RUN.record,
        RUN.decoding,
        hyp=RUN.translation("{split}", "{suffix}"),
        ref=ask.side("target"),
        subsets=ask.subsets,
        weights=ask.weights,
        code=ask.code(*SCORES, "commands/score.py"),
    output:
        f"{RUN.folder}/{{split}}{{suffix}}.json",
    log:
        "logs/score/{scale}/{task}/{experiment}/{seed}/{split}{suffix}.log",
    wildcard_constraints:
        experiment=any_of(EXPERIMENTS),
        split="dev|test",
        suffix=any_of(["", ".last"]),
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500),
    params:
        language=lambda wildcards: ask.task(wildcards).target,
        run=subpath(output[0], parent=True),
        subsets=ask.subset_options,
    shell:
        "python -m transformer score --hyp {input.hyp:q} --ref {input.ref:q} --lang {params.language}"
        " {params.subsets:q} --run {params.run:q} --weights {input.weights:q} --json {output:q} 2>&1 | tee {log:q}"
