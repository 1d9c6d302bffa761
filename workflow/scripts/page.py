from transformer.cli import job

with job("page", snakemake.log[0]):
    from transformer.report.page import PageFiles, PageParams, build_page

    files = PageFiles(**{name: files for name, files in snakemake.input.items() if name != "code"})
    build_page(files, PageParams(**snakemake.params.page), snakemake.output[0])
