from transformer.cli import job

with job("table", snakemake.log[0]):
    from transformer.report.build import build_table

    files = {name: files for name, files in snakemake.input.items() if name != "code"}
    output = snakemake.output[0].rpartition(".")[0]
    build_table(snakemake.wildcards.table, snakemake.params.title, output, files | snakemake.params.table)
