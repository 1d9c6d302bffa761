from transformer.cli import job

with job("decoding", snakemake.log[0]):
    from transformer.config.experiment import Decoding, save
    from transformer.storage.reading import structured

    save(structured(snakemake.params.settings, Decoding, "decoding"), snakemake.output[0])
