"""Tables for readers, the paper's numbers beside ours.

A module makes one table by a function of its name: from named files and parameters, the table and the frame behind it.
"""
