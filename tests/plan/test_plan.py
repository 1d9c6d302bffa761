"""What a scale costs, against the paper's sizes worked by hand and Snakemake's own list of runs."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from snakemake.cli import parse_config
from snakemake.utils import update_config

from transformer.__main__ import main
from transformer.config import settings
from transformer.files import InputError
from transformer.plan import speed
from transformer.plan.plan import Plan, RunName, make_plan, side_by_side

ROOT = Path(__file__).parents[2]
V_37000 = "scales={paper: {tasks: {en-de: {embedding_rows: 37000}}}}"  # the paper's own count of subwords


def planned(*entries: str) -> Plan:
    """Return the plan of a configuration on eight GPUs of an exaFLOP/s."""
    return make_plan(settings.read([], list(entries)), speed.Speed("GPU", "fast GPU", 1e18, "assumed."), 8)


def printed(capsys, *arguments: str) -> str:
    main(["plan", *arguments])
    return capsys.readouterr().out


def refused(*arguments: str) -> str:
    """Return the message, or else the exit code, that plan ends with."""
    with pytest.raises(SystemExit) as end:
        main(["plan", *arguments])
    return str(end.value)


# FLOPs.


def test_flops_of_table_3_by_hand():
    """A step's TFLOPs at 25,000 + 25,000 tokens in sentences of 30 and 37,000 subwords; hours at 790 TFLOP/s."""
    plan = planned("scale=paper", V_37000)
    of_base = (9.53, 0.335)  # of the rows that change no size of a matrix, too
    others = {"d_k-16": (8.44, 0.297), "d_k-32": (8.80, 0.309), "d_ff-1024": (7.64, 0.269), "d_ff-4096": (13.31, 0.468)}
    others |= {"N-2": (5.07, 0.178), "N-4": (7.30, 0.257), "N-8": (11.76, 0.414), "big": (32.27, 3.40)}
    others |= {"d_model-256": (4.06, 0.143), "d_model-1024": (24.72, 0.869)}
    runs = plan.tables["table3"]
    assert (len(runs), others.keys() - {run.experiment for run in runs}) == (20, set())
    for run in runs:
        tera, hours = others.get(run.experiment, of_base)
        assert plan.flops([run]) / plan.steps([run]) / 1e12 == pytest.approx(tera, abs=0.005)
        assert plan.flops([run]) / 790e12 / 3600 == pytest.approx(hours, abs=0.005 if hours > 1 else 0.0005)
    assert plan.flops(runs) == pytest.approx(2.83e19, abs=0.005e19)


@pytest.mark.parametrize(
    ("task", "experiment", "tera"), [("en-de", "base", 9.83), ("en-de", "big", 32.88), ("en-fr", "big", 31.51)]
)
def test_flops_of_table_2_by_hand(task, experiment, tera):
    """A step's FLOPs with config.yaml's embedding rows: 40,960, and 32,000 for French."""
    plan, run = planned("scale=paper"), RunName(task, experiment, 1)
    assert plan.flops([run]) / plan.steps([run]) / 1e12 == pytest.approx(tera, abs=0.005)


def test_a_parsers_softmax_covers_its_symbols_alone():
    """Four layers of d_model 1024, eight heads of 128: by hand, 2 · 4 (3P + F) a token, and 512 rows."""
    projections, feed_forward = 1024 * 8 * 256, 2 * 1024 * 2048
    layers = 2 * 4 * (3 * projections + feed_forward) * 50_000
    attention = 2 * 4 * 8 * 256 * 3 * 30 * 25_000
    step = 3 * (layers + 2 * 512 * 1024 * 25_000 + attention)
    assert planned("scale=paper").flops([RunName("supervised", "parser", 1)]) == pytest.approx(100_000 * step)


# Runs.


