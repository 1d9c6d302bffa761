from transformer.cli import job

with job("page", snakemake.log[0]):
    from transformer.report.page import build_page

    build_page(dict(snakemake.input.items()), snakemake.params.page, snakemake.output[0])
