from transformer.cli import job

with job("silver", snakemake.log[0]):
    from transformer.parsing.treebanks import select_silver

    files, params = snakemake.input, snakemake.params
    select_silver(files.trees, files.parses, params.keep, params.max_words, snakemake.output[0])
