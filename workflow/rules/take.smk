# Made elsewhere: what the list in a folder names is taken instead of made here.
ruleorder:
    take
    > tokenize
    > linearize
    > vocabulary
    > encode
    > average
    > translate
    > parse
    > silver_parse
    > silver
    > probe
    > measure
    > attend
ruleorder: take > take_checkpoints > refuse > train > train_parser


rule take:
    input:
        before_taking,
    output:
        "results/{taken}",
    log:
        "logs/take/{taken}.log",
    wildcard_constraints:
        taken=any_of(path for path in TAKEN if Path(path).name != "checkpoints"),
    priority: FIRST
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory(1000),
        # Where the bytes come from does not change them: as a param, another place would take all again.
        path=lambda wildcards: folder_of(wildcards.taken)[0].path,
    params:
        files=files_to_take,
        place=place_of_taken,
    shell:
        "python -m transformer take --from {resources.path:q} {params.files:q} --to {params.place:q} 2>&1 | tee {log:q}"


use rule take as take_checkpoints with:
    output:
        directory("results/{taken}"),
    wildcard_constraints:
        taken=any_of(path for path in TAKEN if Path(path).name == "checkpoints"),


# What the folder of a taken run lacks and training alone makes: asking for it ends the workflow before any job.
rule refuse:
    input:
        refuse_to_make,
    output:
        "results/{lacking}",
    log:
        "logs/refuse/{lacking}.log",
    wildcard_constraints:
        lacking=any_of(LACKING),
    conda:
        "../../environment.yml"
    shell:
        "false"
