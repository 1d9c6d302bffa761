from transformer.cli import job

with job("figure", snakemake.log[0]):
    from transformer.report.build import build_figure

    files = {name: files for name, files in snakemake.input.items() if name != "code"}
    output = snakemake.output[0].rpartition(".")[0]
    build_figure(snakemake.wildcards.figure, snakemake.params.title, output, files | snakemake.params.figure)