def test_each_run_counts_once():
    plan = planned("scale=paper")
    assert [len(runs) for runs in plan.tables.values()] == [0, 3, 4, 2, 20, 19]
    assert len(plan.all) == 34  # Table 3's 20, Table 5's other 12, and French base and big
    assert [len(plan.shared(table)) for table in plan.tables] == [0, 3, 2, 0, 8, 7]
    german = plan.flops({*plan.tables["table3"], *plan.tables["table5"]})
    french = plan.flops([RunName("en-fr", name, 1) for name in ("base", "big")])
    assert plan.flops(plan.all) == pytest.approx(german + french)
    seeds = planned("scale=paper", "scales={paper: {seeds: [1, 2, 3]}}")
    assert (len(seeds.all), seeds.flops(seeds.all)) == (102, pytest.approx(3 * (german + french)))
    of_base = planned("scale=paper", "scales={paper: {seeds_of: {base: [1, 2, 3]}}}")
    assert len(of_base.all) == 34 + 2 * 2  # two more, German and French
    Path("resources/wsj").mkdir(parents=True)
    assert len(planned("scale=paper").all) == 36


def test_curves_are_those_of_tables_2_to_4():
    """Table 5's own runs are no part of them, and the parsers only where there is a treebank."""
    plan = planned("scale=paper")
    curves = plan.figures["curves, BLEU by FLOPs"]
    assert len(curves) == len(set(curves)) == 22  # Table 3's 20, and French base and big
    assert not {run.experiment for run in curves} & {"no-residual", "untied", "parser"}
    demo = planned("scale=demo").figures["curves, BLEU by FLOPs"]
    assert [run.task for run in demo if run.experiment == "parser"] == ["supervised", "semi-supervised"]


# Time.


def test_side_by_side_by_hand():
    """On two GPUs 5 and 4 begin, and 3 follows 4; a run that waits for 4 begins as soon as 4 ends."""
    a, b, c, d = (RunName(name, "base", 1) for name in "abcd")
    assert side_by_side({a: 5, b: 4, c: 3}, {}, 2) == 7
    assert side_by_side({a: 5, b: 4, c: 3}, {}, 1) == 12
    assert side_by_side({a: 5, b: 4, c: 3}, {}, 8) == 5
    assert side_by_side({a: 5, b: 4}, {a: b}, 8) == 9
    assert side_by_side({a: 5, b: 4, c: 3, d: 1}, {a: b}, 2) == 9
    assert side_by_side({a: 5}, {a: b}, 2) == 5  # b is not trained here
    assert side_by_side({}, {}, 2) == 0


def test_a_parser_waits_for_the_one_that_makes_its_trees():
    plan = planned("scale=demo")
    supervised, silver = plan.tables["table4"]
    assert plan.wall([supervised, silver]) == pytest.approx(plan.hours([supervised]) + plan.hours([silver]))


# Speed.


def write_record(folder: Path, name: str, hardware: str, utilisation: float, measured: str = "2027-01-01") -> None:
    """Write what `python -m benchmarks.train` leaves, of a machine whose products reach 600 TFLOP/s."""
    ours = {"products": "bfloat16", "flops_utilisation": utilisation}
    record = {"label": name, "hardware": hardware, "measured": measured, "commit": "c0ffee" * 7}
    record |= {"matrix_flops_per_second": {"bfloat16": 600e12}, "systems": {"ours": ours}}
    (folder / f"train-{name}-{measured}.json").write_text(json.dumps(record))


@pytest.fixture
def records(project) -> Path:
    (project / "benchmarks").unlink()
    (project / "benchmarks/results").mkdir(parents=True)
    return project / "benchmarks/results"


