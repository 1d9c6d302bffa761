"""Table 2, compared with numbers computed by hand and with the paper's numbers."""

import re
from pathlib import Path

import pandas as pd
import pytest
from support.scored import detail, make_table, notes_of, rivals, score, shown, write_logs, write_scores

from transformer.report.tables.render import Grid
from transformer.report.tables.table2 import table2
from transformer.storage.files import InputError

ROOT = Path(__file__).parents[3] / "workflow/paper"
PRINTED = {"paper": ROOT / "table2.csv", "settings": ROOT / "table3.csv", "stated": ROOT / "training.csv"}
BASE, BIG = "Transformer (base)", "Transformer (big)"
KINDS = dict.fromkeys(("base", "big"), "transformer") | {"mine": "lstm"}


def make(
    tmp_path,
    *contents: dict,
    expected: tuple = (),
    of_paper: bool = True,
    logs: dict | None = None,
    kinds=KINDS,
    long=(),
):
    """Return ours by model, and the table."""
    options = PRINTED | {"score": write_scores(tmp_path, *contents), "label": "Multi30k", "architectures": kinds}
    options |= {"metrics": write_logs(tmp_path / "runs", logs or {}), "lengths": write_scores(tmp_path / "long", *long)}
    frame, _, table = make_table(table2, "model", **options, expected=expected, data_of_paper=of_paper)
    return frame[frame["by"] == "ours"].set_index("model"), table


def test_means_and_deviations_over_seeds(tmp_path):
    """30, 31, 35: mean 32, squares 4 + 1 + 9 over 2 degrees of freedom."""
    three = [score(bleu, seed=seed, flops=seed * 1e15) for seed, bleu in enumerate((30.0, 31.0, 35.0), start=1)]
    rows, table = make(tmp_path, *three)
    ours = rows.loc[BASE]
    values = {"bleu": 32, "bleu_sd": 7**0.5, "sacrebleu": 31, "low": 31.525, "high": 32.475, "paper": 27.3}
    values |= {"difference": 32 - 27.3, "counted": 2e15, "seeds": 3}
    assert {name: ours[f"en-de_{name}"] for name in values} == pytest.approx(values)
    assert ours["en-de_runs"] == "en-de/base/1 en-de/base/2 en-de/base/3"
    assert table.grid.rows[-1]["EN-DE BLEU"].runs == tuple(ours["en-de_runs"].split())


def test_an_experiment_that_lacks_a_task_has_blank_cells(tmp_path):
    rows, table = make(tmp_path, score(36.25), score(55.0, task="en-fr"), score(37.5, experiment="big"))
    assert pd.isna(rows.loc[BIG, "en-fr_bleu"])
    last = shown(table.grid)[-1] | detail(table)[-1]
    expected = {"Seeds": "1 / 0", "EN-DE BLEU": "37.5", "EN-FR BLEU": "", "EN-FR FLOPs, counted": ""}
    assert {heading: last[heading] for heading in expected} == expected


def test_flops_by_time_and_counted(tmp_path):
    """12 hours on 8 P100 are the paper's 3.3·10^18; a processor has none. The counts of its two are made by hand."""
    eight = [{"step": 0, "started": "2026-01-01T00:00:00+00:00", "hardware": "Tesla P100-SXM2-16GB", "processes": 8}]
    gpus = {"starts": eight, "hardware": eight[0]["hardware"], "seconds": 12 * 3600}
    rows, table = make(tmp_path, score(36.25, **gpus), score(37.5, experiment="big"))
    assert rows.loc[BASE, "en-de_flops"] == pytest.approx(12 * 3600 * 8 * 9.5e12)
    texts = [[row["EN-DE FLOPs, by time"], row["EN-DE FLOPs, counted"]] for row in detail(table)[-4:]]
    expected = [["3.3·10^18", "9.5·10^17"], ["2.3·10^19", "9.7·10^18"], ["3.3·10^18", "1.5·10^15"], ["–", "1.5·10^15"]]
    assert texts == expected


def test_a_difference_within_the_interval_is_marked(tmp_path):
    """27.6 ± 0.475 contains the paper's 27.3, 29.4 ± 0.475 does not contain 28.4. On other data, none is marked."""
    contents = score(27.6), score(29.4, experiment="big")
    _, table = make(tmp_path, *contents)
    assert [row["EN-DE − paper"] for row in shown(table.grid)[-2:]] == ["+0.3 ‡", "+1.0"]
    rows, table = make(tmp_path, *contents, of_paper=False)
    assert rows["en-de_difference"].isna().all()
    assert "EN-DE − paper" not in table.grid.rows[0]
    assert "‡" not in notes_of(table)


def test_tasks_may_differ_in_their_steps_but_seeds_may_not(tmp_path):
    long = score(55.0, task="en-fr", steps=7000)
    _, table = make(tmp_path, score(36.25), long)
    assert detail(table)[-1]["Steps"] == "6,000 / 7,000"
    with pytest.raises(InputError, match=r"expected scores of one planned_steps, found 7000 in .* and 6000 in "):
        make(tmp_path, long, score(55.0, task="en-fr", seed=2))


def claim(table) -> list[list[str]]:
    """Return the texts in the grid of verdicts."""
    (grid,) = [note for note in table.notes if isinstance(note, Grid) and "At equal" in note.rows[0]]
    return [[row[heading] for heading in ("At equal", "Verdict", "Difference", "p (Holm)")] for row in shown(grid)]


