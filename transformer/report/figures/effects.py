"""The first figure of the page: how much each row of Table 3 differs from base, in the paper and here."""

from types import SimpleNamespace

import numpy as np

from transformer.report.figures import COLORS
from transformer.report.figures.style import COLUMN_INCHES, GREY, LINE_INCHES, SMALL, Drawing, new, not_shown
from transformer.report.tables.cells import difference_text, missing
from transformer.report.tables.table3 import TEST, read_last, read_variations, variations

# What is drawn of a row, from its top down: columns' prefix, legend, marker, colour.
_OURS = {"": ("ours, dev", "o", COLORS[0]), TEST: ("ours, test", "s", COLORS[1])}


def differences(input: SimpleNamespace, params: SimpleNamespace) -> Drawing:
    """Draw a line for each experiment, with 95 % intervals."""
    runs = read_last(input.score)
    frame = variations(read_variations(input.paper), runs, read_last(input.test), params.data_of_paper)
    frame = frame[frame["difference"].notna()]
    figure, axes = new(COLUMN_INCHES, 0.8 + 1.75 * LINE_INCHES * max(1, len(frame)))
    rows = np.arange(len(frame))
    axes.plot(frame["paper_difference"], rows - 0.25, "D", ls="none", mfc="none", color=GREY, label="the paper")
    for number, (prefix, (label, marker, color)) in enumerate(_OURS.items()):
        value, low, high = (frame[f"{prefix}difference{end}"].astype(float).round(6) for end in ("", "_low", "_high"))
        bars = np.maximum([value - low, high - value], 0)
        look = {"fmt": marker, "color": color, "capsize": 1.5, "elinewidth": 0.9, "markersize": 3.5, "label": label}
        axes.errorbar(value, rows + 0.25 * number, xerr=bars, **look)
    axes.axvline(0, color="black", linewidth=0.6)
    axes.set_yticks(rows, frame.index, size=SMALL)
    axes.set(xlabel="BLEU less base's", ylim=(len(frame) - 0.4, -0.6))
    axes.grid(axis="x")
    figure.legend(loc="outside upper center", ncols=3)
    caption = (
        "How much rows of Table 3 differ from base. Ours are measured twice, on the dev set by the last checkpoint "
        "and on the test set by averaged weights; lines are 95 % intervals. Table 3 says which can be told from "
        f"base. The paper's are of newstest2013, without intervals.{not_shown(missing(params.expected, runs['name']))}"
    )
    listed = []
    for name, row in frame.iterrows():
        texts = (difference_text(row[key], 1) for key in ("paper_difference", "difference", f"{TEST}difference"))
        listed.append(f"{name}: {', '.join(text or 'none' for text in texts)}")
    alt = f"Differences from base, the paper's, ours on dev and on test. {'; '.join(listed)}."
    return Drawing(figure, caption, alt)
