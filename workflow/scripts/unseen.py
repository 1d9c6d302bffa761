from transformer.cli import job

with job("unseen", snakemake.log[0]):
    from transformer.data.preprocessing import write_unseen
    from transformer.layout import Data

    write_unseen(Data(snakemake.params.data), *snakemake.input.reference)
