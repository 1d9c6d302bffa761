from transformer.cli import job

with job("linearize", snakemake.log[0]):
    from transformer.parsing.treebanks import linearize_split

    files, params = snakemake.input, snakemake.params
    silver = next(iter(files.silver), None)
    linearize_split(params.data, snakemake.wildcards.split, files.trees, silver=silver, **params.mix)
