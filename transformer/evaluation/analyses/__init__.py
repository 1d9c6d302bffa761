"""The analyses of trained runs for Table 5: a module for each, which the workflow tracks as its code.

The workflow reads this list as it starts, and config.yaml's keys come from it: a module imports torch, NumPy and pandas
where it measures, not at its top.
"""

from transformer.evaluation.analyses.averaging import Averaging
from transformer.evaluation.analyses.heads import Heads
from transformer.evaluation.analyses.lengths import ByLength
from transformer.evaluation.analyses.smoothing import Smoothing
from transformer.evaluation.analyses.tuning import Tuning

ANALYSES = {  # in the order of Table 5's notes
    "averaging": Averaging(),
    "smoothing": Smoothing(),
    "lengths": ByLength(),
    "heads": Heads(),
    "tuning": Tuning(),
}
