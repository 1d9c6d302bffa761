"""For a run that is off the trajectory, compare names the row of Table 5 whose curve is nearest; distances by hand."""

import json

import pytest
import yaml

from transformer import __main__

STEPS = (50, 100)
PAPERS = {"norm": "post", "residual": True, "scaled": True, "attention": "dot", "tied": True}


def write_run(runs, name, dev, loss=5.0, model=None, **training):
    """Write a run's folder, RUNS/{experiment}/{seed}, with a line for each of STEPS; dev: perplexities, or None."""
    folder = runs / name
    folder.mkdir(parents=True)
    with (folder / "metrics.jsonl").open("w", encoding="utf-8") as file:
        for number, step in enumerate(STEPS):
            line = {"step": step, "smoothed_loss": loss, "perplexity": 90.0, "rate": 0.1}
            line |= {} if dev[number] is None else {"dev_perplexity": dev[number]}
            file.write(json.dumps(line) + "\n")
    experiment, seed = name.split("/")
    settings = {"scale": "toy", "experiment": experiment, "seed": int(seed)}
    settings["model"] = {"N": 2, "positions": "sinusoid"} | (model or {})
    (folder / "experiment.yaml").write_text(yaml.safe_dump(settings | {"training": {"steps": 100} | training}))
    return folder


@pytest.fixture
def runs(tmp_path):
    """Return a folder of runs: the reference, rows of Table 5, and two that are none.

    The reference's experiment.yaml is older than the options.
    """
    runs = tmp_path / "results" / "toy" / "runs" / "en-de"
    write_run(runs, "base/1", (20.0, 10.0))
    write_run(runs, "unscaled/1", (40.0, 30.0), model=PAPERS | {"scaled": False}, warmup=True)
    write_run(runs, "no-residual/1", (110.0, 121.0), model=PAPERS | {"residual": False, "N": 1}, warmup=True)
    write_run(runs, "no-warmup/2", (400.0, 400.0), loss=6.0, model=PAPERS, warmup=False)
    write_run(runs, "base/2", (100.0, 100.0), model=PAPERS, warmup=True)  # only its seed is another
    write_run(runs, "N-4/1", (100.0, 100.0), model={"N": 4})  # of Table 3
    (write_run(runs, "untied/1", (100.0, 100.0), model={"tied": False}) / "metrics.jsonl").unlink()  # not finished
    return runs


def compare(capsys, *argv):
    """Return the lines that are printed after the first table's verdict, and the exit code."""
    capsys.readouterr()
    code = 0
    try:
        __main__.main(["compare", *map(str, argv)])
    except SystemExit as exit:
        code = exit.code
    return capsys.readouterr().out.splitlines(), code


def second_table(lines):
    """Return the lines of the second table without its rule, each as its cells, and those below it."""
    start = next(number for number, line in enumerate(lines) if line.startswith("curve"))
    end = lines.index("", start)
    rows = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines[start:end]]
    return [rows[0], *rows[2:]], lines[end + 1 :]


def test_the_nearest_curve_is_named(runs, tmp_path, capsys):
    """110 and 121 are 1.1 and 1.21 times 100: ln 1.1 is 0.095, and the mean of that and its double is 0.14."""
    run = write_run(tmp_path, "run/1", (100.0, 100.0))
    lines, code = compare(capsys, run, runs / "base" / "1")
    assert code == 1
    rows, below = second_table(lines)
    assert rows == [
        ["curve", "what differs", "distance", "step 50", "step 100"],
        ["this run", "100 (5.000)", "100 (5.000)"],
        ["no-residual/1", "residual false, N 1", "0.14", "110 (5.000)", "121 (5.000)"],
        ["unscaled/1", "scaled false", "1.06", "40 (5.000)", "30 (5.000)"],  # (ln 2.5 + ln 3.33) / 2
        ["no-warmup/2", "warmup false", "1.39", "400 (6.000)", "400 (6.000)"],  # ln 4
        ["reference", "1.96", "20 (5.000)", "10 (5.000)"],  # (ln 5 + ln 10) / 2
    ]
    assert below == [
        "dev perplexity, smoothed loss in brackets; distance: mean absolute difference of ln(dev perplexity)",
        "nearest to the curve of no-residual/1: residual false, N 1",
        "resemblance is no proof: other faults may give the same curve",
    ]


def test_without_a_dev_score_the_smoothed_loss_decides(runs, tmp_path, capsys):
    run = write_run(tmp_path, "run/1", (None, None), loss=6.25)
    rows, below = second_table(compare(capsys, run, runs / "base" / "1")[0])
    assert [row[:3] for row in rows[2:4]] == [
        ["no-warmup/2", "warmup false", "0.25"],
        ["reference", "1.25", "20 (5.000)"],
    ]
    assert rows[1] == ["this run", "- (6.250)", "- (6.250)"]
    assert below[0].endswith("mean absolute difference of the smoothed loss")
    assert below[1] == "nearest to the curve of no-warmup/2: warmup false"


def test_a_reference_that_is_nearer_than_any_fault_is_named(runs, tmp_path, capsys):
    run = write_run(tmp_path, "run/1", (20.0, 10.0), loss=7.0)
    below = second_table(compare(capsys, run, runs / "base" / "1" / "metrics.jsonl")[0])[1]
    assert below[1:3] == [
        "nearest to the curve of unscaled/1: scaled false",
        "the reference's own curve is nearer than any of these",
    ]


def test_a_row_of_table_5_is_not_compared_with_itself(runs, capsys):
    rows, _ = second_table(compare(capsys, runs / "no-residual" / "1", runs / "base" / "1")[0])
    assert [row[0] for row in rows[1:]] == ["this run", "unscaled/1", "no-warmup/2", "reference"]


def test_runs_may_be_given(runs, tmp_path, capsys):
    """As folders or logs, whether or not they are rows of Table 5 or have an experiment.yaml."""
    run = write_run(tmp_path, "run/1", (100.0, 100.0))
    bare = write_run(tmp_path / "elsewhere", "bare/3", (90.0, 90.0))
    (bare / "experiment.yaml").unlink()
    given = (runs / "N-4" / "1", bare / "metrics.jsonl")
    rows, below = second_table(compare(capsys, run, runs / "base" / "1", "--claims", *given)[0])
    assert [row[:2] for row in rows[2:]] == [["N-4/1", "N 4"], ["bare/3", "0.11"], ["reference", "1.96"]]
    assert below[1] == "nearest to the curve of N-4/1: N 4"
    with pytest.raises(SystemExit) as exit:
        __main__.main(["compare", str(run), str(runs / "base" / "1"), "--claims", str(tmp_path)])
    assert exit.value.code.endswith(f"{tmp_path}: no metrics.jsonl, neither here nor in state/*/")


def test_where_no_such_run_is_there_it_says_how_to_make_them(tmp_path, capsys):
    reference, run = write_run(tmp_path, "base/1", (20.0, 10.0)), write_run(tmp_path, "run/1", (100.0, 100.0))
    lines, code = compare(capsys, run, reference)
    table = "results/toy/tables/table5.md"
    assert lines[-2:] == [
        "",
        f"no runs of Table 5's rows to compare its curve with: `snakemake {table}` trains them",
    ]
    assert code == 1


def test_a_run_on_the_trajectory_is_not_compared_with_faults(runs, capsys):
    lines, code = compare(capsys, runs / "base" / "1", runs / "base" / "1")
    assert code == 0
    assert lines[-1] == "on the expected trajectory, up to step 100"
    assert not any("no-residual" in line for line in lines)
