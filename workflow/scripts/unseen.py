from transformer.cli import job

with job("unseen", snakemake.log[0]):
    from transformer.data.preprocessing import write_unseen

    write_unseen(snakemake.params.data, *snakemake.input.reference)
