# Makes one figure.
from transformer.cli import job

with job("figure", snakemake.log[0]):
    from transformer.report.build import build_figure

    output = snakemake.output[0].rpartition(".")[0]
    build_figure(snakemake.wildcards.figure, snakemake.input, snakemake.params.figure, output)
