from transformer.cli import job

with job("encode", snakemake.log[0]):
    from transformer.data.preprocessing import encode_splits

    encode_splits(snakemake.params.data, snakemake.threads, snakemake.params.longest)
