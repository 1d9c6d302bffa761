from transformer.cli import job

with job("measure", snakemake.log[0]):
    import json

    from transformer.config.schema import Table1
    from transformer.evaluation.layers import measure_layers
    from transformer.storage.files import replacing
    from transformer.storage.reading import structured

    with replacing(snakemake.output[0]) as file:
        json.dump(measure_layers(structured(snakemake.params.table1, Table1, "table1")), file, indent=1)
