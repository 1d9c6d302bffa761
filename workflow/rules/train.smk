# §5 and §6.1: train; a training ends with the average of its last checkpoints.


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
        "../scripts/experiment.py"


# No module is among the inputs: editing code trains nothing anew. What a job has trained lies in the undeclared folder
# state/ beside the outputs, which Snakemake leaves alone when it deletes those of a failed job.
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
    # What depends on the machine is a resource: as a param, another machine would make all anew.
    resources:
        mem_mb=memory(2000, large=24000, each_thread=2000),
        gpu=gpus_of_run,  # --set-resources train:gpu=8 trains each run on eight,
        nodes=1,  # on so many of a cluster
        launch="here",  # workflow/scripts/train says how otherwise
    params:
        run=subpath(output.run, parent=True),
        data=subpath(input.about, parent=True),
    shell:
        # tee -i: Ctrl-C is for the training, which saves its state and says so.
        f"{SCRIPTS}/train"
        " {resources.launch} {resources.nodes} {resources.gpu} {threads}"
        " {params.run:q} --data {params.data:q} 2>&1 | tee -i {log:q}"


# The same of a parser, first: another learns from what it writes, in the longest chain of jobs.
use rule train as train_parser with:
    wildcard_constraints:
        experiment=PARSER,
    priority: FIRST
