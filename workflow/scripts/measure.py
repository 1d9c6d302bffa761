from transformer.cli import job

with job("measure", snakemake.log[0]):
    import json
    from types import SimpleNamespace

    from transformer.evaluation.layers import measure_layers
    from transformer.storage.files import replacing

    with replacing(snakemake.output[0]) as file:
        json.dump(measure_layers(SimpleNamespace(**snakemake.params.table1)), file, indent=1)
