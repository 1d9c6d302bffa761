from transformer.cli import job

with job("unpack", snakemake.log[0]):
    from transformer.data.archive import unpack

    unpack(snakemake.input.archive, snakemake.output[0], **snakemake.params.options)
