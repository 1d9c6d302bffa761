from transformer.cli import job

with job("vocabulary", snakemake.log[0]):
    from transformer.config.experiment import Preprocessing
    from transformer.data.preprocessing import learn_vocabulary
    from transformer.layout import Data
    from transformer.storage.reading import structured

    params = snakemake.params
    preprocessing = structured(params.preprocessing, Preprocessing, "preprocessing")
    learn_vocabulary(Data(params.data), languages=params.languages, preprocessing=preprocessing, **params.options)
