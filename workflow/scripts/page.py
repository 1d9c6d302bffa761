# Writes the page of a scale.
from transformer.cli import job

with job("page", snakemake.log[0]):
    from transformer.report.build import build_page

    build_page(snakemake.input, snakemake.params.page, snakemake.output[0])
