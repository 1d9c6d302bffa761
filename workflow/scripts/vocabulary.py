from transformer.cli import job

with job("vocabulary", snakemake.log[0]):
    from transformer.config.experiment import Preparation
    from transformer.data.preprocessing import learn_vocabulary
    from transformer.layout import Data
    from transformer.storage.reading import structured

    params = snakemake.params
    preparation = structured(params.preparation, Preparation, "preparation")
    learn_vocabulary(Data(params.data), languages=params.languages, preparation=preparation, **params.options)