def test_a_gpu_is_as_fast_as_it_was_measured(records):
    write_record(records, "paper-base", "NVIDIA GH200 480GB", 0.9)  # another machine
    assert "Nothing was measured on this GPU" in speed.gpu_speed("h200", None).source
    write_record(records, "paper-base", "NVIDIA H200", 0.1, "2026-12-01")  # older than the next record
    write_record(records, "paper-base", "NVIDIA H200", 0.4)
    write_record(records, "paper-big", "NVIDIA H200", 0.6)
    h200 = speed.gpu_speed("h200", None)
    assert h200.flops_per_second == pytest.approx(240e12)
    assert h200.source == "measured on NVIDIA H200 (paper-base, 2027-01-01, commit c0ffeec0ffee)."
    assert speed.gpu_speed("h200", 0.5).flops_per_second == pytest.approx(989e12 / 2)
    assert "Nothing was measured on this GPU" in speed.gpu_speed("h100", None).source


def test_a_core_is_as_fast_as_those_on_record(records):
    with pytest.raises(InputError, match=r"no record of a processor"):
        speed.core_speed(None)
    write_record(records, "paper-base", "NVIDIA H200", 0.4, "2027-02-02")
    write_record(records, "multi30k-base", "Some CPU, 4 of 64 cores", 0.2)
    assert speed.core_speed(None).flops_per_second == pytest.approx(30e12)
    assert speed.core_speed(0.3).flops_per_second == pytest.approx(45e12)
    assert "30% of what bare products reach, as given" in speed.core_speed(0.3).source


# What is read.


def test_configuration_is_laid_over_as_snakemake_does(tmp_path):
    files = {"one": "scale: demo\nscales: {multi30k: {seeds: [7], base: {steps: 9999}}}", "two": "scale: multi30k"}
    expected = yaml.safe_load((ROOT / "config.yaml").read_text())
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        update_config(expected, yaml.safe_load(text))
    entries = ["mirror=here", "scale=paper"]
    update_config(expected, parse_config(entries))
    update_config(expected, {"report": {"gpu_hour": 2.5}})  # which Snakemake reads as text
    assert settings.read([str(tmp_path / name) for name in files], [*entries, "report={gpu_hour: 2.5}"]) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--config", "scales={demo: {width: 7}}"],
            r"config\.yaml: scales\.demo: en-de: base: d_model: 512 cannot be divided by 7",
        ),
        (["--gpu", "h300"], r"--gpu: expected one of b200, .*v100, found h300"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments, expected):
    assert re.fullmatch(f"transformer plan: error: {expected}", refused(*arguments))


@pytest.mark.parametrize(
    "arguments",
    [["--gpus", "2"], ["--gpu", "h200", "--gpus", "0"], ["--utilisation", "1.1"], ["--utilisation", "0"]]
    + [["--price", text] for text in ("-1", "nan", "inf", "two")],
)
def test_numbers_that_cannot_be_are_refused(arguments):
    assert refused(*arguments) == "2"


# What is printed.


def test_a_plan_starts_without_torch_and_pandas():
    code = "import sys, transformer.commands.plan; assert not {'torch', 'pandas'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_cores_are_those_that_may_be_used(capsys):
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert printed(capsys).startswith("Scale demo on 1 core\n")
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize("scale", ["demo", "multi30k", "paper"])
@pytest.mark.parametrize("arguments", [[], ["--gpu", "h200", "--gpus", "8"]], ids=["processor", "GPUs"])
def test_a_plan_fits_one_screen(scale, arguments, capsys):
    lines = printed(capsys, "--config", f"scale={scale}", *arguments, "--price", "12345").splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 120


def test_cost_is_shown_with_a_price_alone(capsys):
    assert not re.search(r" cost$", printed(capsys, "--gpu", "a100"), re.MULTILINE)
    priced = printed(capsys, "--gpu", "a100", "--config", "report={gpu_hour: 2.5, currency: EUR}")
    assert "at 2.5 EUR per GPU-hour\n" in priced
    assert re.search(r" cost$", priced, re.MULTILINE)


def test_manual_shows_what_is_printed(capsys):
    manual = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *ROOT.glob("docs/*.md")))
    command, shown = re.search(r"```console\n\$ python -m transformer plan (.*)\n((?s:.*?))```", manual).groups()
    assert printed(capsys, *shlex.split(command)) == shown
