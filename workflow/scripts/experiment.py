# Writes the settings of a training.
from transformer.cli import job

with job("experiment", snakemake.log[0]):
    from transformer.config.experiment import resolve, save

    save(resolve(snakemake.params.parts), snakemake.output[0])
