from transformer.cli import job

with job(snakemake.rule, snakemake.log[0]):  # experiment or decoding
    from transformer.config.experiment import save

    save(snakemake.params.settings, snakemake.output[0])
