# The way into the workflow from this folder: `snakemake --cores all`. The workflow itself is workflow/Snakefile.
# A plain `include:` would forget which of its rules is the default target.
workflow.include("workflow/Snakefile", overwrite_default_target=True)
