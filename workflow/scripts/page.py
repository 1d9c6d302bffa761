# Writes the page of a scale.
from transformer.cli import job

with job("page", snakemake.log[0]):
    from transformer.report.page import Files, Params, build_page

    files = Files(**{name: files for name, files in snakemake.input.items() if name != "code"})
    build_page(files, Params(**snakemake.params.page), snakemake.output[0])
