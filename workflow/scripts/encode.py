from transformer.cli import job

with job("encode", snakemake.log[0]):
    from transformer.data.preprocessing import encode_splits
    from transformer.layout import Data

    params = snakemake.params
    encode_splits(Data(params.data), snakemake.threads, params.longest)
