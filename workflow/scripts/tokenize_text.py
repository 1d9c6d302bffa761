# The name is not tokenize.py, because that would hide a standard module from `gpus` in this folder.
from transformer.cli import job

with job("tokenize", snakemake.log[0]):
    from transformer.config.experiment import Preprocessing
    from transformer.data.preprocessing import tokenize_split
    from transformer.storage.reading import structured

    files, params, split = snakemake.input, snakemake.params, snakemake.wildcards.split
    tokenize_split(
        params.data,
        split,
        list(zip(files.source, files.target, strict=True)),
        params.languages,
        structured(params.preprocessing, Preprocessing, "preprocessing"),
        snakemake.threads,
        clean=split == "train",
        vocabulary=next(iter(files.vocabulary), None),
        longest=params.longest,
    )
