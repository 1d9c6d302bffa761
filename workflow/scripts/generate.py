from transformer.cli import job

with job("generate", snakemake.log[0]):
    from transformer.data.grammar import take
    from transformer.storage.files import write_columns

    write_columns(take(*snakemake.params.slice), snakemake.output)
