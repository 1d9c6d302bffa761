"""The analyses of trained runs for Table 5, one module each. The workflow tracks each module as code of its analysis.

The workflow reads this list at its start, and config.yaml's keys come from it. So modules import torch, NumPy and
pandas late, in their functions.
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
