"""Tables for readers, the paper's numbers beside ours.

A module makes one table by a function of its name: from named inputs and parameters, the table and the frame behind it.
"""

TABLES = {  # by name, in the page's order: headings
    "table1": "Table 1: kinds of layers",
    "table2": "Table 2: translation",
    "table3": "Table 3: variations on the model",
    "table4": "Table 4: parsing",
    "table5": "Table 5: the paper's claims about its design",
    "why": "What each choice is worth",
}
