"""The benchmark of BLEU's metrics: mistakes by hand, and recorded scores of real translations of newstest2014."""

import os
from pathlib import Path

import pandas as pd
import pytest
from support.scored import PLAIN, QUOTED, bleu, by_hand

from benchmarks import measures
from transformer.evaluation.bleu import scores

OUTPUT = [line.replace("heute", "nie") if n < 6 else line for n, line in enumerate(PLAIN)]


def test_mistakes_by_hand():
    plain, escaped = [by_hand(line) for line in PLAIN], [by_hand(line, "&quot;") for line in OUTPUT]
    unsplit = [[by_hand(line).replace(" ##AT##-##AT## ", "-") for line in side] for side in (OUTPUT, PLAIN)]
    assert measures.mistakes(OUTPUT, QUOTED, "de") == pytest.approx(
        {
            "compounds not split": bleu(*unsplit),
            "`&quot;` and the like left in the translation alone": bleu(escaped, plain),
            "the reference tokenised twice": bleu(escaped, [by_hand(line, "&amp; quot ;") for line in PLAIN]),
            "sacreBLEU of tokens against text": scores(unsplit[0], QUOTED, "de")["sacrebleu"]["score"],
        }
    )


@pytest.mark.slow
def test_the_recorded_numbers_are_reproduced(tmp_path, monkeypatch):
    """All digits match, except the last ones: they depend on the processor. A system's text, two systems' tokens."""
    if not (mirror := os.environ.get("TRANSFORMER_MIRROR")):
        pytest.skip("TRANSFORMER_MIRROR names no folder of downloads")
    systems = [system for system in measures.SYSTEMS if system.tokens or system.name == "bergamot-en-de"]
    monkeypatch.setattr(measures, "SYSTEMS", systems)
    measures.main(downloads=Path(mirror), output=tmp_path / "measures.csv")
    made, recorded = (pd.read_csv(path) for path in (tmp_path / "measures.csv", "workflow/paper/measures.csv"))
    known = recorded[recorded["system"].isin([system.name for system in systems])]
    pd.testing.assert_frame_equal(made, known.reset_index(drop=True))
