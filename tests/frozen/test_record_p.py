"""Every p of the record's Tables 3 and 5, computed again by other formulas from the recorded scores.

The t distribution is a sum over a fine grid of its density. Samples of test set and seeds are added by convolution.
"""

import csv
import json
import math
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

RECORD = Path(__file__).parents[2] / "results/record/multi30k"
GRID = np.linspace(-400, 400, 800_001)


def recorded(file: str) -> dict[str, list[tuple[float, np.ndarray]]]:
    """Return BLEU and bootstrap samples of each seed, by experiment."""
    found = defaultdict(list)
    for path in sorted(RECORD.glob(f"runs/en-de/*/*/{file}")):
        content = json.loads(path.read_text("utf-8"))
        scores = content["scores"]
        found[path.parts[-3]].append((scores[scores["paper"]]["score"], np.array(content["draws"])))
    return found


def tail(size: float, strays: np.ndarray, error: float, freedom: int) -> float:
    """Return the probability that |stray + error * t| is `size` or more."""
    log = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(freedom * math.pi)
    density = np.exp(log - (freedom + 1) / 2 * np.log1p(GRID**2 / freedom))
    below = np.cumsum(density) * (GRID[1] - GRID[0])
    below += (1 - below[-1]) / 2  # the part beyond the grid
    upper, lower = (np.interp((end - strays) / error, GRID, below) for end in (size, -size))
    return float(np.mean(1 - upper + lower))


def p_value(own: list, base: list, pool: list[list]) -> float:
    """Return p of the difference between two systems, or of a difference itself if `base` has no seeds."""
    compared = [own, base] if base else [own]
    seeds = [np.array([score for score, _ in each]) for each in pool]
    freedom = sum(len(scores) - 1 for scores in seeds)
    pooled = sum(((scores - scores.mean()) ** 2).sum() for scores in seeds) / freedom
    luck = 0.0
    for each in pool:
        draws = np.array([samples for _, samples in each])
        centred = draws - draws.mean(axis=1, keepdims=True)
        luck += ((centred - centred.mean(axis=0)) ** 2).sum(axis=0).mean() / freedom
    variances, degrees = [], []
    for each in compared:
        variance = np.var([score for score, _ in each], ddof=1) if len(each) > 1 else 0.0
        outlier = variance >= 4 * pooled
        variances.append(max(variance if outlier else pooled, luck) / len(each))
        degrees.append(len(each) - 1 if outlier else freedom)
    if set(degrees) != {freedom}:  # Satterthwaite
        freedom = math.floor(sum(variances) ** 2 / sum(v**2 / d for v, d in zip(variances, degrees, strict=True)))
    means = [(np.mean([score for score, _ in each]), np.mean([samples for _, samples in each], 0)) for each in compared]
    difference, strays = (first - (second[0] if second else 0) for first, *second in zip(*means, strict=True))
    strays = strays - strays.mean()
    share = luck * sum(1 / len(each) for each in compared) / strays.var()
    return tail(abs(difference), strays * math.sqrt(max(0, 1 - share)), math.sqrt(sum(variances)), freedom)


@pytest.mark.parametrize(("file", "prefix"), [("dev.last.json", ""), ("test.json", "test_")])
def test_every_p_of_table_3_and_holms(file, prefix):
    with (RECORD / "tables/table3.csv").open(encoding="utf-8", newline="") as table:
        rows = {row["experiment"]: row for row in csv.DictReader(table)}
    runs = recorded(file)
    pool = [runs[name] for name in rows]
    base, found = runs["base"], {}
    for name in rows.keys() - {"base"}:
        found[name] = p_value(runs[name], base, pool)
        assert float(rows[name][f"{prefix}p"]) == pytest.approx(found[name], abs=1e-3), name
    left, highest = len(found), 0.0
    for name in sorted(found, key=found.get):
        highest = max(highest, min(1.0, left * found[name]))
        assert float(rows[name][f"{prefix}p_holm"]) == pytest.approx(highest, abs=1e-2), name
        left -= 1


@pytest.mark.parametrize(("file", "prefix"), [("dev.last.json", ""), ("test.json", "test_")])
def test_every_p_of_the_trained_rows_of_table_5(file, prefix):
    with (RECORD / "tables/table3.csv").open(encoding="utf-8", newline="") as table:
        names = [row["experiment"] for row in csv.DictReader(table)]
    with (RECORD / "tables/table5.csv").open(encoding="utf-8", newline="") as table:
        rows = [(re.fullmatch(r"`(\S+)` − `(\S+)`", row["compared"]), row) for row in csv.DictReader(table)]
    runs = recorded(file)
    pool = [runs[name] for name in names]
    trained = [(match[1], match[2], row) for match, row in rows if match]
    assert len(trained) == 15
    for own, other, row in trained:
        found = p_value(runs[own], runs[other], pool)
        assert float(row[f"{prefix}p"]) == pytest.approx(found, abs=1e-3), own


def measured(experiment: str, file: str, part: str, **values) -> list[tuple[float, np.ndarray]]:
    """Return a result of an analysis with its bootstrap samples for each seed: the list entry with these values."""
    found = []
    for path in sorted(RECORD.glob(f"runs/en-de/{experiment}/*/{file}.json")):
        (entry,) = (each for each in json.loads(path.read_text("utf-8"))[part] if values.items() <= each.items())
        found.append((entry["bleu"], np.array(entry["draws"])))
    return found


def perplexities(experiment: str) -> list[tuple[float, np.ndarray]]:
    contents = [
        json.loads(path.read_text()) for path in sorted(RECORD.glob(f"runs/en-de/{experiment}/*/smoothing.json"))
    ]
    return [(content["perplexity"], np.array(content["perplexity_draws"])) for content in contents]


def p_of_analysis(words: str) -> float:
    """Return p of a comparison that Table 5 describes in these words: of uses of the same runs, or of two systems."""
    if match := re.fullmatch(r"(\d+) heads masked − none masked, (.+)", words):
        kind = match[2].replace("decoder to encoder", "cross")
        own = measured("base", "heads", "bleu", kind=kind, masked=int(match[1]))
        other = measured("base", "heads", "bleu", masked=0)
    elif match := re.fullmatch(r"`(\w+)`, (\d+) checkpoints − the last", words):
        own, other = (measured(match[1], "averaging", "averages", checkpoints=n) for n in (int(match[2]), 1))
    elif match := re.fullmatch(r"perplexity, `(\S+)` − `(\S+)`", words):
        own, other = map(perplexities, match.groups())
        return p_value(own, other, [own, other])
    else:
        *names, beam, times = re.fullmatch(r"`(\S+)` − `(\S+)`, (?:beam (\d+)|(\d) × the longest)", words).groups()
        part = ("smoothing", "beams", "beam") if beam else ("lengths", "groups", "times")
        own, other = (measured(name, *part[:2], **{part[2]: int(beam or times)}) for name in names)
        return p_value(own, other, [own, other])
    same = [(a - b, draws - others) for (a, draws), (b, others) in zip(own, other, strict=True)]
    return p_value(same, [], [same])


def test_every_p_of_the_analyses_in_table_5():
    with (RECORD / "tables/table5.csv").open(encoding="utf-8", newline="") as table:
        rows = [row for row in csv.DictReader(table) if row["p"]]
    analyses = [row for row in rows if not re.fullmatch(r"`\S+` − `\S+`", row["compared"])]
    assert len(analyses) == 15
    for row in analyses:
        assert float(row["p"]) == pytest.approx(p_of_analysis(row["compared"]), abs=1e-3), row["compared"]
