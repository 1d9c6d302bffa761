from transformer.cli import job

with job("vocabulary", snakemake.log[0]):
    from transformer.config.experiment import Preprocessing
    from transformer.data.preprocessing import learn_vocabulary, reuse_vocabulary
    from transformer.storage.reading import structured

    params = snakemake.params
    if snakemake.input.reused:
        reuse_vocabulary(params.data, snakemake.input.reused[0], params.options["subwords"])
    else:
        preprocessing = structured(params.preprocessing, Preprocessing, "preprocessing")
        learn_vocabulary(params.data, languages=params.languages, preprocessing=preprocessing, **params.options)
