"""The analyses of trained runs for Table 5: a module each, which ends with its `ANALYSIS`.

The workflow reads this list as it starts, and config.yaml's keys come from it: a module imports torch, NumPy and pandas
where it measures, not at its top.
"""

from transformer.evaluation.analyses import averaging, heads, lengths, smoothing, tuning

ANALYSES = {  # in the order of Table 5's notes
    "averaging": averaging.ANALYSIS,
    "smoothing": smoothing.ANALYSIS,
    "lengths": lengths.ANALYSIS,
    "heads": heads.ANALYSIS,
    "tuning": tuning.ANALYSIS,
}
