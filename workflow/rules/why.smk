# "Why is my BLEU not 27.3?": scoring, averaging, decoding and training, one choice changed at a time.


rule why:
    input:
        paper="workflow/paper/table2.csv",
        scores=present(base_runs, "test.json"),
        hyps=present(base_runs, "test.hyp", "test.json"),
        last=translations("test.last"),
        otherwise=translations_otherwise,
        ref=test_references,
        vocabularies=present(base_runs, "vocabulary.model", "test.json"),
        dev_scores=present(compared_runs, "dev.last.json"),
        code=package("tables", "scoring"),
    output:
        table_files("why"),
    log:
        "logs/why/{scale}.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1500),
    params:
        label=lambda wildcards: f"{wildcards.scale}: {first_task(wildcards)[1]['test']}",
        otherwise=otherwise_options,
        run=lambda wildcards, input: Path([*input.scores, *base_runs("x")(wildcards)][0]).parent,
        dev_label=label_of_table_3,
        expected=names(compared_runs),
        output=subpath(output[0], strip_suffix=".csv"),
    shell:
        "python -m transformer why --paper {input.paper:q} --label {params.label:q} --score {input.scores:q}"
        " --hyp {input.hyps:q} --ref {input.ref:q} --run {params.run:q} --last {input.last:q} {params.otherwise:q}"
        " --dev-label {params.dev_label:q} --dev-score {input.dev_scores:q}"
        " --expected {params.expected} --output {params.output:q} 2>&1 | tee {log:q}"
