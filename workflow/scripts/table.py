# Makes one table.
from transformer.cli import job

with job("table", snakemake.log[0]):
    from transformer.report.build import build_table

    output = snakemake.output[0].rpartition(".")[0]
    build_table(snakemake.wildcards.table, snakemake.input, snakemake.params.table, output)
