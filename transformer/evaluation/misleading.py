"""Warnings where measures mislead, as the two texts show it by quotes, tokens, escapes or lower case."""

import re

from transformer.evaluation.bleu import QUOTES

UNICODE_QUOTES = "".join(QUOTES.values())
ESCAPE = re.compile("&(?:amp|apos|gt|lt|quot|#39|#91|#93|#124);")
# Spaces before a comma or the last full stop, Moses' hyphens, split compounds, subwords.
TOKENIZED = re.compile(r" ,(?: |$)| \.$|@-@|##AT##|@@(?: |$)|▁")
FEW = 0.1  # of the lines; of text as people write it, one in 200 has such marks


def marks(sentences: list[str]) -> dict:
    """Return how many Unicode quotes there are, of how many lines the other marks, and whether there are capitals."""
    return {
        "unicode_quotes": sum(character in UNICODE_QUOTES for line in sentences for character in line),
        "escaped_lines": sum(bool(ESCAPE.search(line)) for line in sentences),
        "tokenized_lines": sum(bool(TOKENIZED.search(line)) for line in sentences),
        "capitals": any(character.isupper() for line in sentences for character in line),
    }


def warnings(
    hypotheses: dict, references: dict, sentences: int, names: tuple[str, str] = ("--hyp", "--ref")
) -> list[str]:
    """Return a line for each measure, or all of them, that misleads.

    The dictionaries are `marks` of the two sides, which the lines call by `names`.
    """
    lines = []
    hypothesis, reference = names
    if count := hypotheses["unicode_quotes"]:
        lines.append(
            f"{hypothesis} has {count:,} Unicode quotation marks or apostrophes, such as „ “ ’: the paper's measure "
            "(plain_quotes) knows only plain ones and counts each of them as wrong"
        )
    for name, side in ((hypothesis, hypotheses), (reference, references)):
        if count := side["escaped_lines"]:
            lines.append(
                f"{name} has escapes such as `&quot;` in {count:,} of {sentences:,} lines: most measures score them as "
                "they stand, so that each costs some; make them characters first"
            )
        count = side["tokenized_lines"]
        if count > FEW * sentences:
            lines.append(
                f"{name} looks tokenised in {count:,} of {sentences:,} lines: all measures expect text as people "
                "write it; detokenise it first"
            )
    if hypotheses["capitals"] != references["capitals"]:
        lower = reference if hypotheses["capitals"] else hypothesis
        lines.append(f"{lower} alone is in lower case: only the measures in lower case (_lc) compare the two")
    return lines
