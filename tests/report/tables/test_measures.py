"""The benchmark of BLEU's metrics: mistakes by hand, and real translations of newstest2014 against what is recorded."""

import os
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.measures import main, mistakes
from transformer.evaluation.bleu import scores, token_bleu

REFERENCES = [f"Der „Hund“ mit {n} Beinen sieht heute die Katze am Fluss-Ufer." for n in range(20)]
PLAIN = [line.replace("„", '"').replace("“", '"') for line in REFERENCES]
OUTPUT = [line.replace("heute", "nie") if n < 6 else line for n, line in enumerate(PLAIN)]


def by_hand(line: str, quote: str = '"') -> str:
    """Return a line's tokens: quotes and the full stop stand alone, the compound is split."""
    words = line.replace('"', " Q ").replace("Fluss-Ufer", "Fluss ##AT##-##AT## Ufer").replace(".", " .").split()
    return " ".join(words).replace("Q", quote)


def test_mistakes_by_hand():
    def bleu(hypotheses: list[str], references: list[str]) -> float:
        return token_bleu().corpus_score(hypotheses, [references]).score

    plain, escaped = [by_hand(line) for line in PLAIN], [by_hand(line, "&quot;") for line in OUTPUT]
    unsplit = [[by_hand(line).replace(" ##AT##-##AT## ", "-") for line in side] for side in (OUTPUT, PLAIN)]
    assert mistakes(OUTPUT, REFERENCES, "de") == pytest.approx(
        {
            "compounds not split": bleu(*unsplit),
            "`&quot;` and the like left in the translation alone": bleu(escaped, plain),
            "the reference tokenised twice": bleu(escaped, [by_hand(line, "&amp; quot ;") for line in PLAIN]),
            "sacreBLEU of tokens against text": scores(unsplit[0], REFERENCES, "de")["sacrebleu"]["score"],
        }
    )


@pytest.mark.slow
def test_the_recorded_numbers_come_out_again(tmp_path):
    """To all digits, but for the last ones, which depend on the processor."""
    if not (mirror := os.environ.get("TRANSFORMER_MIRROR")):
        pytest.skip("TRANSFORMER_MIRROR names no folder of downloads")
    main(downloads=Path(mirror), output=tmp_path / "measures.csv")
    made, recorded = (pd.read_csv(path) for path in (tmp_path / "measures.csv", "workflow/paper/measures.csv"))
    pd.testing.assert_frame_equal(made, recorded)
