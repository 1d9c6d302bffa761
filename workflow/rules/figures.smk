# The figures, each as PDF, SVG and PNG, with its caption as JSON.


rule attend:
    input:
        lambda wildcards: base_run(
            wildcards.scale, "experiment.yaml", "decoding.yaml", "vocabulary.model"
        ),
        weights=lambda wildcards: base_run(wildcards.scale, "average.safetensors"),
        text=text_of_attention,
        code=package(
            *SEARCH,
            "evaluation/attention.py",
            "commands/attend.py",
        ),
    output:
        "results/{scale}/attention.json",
    log:
        "logs/attend/{scale}.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(2000, large=8000),
        gpu=gpus_of_run,
        launch="here",
    params:
        run=lambda wildcards, input: str(Path(input.weights[0]).parent),
        figures=lambda wildcards: json.dumps(
            config["scales"][wildcards.scale].get("figures", {})
        ),
        sentences=lookup("attention/sentences", within=config),
        longest=lookup("attention/longest", within=config),
    shell:
        f"{SCRIPTS}/gpus"
        " {resources.launch} {resources.gpu} {threads} python -m transformer attend"
        " --run {params.run:q} --weights {input.weights:q} --figures {params.figures:q}"
        " --text {input.text:q} --count {params.sentences} --longest {params.longest} --threads {threads}"
        " --output {output:q} 2>&1 | tee {log:q}"


rule figure:
    input:
        unpack(inputs_of_figure),
        code=package(
            "report/figures",
            "model",
            "evaluation",
            "report/tables",
            "training/step.py",
            "commands/figure.py",
        ),
    output:
        multiext("results/{scale}/figures/{figure}", ".pdf", ".png", ".json"),
        svg=report(
            "results/{scale}/figures/{figure}.svg",
            caption="../report/figure.rst",
            category="Figures",
            labels={"figure": "{figure}"},
        ),
    log:
        "logs/figure/{scale}/{figure}.log",
    wildcard_constraints:
        figure=any_of(FIGURES),
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500),
    params:
        options=options_of_figure,
        output=subpath(output.svg, strip_suffix=".svg"),
    shell:
        "python -m transformer figure {wildcards.figure} {params.options:q} --output {params.output:q} 2>&1 | tee {log:q}"
