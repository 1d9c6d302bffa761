from transformer.cli import job

with job("recall", snakemake.log[0]):
    from transformer.config.schema import Recall
    from transformer.evaluation.recall import measure_recall
    from transformer.storage.reading import structured
    from transformer.storage.records import with_sum, write_json

    measured = measure_recall(structured(snakemake.params.recall, Recall, "recall"))
    write_json(snakemake.output[0], with_sum(measured), indent=1)
