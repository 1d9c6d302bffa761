# The entry point for `snakemake --cores all` in this folder. The workflow is in workflow/Snakefile.
# A plain `include:` would lose the default target.
workflow.include("workflow/Snakefile", overwrite_default_target=True)
