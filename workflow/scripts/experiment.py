from transformer.cli import job

with job("experiment", snakemake.log[0]):
    from transformer.config.experiment import Experiment, save
    from transformer.storage.reading import structured

    save(structured(snakemake.params.settings, Experiment, "experiment"), snakemake.output[0])
