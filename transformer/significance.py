"""Whether one system's BLEU can be told from another's: paired bootstrap resampling, as sacreBLEU does it.

The sentences of the test set are drawn anew, with replacement and the same for both systems. The p-value is the share
of draws whose difference in BLEU strays from the mean difference by more than the one that was found.
"""

import os

from sacrebleu.significance import PairedTest

from transformer.bleu import token_bleu

SEED = 12345
RESAMPLES = 1000


def p_value(base: list[str], system: list[str], references: list[str]) -> float:
    """Of equal BLEU; all three are sentences as tokens, separated by spaces (`bleu.paper_tokens`).

    1 where both BLEU are the same. sacreBLEU alone would say 1/1001 then, as no draw strays by more than nothing.
    """
    os.environ["SACREBLEU_SEED"] = str(SEED)  # from there alone sacreBLEU takes it
    systems = [("base", base), ("system", system)]
    test = PairedTest(systems, {"BLEU": token_bleu()}, [references], test_type="bs", n_samples=RESAMPLES)
    _, results = test()
    ours, theirs = results["BLEU"]
    return 1.0 if ours.score == theirs.score else theirs.p_value