def test_base_is_compared_with_another_architecture_at_equal_cost(tmp_path):
    """Student's t of 2 + 2 seeds has two degrees of freedom: p = 1 - t / sqrt(t^2 + 2).

    At 10^15 FLOPs: 30 and 34 less 20 and 30; t = 7 / sqrt(29). At 200 s: less 16 and 24; t = 12 / sqrt(20).
    """
    scores, logs = rivals()
    _, table = make(tmp_path, *scores, logs=logs)
    steps, *costs = claim(table)
    assert steps[:3] == ["steps: 100; test", "replicated", f"+10.0 ({steps[2][7:11]} to {steps[2][15:20]})"]
    ends = ["FLOPs: 1.0·10^15; dev", "seconds: 200 on 2 CPU cores; dev"]
    assert [row[:2] for row in costs] == [[end, "inconclusive"] for end in ends]
    differences, p = [(32 - 25, 29), (32 - 20, 20)], []
    for row, (difference, variance) in zip(costs, differences, strict=True):
        t = difference / variance**0.5
        margin = 4.303 * variance**0.5  # t with two degrees of freedom exceeds 4.303 in 2.5 %
        numbers = [float(number.replace("−", "-")) for number in re.findall(r"[+−][\d.]+", row[2])]
        assert numbers == pytest.approx([difference, difference - margin, difference + margin], rel=0.05)
        p.append(1 - t / (t**2 + 2) ** 0.5)
    of_holm = [max(2 * min(p), each) for each in p]  # of the two on the dev set
    assert [row[3] for row in costs] == [f"{each:.3f} ({other:.3f})" for each, other in zip(p, of_holm, strict=True)]
    about = shown(next(note for note in table.notes if isinstance(note, Grid) and "Parameters" in note.rows[0]))[-1]
    assert about["Model"] == "LSTM with attention, as GNMT (mine)"
    assert [about[name] for name in ("Parameters", "EN-DE seconds")] == ["1,900,544", "1,000 on 2 CPU cores"]
    assert claim(make(tmp_path / "2", *scores, kinds=KINDS)[1])[1][:2] == [
        "FLOPs: nothing to compare; dev",
        "not run",
    ]


def test_seconds_are_compared_on_the_same_hardware_and_one_seed_has_no_verdict(tmp_path):
    (base, _, mine, _), logs = rivals()
    mine["run"]["hardware"] = "NVIDIA H200"
    _, table = make(tmp_path, base, mine, logs=logs)
    expected = [["steps: 100; test", "+10.0"], ["FLOPs: 1.0·10^15; dev", "+10.0"]]
    rows = [[equal, "not testable (one seed)", difference, ""] for equal, difference in expected]
    assert claim(table) == [*rows, ["seconds: nothing to compare; dev", "not run", "", ""]]
    for kinds in ({"base": "lstm", "mine": "transformer"}, {"base": "lstm", "mine": "lstm"}):
        _, table = make(tmp_path / kinds["mine"], base, mine, kinds=kinds)
        assert "first claim" not in notes_of(table)


def test_base_is_compared_on_the_longest_sentences(tmp_path):
    """Base's 30 and 32 less 20 and 22: t of 10 / sqrt(2) with two degrees of freedom. Joined sentences do not count."""
    scores, long = rivals()[0], []
    for content, bleu in zip(scores, (30.0, 32.0, 20.0, 22.0), strict=True):
        groups = [(None, 90.0), (None, bleu), (2, 80.0)]
        entries = [
            {
                "times": times,
                "sentences": 9,
                "tokens": 31.0,
                "bleu": each,
                "length_ratio": 1.0,
                "low": each,
                "high": each,
                "draws": [each] * 1000,
            }
            for times, each in groups
        ]
        about = {"positions": "sinusoid", "longest": 40, "skipped": 0, "sentences": 18, "target_sha256": "ab"}
        long.append(about | {"run": content["run"], "groups": entries})
    (_, found, *_) = claim(make(tmp_path, *scores, long=long)[1])
    p = 1 - 50**0.5 / 52**0.5
    assert found[0] == "steps, longest quarter of the sentences (31 subwords); dev"
    assert (found[1], found[2][:5], found[3].split()[0]) == ("replicated", "+10.0", f"{p:.3f}")


def test_runs_whose_model_code_changed_before_the_scoring_are_named(tmp_path):
    """An older file has no hash of the code, and is not named."""
    contents = [score(30.0, seed=seed) for seed in (1, 2, 3)]
    for content, trained in zip(contents[:2], ("a", "b"), strict=True):
        content["run"]["starts"][-1]["model_code"] = trained
        content["run"]["scored_with"] = {"commit": f"{'c0ffee' * 7}+changes", "model_code": "b"}
    found = notes_of(make(tmp_path, *contents)[1])
    assert "of these runs: en-de/base/1 (trained at 3f2a9c0d, scored at c0ffeec0ffee+changes)." in found


def test_a_model_that_did_not_learn_gives_no_verdict_on_the_claim(tmp_path):
    scores, logs = rivals()
    for content in scores[2:]:
        content["scores"]["compound_split"]["score"], content["draws"] = 1.0, [0.5, 1.5]
    _, table = make(tmp_path, *scores, logs=logs)
    assert {row[1] for row in claim(table)} == {"inconclusive"}
