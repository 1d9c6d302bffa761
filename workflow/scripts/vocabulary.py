from transformer.cli import job

with job("vocabulary", snakemake.log[0]):
    from transformer.data.preprocessing import learn_vocabulary
    from transformer.layout import Data

    learn_vocabulary(Data(snakemake.params.data), **snakemake.params.options)
