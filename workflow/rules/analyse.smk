# The code of all analyses. Each analysis also depends on its own module.
ANALYSIS = [*SEARCH, *SCORES, "commands/analyse.py", "training/batches.py"]
ANALYSIS += ["training/loss.py", "evaluation/analysis.py"]
ANALYSIS += ["evaluation/evaluated_run.py", "evaluation/masking.py"]


rule analyse:
    input:
        RUN.experiment,
        RUN.decoding,
        RUN.vocabulary,
        RUN.record,
        ask.analysed,
        weights=RUN.average,
        source=ask.side("source", "dev"),
        target=ask.side("target", "dev"),
        code=lambda wildcards: ask.code(
            *ANALYSIS, f"evaluation/analyses/{wildcards.analysis}.py"
        ),
    output:
        RUN.analysis("{analysis}"),
    log:
        "logs/analyse/{scale}/{task}/{experiment}/{seed}/{analysis}.log",
    wildcard_constraints:
        experiment=any_of(EXPERIMENTS),
    conda:
        "../../environment.yml"
    threads: share_of_processors
    resources:
        **SEARCHING,
    params:
        run=subpath(output[0], parent=True),
        options=ask.analysis_options,
    shell:
        f"{ON_GPUS} analyse"
        " {wildcards.analysis} --run {params.run:q} --source {input.source:q} --target {input.target:q}"
        " {params.options:q} --threads {threads} --output {output:q} 2>&1 | tee {log:q}"


rule attend:
    input:
        unpack(ask.attended),
        code=ask.code(*SEARCH, "evaluation/attention.py", "commands/analyse.py"),
    output:
        RESULTS.attention,
    log:
        "logs/attend/{scale}.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(2000, large=8000),
        gpu=gpus_of_run,
        launch="here",
    params:
        run=subpath(input.weights, parent=True),
        figures=ask.figure_sentences,
        sentences=CONFIG.attention.sentences,
        longest=CONFIG.attention.longest,
    shell:
        f"{ON_GPUS} attend"
        " --run {params.run:q} --weights {input.weights:q} --figures {params.figures:q}"
        " --text {input.text:q} --count {params.sentences} --longest {params.longest} --threads {threads}"
        " --output {output:q} 2>&1 | tee {log:q}"


rule measure:
    input:
        code=ask.code("model", "evaluation/layers.py"),
    output:
        RESULTS.layers,
    log:
        "logs/measure/{scale}.log",
    priority: FIRST  # early, because at the end this job on one core would delay the workflow
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(2500),
    params:
        table1=ask.section("table1"),
    script:
        "../scripts/measure.py"


rule recall:
    input:
        code=ask.code("model", "evaluation/recall.py"),
    output:
        RESULTS.recall,
    log:
        "logs/recall/{scale}.log",
    priority: FIRST  # it takes minutes on one core
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(2500),
    params:
        recall=ask.section("recall"),
    script:
        "../scripts/recall.py"
