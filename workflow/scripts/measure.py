from transformer.cli import job

with job("measure", snakemake.log[0]):
    from transformer.config.schema import Table1
    from transformer.evaluation.layers import measure_layers
    from transformer.storage.reading import structured
    from transformer.storage.records import with_sum, write_json

    measured = measure_layers(structured(snakemake.params.table1, Table1, "table1"))
    write_json(snakemake.output[0], with_sum(measured), indent=1)
