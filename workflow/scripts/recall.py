from transformer.cli import job

with job("recall", snakemake.log[0]):
    import json

    from transformer.config.schema import Recall
    from transformer.evaluation.recall import measure_recall
    from transformer.storage.files import replacing
    from transformer.storage.reading import structured

    with replacing(snakemake.output[0]) as file:
        json.dump(measure_recall(structured(snakemake.params.recall, Recall, "recall")), file, indent=1)
