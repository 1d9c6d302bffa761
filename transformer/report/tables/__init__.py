"""Tables for readers, the paper's numbers beside ours.

A new table needs three things. A module here, of its name, with

    TITLE               its heading on the page
    add_options(parser) its inputs besides --paper, as options of `python -m transformer table NAME`
    make(args)          the table and the frame behind it, from these options

its name in `TABLES`, and its inputs in workflow/inputs/tables.smk. The sentence that Snakemake's own report shows
beside it stands in workflow/report/table.rst; trainings that only it takes, in config/runs.py.
"""

TABLES = ("table1", "table2", "table3", "table4", "table5", "why", "measures")
