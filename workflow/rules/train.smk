# §5 and §6.1: training. It ends with the average of its last checkpoints.


rule experiment:
    output:
        RUN.experiment,
    log:
        "logs/experiment/{scale}/{task}/{experiment}/{seed}.log",
    priority: FIRST
    localrule: True
    conda:
        "../../environment.yml"
    params:
        settings=untracked(ask.experiment),
        identity=ask.identity,
    script:
        "../scripts/settings.py"


# No module is an input, so an edit of code retrains nothing. A training saves its states in the undeclared folder state/
# next to the outputs, because Snakemake deletes the declared outputs of a failed job.
rule train:
    input:
        RUN.experiment,
        ask.initial_weights,
        about=DATA.manifest,
        arrays=rules.encode.output,
    output:
        directory(RUN.checkpoints),
        RUN.average,
        RUN.last,
        RUN.metrics,
        RUN.vocabulary,
        run=RUN.record,
    log:
        "logs/train/{scale}/{task}/{experiment}/{seed}.log",
    wildcard_constraints:
        experiment=any_of(EXPERIMENTS),
    conda:
        "../../environment.yml"
    threads: train_threads
    # Values that depend on the machine are resources, because a changed param would retrain all runs.
    resources:
        mem_mb=memory(2000, large=24000, each_thread=2000),
        gpu=gpus_of_run,  # --set-resources train:gpu=8 trains each run on eight GPUs
        nodes=1,  # number of nodes on a cluster
        launch="here",  # workflow/scripts/train explains the other values
    params:
        run=subpath(output.run, parent=True),
        data=subpath(input.about, parent=True),
    shell:
        # tee -i, because Ctrl-C must reach only the training, which saves its state and logs this.
        f"{SCRIPTS}/train"
        " {resources.launch} {resources.nodes} {resources.gpu} {threads}"
        " {params.run:q} --data {params.data:q} 2>&1 | tee -i {log:q}"


# The training of a parser. It runs first, because another parser learns from its output: the longest chain of jobs.
use rule train as train_parser with:
    wildcard_constraints:
        experiment=PARSER,
    priority: FIRST
