from transformer.cli import job

with job("treebank", snakemake.log[0]):
    from transformer.parsing.treebanks import extract_trees

    extract_trees(output=snakemake.output[0], **snakemake.params.options)
