"""What a scale costs, against the paper's sizes worked by hand, files really written, and Snakemake's own list."""

import json
import os
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from snakemake.cli import parse_config
from snakemake.utils import update_config
from support.project import copy_project, own_corpus, snakemake
from support.toy import make_experiment

from transformer.__main__ import main
from transformer.common.files import InputError
from transformer.config import settings
from transformer.config.settings import RunName
from transformer.model import weights as checkpoints
from transformer.model.transformer import Transformer
from transformer.plan import plan, speed, storage
from transformer.runtime.writer import Writer
from transformer.training import states

ROOT = Path(__file__).parents[2]
NEEDED = ("config.yaml", "workflow", "benchmarks")
V_37000 = "scales={paper: {tasks: {en-de: {embedding_rows: 37000}}}}"  # the paper's own count of subwords


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch) -> Path:
    """A folder with what a plan reads, and no treebank."""
    for name in NEEDED:
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def planned(*entries: str, gpus: int = 8, **changes) -> plan.Plan:
    """The plan of a configuration on GPUs of an exaFLOP/s."""
    config = settings.read([], list(entries))
    return plan.make(config | changes, speed.Speed("GPU", "fast GPU", 1e18, "assumed."), gpus)


def printed(capsys, *arguments: str) -> str:
    main(["plan", *arguments])
    return capsys.readouterr().out


# FLOPs.


@pytest.mark.parametrize(
    ("experiments", "tera", "hours"),
    [
        (["base", "heads-1", "heads-4", "heads-16", "heads-32"], 9.53, 0.335),
        (["dropout-0.0", "dropout-0.2", "smoothing-0.0", "smoothing-0.2", "learned-positions"], 9.53, 0.335),
        (["d_k-16"], 8.44, 0.297),
        (["d_k-32"], 8.80, 0.309),
        (["N-2"], 5.07, 0.178),
        (["N-4"], 7.30, 0.257),
        (["N-8"], 11.76, 0.414),
        (["d_model-256"], 4.06, 0.143),
        (["d_model-1024"], 24.72, 0.869),
        (["d_ff-1024"], 7.64, 0.269),
        (["d_ff-4096"], 13.31, 0.468),
        (["big"], 32.27, 3.40),
    ],
)
def test_flops_of_table_3_by_hand(experiments, tera, hours):
    """A step's, at 25,000 + 25,000 tokens in sentences of 30 and 37,000 subwords; hours at 790 TFLOP/s."""
    found = planned("scale=paper", V_37000)
    for experiment in experiments:
        run = RunName("en-de", experiment, 1)
        assert found.flops([run]) / found.steps([run]) / 1e12 == pytest.approx(tera, abs=0.005)
        assert found.flops([run]) / 790e12 / 3600 == pytest.approx(hours, abs=0.005 if hours > 1 else 0.0005)


def test_flops_of_whole_tables():
    found = planned("scale=paper", V_37000)
    assert len(found.tables["table3"]) == 20
    assert found.flops(found.tables["table3"]) == pytest.approx(2.83e19, abs=0.005e19)


@pytest.mark.parametrize(
    ("task", "experiment", "tera"), [("en-de", "base", 9.83), ("en-de", "big", 32.88), ("en-fr", "big", 31.51)]
)
def test_flops_of_table_2_by_hand(task, experiment, tera):
    """With config.yaml's embedding rows: 40,960, and 32,000 for French."""
    found, run = planned("scale=paper"), RunName(task, experiment, 1)
    assert found.flops([run]) / found.steps([run]) / 1e12 == pytest.approx(tera, abs=0.005)


def test_a_parsers_softmax_covers_its_symbols_alone():
    """Four layers of d_model 1024, eight heads of 128: by hand, 2 · 4 (3P + F) a token, and 512 rows."""
    found = planned("scale=paper")
    projections, feed_forward = 1024 * 8 * 256, 2 * 1024 * 2048
    layers = 2 * 4 * (3 * projections + feed_forward) * 50_000
    attention = 2 * 4 * 8 * 256 * 3 * 30 * 25_000
    step = 3 * (layers + 2 * 512 * 1024 * 25_000 + attention)
    run = RunName("supervised", "parser", 1)
    assert found.flops([run]) == pytest.approx(100_000 * step)


# Runs.


def snakemake_runs(project: Path, scale: str) -> dict[str, dict]:
    """The parts of every run that Snakemake would make, by its experiment.yaml."""
    result = snakemake(project, "-n", "--printshellcmds", "--config", f"scale={scale}")
    assert result.returncode == 0, result.stderr
    found = {}
    for command in re.findall(r"^Shell command: (.* resolve --experiment .*?) 2>&1", result.stdout, re.MULTILINE):
        words = shlex.split(command)
        found[words[-1]] = json.loads(words[words.index("--experiment") + 1])
    return found


@pytest.mark.parametrize("scale", ["demo", pytest.param("multi30k", marks=pytest.mark.slow), "paper with the treebank"])
def test_runs_are_those_that_snakemake_lists(scale, tmp_path, monkeypatch):
    (tmp_path / "copy").mkdir()
    project = copy_project(tmp_path / "copy")
    monkeypatch.chdir(project)
    if "treebank" in scale:
        Path("resources/wsj").mkdir(parents=True)
    scale = scale.split()[0]
    config = settings.read([], [f"scale={scale}"])
    found = planned(f"scale={scale}")
    ours = {
        f"results/{scale}/runs/{'/'.join(map(str, run))}/experiment.yaml": settings.parts(config, run)
        for run in found.all
    }
    assert ours == snakemake_runs(project, scale)


def test_each_run_counts_once():
    found = planned("scale=paper")
    assert [len(runs) for runs in found.tables.values()] == [0, 3, 4, 2, 20]
    assert len(found.all) == 22  # Table 3's 20, and French base and big
    assert [len(found.shared(table)) for table in found.tables] == [0, 3, 2, 0, 4]
    german = found.flops(found.tables["table3"])
    french = found.flops([RunName("en-fr", name, 1) for name in ("base", "big")])
    assert found.flops(found.all) == pytest.approx(german + french)
    Path("resources/wsj").mkdir(parents=True)
    assert len(planned("scale=paper").all) == 24


FROM = "from: {path: elsewhere, sha256: '%s'}" % ("0" * 64)
TAKEN = "{path: elsewhere, sha256: '%s'}" % ("0" * 64)


def test_runs_made_elsewhere_cost_nothing(capsys):
    """Base, and French big; what is bought and waited for shrinks with them, and their states are not there."""
    whole, base, french = planned("scale=paper"), RunName("en-de", "base", 1), RunName("en-fr", "big", 1)
    entry = f"scales={{paper: {{from: {{en-de/base/1: {TAKEN}, en-fr/big/1: {TAKEN}}}}}}}"
    found = planned("scale=paper", entry)
    assert set(whole.all) - set(found.trained) == {base, french}
    assert found.steps(found.all) == whole.steps(whole.all) - 400_000
    assert found.flops(found.all) == pytest.approx(whole.flops(whole.all) - whole.flops([base, french]))
    assert found.wall([base]) == found.hours([base]) == 0
    assert whole.disk([base]) - found.disk([base]) == storage.STATES * storage.of_state(whole.runs[base])
    assert "2 taken: of all runs" in printed(capsys, "--config", "scale=paper", entry)
    assert " taken" not in printed(capsys, "--config", "scale=paper")


@pytest.mark.parametrize("name", ["data.json", "./train.source.tok"])
def test_training_text_prepared_elsewhere_is_not_fetched(name, project):
    """The test sets are: they are scored against. A vocabulary alone spares nothing."""
    (project / "elsewhere").mkdir()
    entries = ["scale=paper", f"scales={{paper: {{tasks: {{en-fr: {{{FROM}}}}}}}}}"]
    (project / "elsewhere/SHA256SUMS").write_text(f"{'0' * 64}  vocabulary.model\n")
    config = settings.read([], entries)
    tasks = {"en-de", "en-fr"}
    whole, text = storage.downloads(config, tasks), storage.text(config, tasks)
    assert "training-giga-fren.tar" in whole
    (project / "elsewhere/SHA256SUMS").write_text(f"{'0' * 64}  vocabulary.model\n{'0' * 64}  {name}\n")
    less = storage.downloads(config, tasks)
    assert set(whole) - set(less) == {"training-giga-fren.tar", "training-parallel-un.tgz"}
    assert set(storage.downloads(config, {"en-fr"})) == {"wmt17-dev.tgz"}
    assert text - storage.text(config, tasks) == 2 * 40_842_333 * storage.LINE
    assert storage.parts(config, tasks) == storage.parts(config, {"en-de"}) > 0


def test_text_that_no_run_here_learns_from_is_not_fetched():
    runs = ", ".join(f"en-fr/{experiment}/1: {TAKEN}" for experiment in ("base", "big"))
    config = settings.read([], ["scale=paper", f"scales={{paper: {{from: {{{runs}}}}}}}"])
    assert set(storage.downloads(config, {"en-fr"})) == {"wmt17-dev.tgz"}
    assert "training-parallel-europarl-v7.tgz" in storage.downloads(config, {"en-de"})


def test_every_seed_counts():
    found = planned("scale=paper", "scales={paper: {seeds: [1, 2, 3]}}")
    assert len(found.all) == 66
    assert found.flops(found.all) == pytest.approx(3 * planned("scale=paper").flops(planned("scale=paper").all))


# Time and money.


def test_side_by_side_by_hand():
    """On two GPUs 5 and 4 begin, 3 follows 4; what waits for 4 begins on time, another run before it."""
    a, b, c, d = (RunName(name, "base", 1) for name in "abcd")
    assert plan.side_by_side({a: 5, b: 4, c: 3}, {}, 2) == 7
    assert plan.side_by_side({a: 5, b: 4, c: 3}, {}, 1) == 12
    assert plan.side_by_side({a: 5, b: 4, c: 3}, {}, 8) == 5
    assert plan.side_by_side({a: 5, b: 4}, {a: b}, 8) == 9
    assert plan.side_by_side({a: 5, b: 4, c: 3, d: 1}, {a: b}, 2) == 9
    assert plan.side_by_side({a: 5}, {a: b}, 2) == 5  # the other is not trained here
    assert plan.side_by_side({}, {}, 2) == 0


def test_a_parser_waits_for_the_one_that_makes_its_trees():
    found = planned("scale=demo")
    supervised, silver = found.tables["table4"]
    assert found.wall([supervised, silver]) == pytest.approx(found.hours([supervised]) + found.hours([silver]))


def test_budget_buys_tables_in_order():
    """Prices in GPU-hours: why 3, table2 4 of which 1 is why's, table3 20 of which 4 are others', no table4."""
    found = planned("scale=paper")
    runs = {
        run: replace(of_run, training=replace(of_run.training, steps=100_000)) for run, of_run in found.runs.items()
    }
    same = {run: replace(of_run, model=found.runs[RunName("en-de", "base", 1)].model) for run, of_run in runs.items()}
    found = replace(found, runs=same)
    hour = found.hours([RunName("en-de", "base", 1)])
    for budget, alone, together, left in (
        (0, ["table1"], ["table1"], 0),
        (3.5, ["table1", "why"], ["table1", "why"], 0.5),
        (4.5, ["table1", "why", "table2"], ["table1", "why"], 1.5),
        (6.5, ["table1", "why", "table2"], ["table1", "why", "table2"], 0.5),
        (22.5, ["table1", "why", "table2", "table3"], ["table1", "why", "table2", "table3"], 0.5),
    ):
        bought = plan.buy(found, 1 / hour, budget)
        assert (bought.alone, bought.together) == (alone, together)
        assert bought.left == pytest.approx(left)


# Speed.


def record(folder: Path, name: str, hardware: str, utilisation: float, measured: str = "2027-01-01") -> None:
    """What `python -m benchmarks.train` leaves, of a GPU with products of 600 TFLOP/s."""
    ours = {"products": "bfloat16", "flops_utilisation": utilisation}
    about = {"label": name, "hardware": hardware, "measured": measured, "commit": "c0ffee" * 7}
    about |= {"matrix_flops_per_second": {"bfloat16": 600e12}, "systems": {"ours": ours}}
    (folder / f"train-{name}-{measured}.json").write_text(json.dumps(about))


@pytest.fixture
def records(project) -> Path:
    (project / "benchmarks").unlink()
    (project / "benchmarks/results").mkdir(parents=True)
    return project / "benchmarks/results"


def test_a_gpu_is_as_fast_as_it_was_measured(records):
    record(records, "paper-base", "NVIDIA GH200 480GB", 0.9)  # another machine
    assert "Nothing was measured on this GPU" in speed.of_gpu("h200", None).about
    record(records, "paper-base", "NVIDIA H200", 0.1, "2026-12-01")  # since measured anew
    record(records, "paper-base", "NVIDIA H200", 0.4)
    record(records, "paper-big", "NVIDIA H200", 0.6)
    found = speed.of_gpu("h200", None)
    assert found.flops_per_second == pytest.approx(240e12)
    assert found.about == "measured on NVIDIA H200 (paper-base, 2027-01-01, commit c0ffeec0ffee)."
    assert speed.of_gpu("h200", 0.5).flops_per_second == pytest.approx(989e12 / 2)
    assert "Nothing was measured on this GPU" in speed.of_gpu("h100", None).about


def test_a_processor_is_as_fast_by_core_as_the_one_on_record(records):
    with pytest.raises(InputError, match=r"no record of a processor"):
        speed.of_processor(None)
    record(records, "paper-base", "NVIDIA H200", 0.4, "2027-02-02")
    record(records, "multi30k-base", "Some CPU, 4 of 64 cores", 0.2)
    assert speed.of_processor(None).flops_per_second == pytest.approx(30e12)
    assert speed.of_processor(0.3).flops_per_second == pytest.approx(45e12)
    assert "30% of what bare products reach, as given" in speed.of_processor(0.3).about


# Disk.


def test_a_run_keeps_what_is_written(tmp_path):
    """Real files: two states, checkpoints under two names, the average; but for headers and step counts."""
    run = make_experiment(model={"d_model": 128, "d_ff": 512}, averaged_checkpoints=3)
    model = Transformer(run.model)
    adam = torch.optim.Adam(model.parameters())
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    adam.step()
    saved = states.States(tmp_path / "state")
    with Writer() as writer:
        for step in (1, 2, 3):
            saved.save(model, adam, states.Progress("digest", step=step), writer)
            checkpoints.save(tmp_path / f"checkpoints/{step}.safetensors", model.state_dict(), {})
    checkpoints.save(tmp_path / "average.safetensors", model.state_dict(), {})
    os.link(tmp_path / "checkpoints/3.safetensors", tmp_path / "last.safetensors")
    files = {path.stat().st_ino: path.stat().st_size for path in tmp_path.rglob("*.safetensors")}
    assert len(files) == 2 + 3 + 1
    assert storage.of_run(run) == pytest.approx(sum(files.values()), rel=0.03)


def test_own_corpora_count_as_large_as_they_are(tmp_path, capsys):
    file = own_corpus(tmp_path)
    config = settings.read([str(file)], ["scale=mine"])
    size = (tmp_path / "train.en").stat().st_size + (tmp_path / "train.cs").stat().st_size
    assert storage.learned(config, settings.tasks_of(config)["en-cs"]) * storage.LINE * 2 == pytest.approx(
        size, abs=300
    )
    (tmp_path / "train.en").unlink()
    shown = printed(capsys, "--configfile", str(file), "--config", "scale=mine")
    assert "table3" in shown
    assert "table4" not in shown  # the scale parses nothing


def test_states_kept_are_those_of_a_training():
    assert states.KEPT == storage.STATES


def test_downloads_are_the_tasks_own():
    config = settings.read([], ["scale=paper"])
    assert sum(filter(None, storage.downloads(config, {"en-de", "en-fr"}).values())) == 6_644_668_827
    german = storage.downloads(config, {"en-de"})
    assert "training-giga-fren.tar" not in german
    assert [name for name, size in german.items() if size is None] == ["wmt14-test-filtered.tgz"]
    assert storage.downloads(settings.read([], []), {"en-de", "semi-supervised"}) == {}


def test_lines_are_those_known_or_near():
    """WMT's counts; an edition of unknown count is estimated from its archive: near v12's 270,769."""
    config = settings.read([], ["scale=paper"])
    tasks = settings.tasks_of(config)
    assert storage.learned(config, tasks["en-de"]) == 4_520_620
    assert storage.learned(config, tasks["en-fr"]) == 40_842_333
    assert storage.learned(config, tasks["semi-supervised"]) == 39_832 + 1_000_000
    assert "lines" not in config["corpora"]["news-commentary-v13.de-en"]
    assert 270_769 < storage.lines(config, "news-commentary-v13.de-en") < 4 * 270_769


def test_parts_lie_beside_the_whole_where_a_training_set_is_cut():
    """By hand: two sides of so many lines, 200 bytes each, before there are arrays of 2 · 30 + 8."""
    config = settings.read([], ["scale=paper"])
    assert storage.parts(config, {"en-de", "supervised"}) == 4_520_620 * 2 * (200 - 68)
    assert storage.parts(settings.read([], ["scale=paper", "scales={paper: {scatter: 1}}"]), {"en-de"}) == 0
    assert storage.parts(settings.read([], []), {"en-de"}) == 0


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
            ["--config", "scale=papr"],
            r"config.yaml: scale: expected one of scales \(demo, multi30k, paper\), found 'papr'",
        ),
        (["--config", "scale"], r"--config: expected key=value, found scale"),
        (["--config", "scale=[1"], r"--config: not YAML: scale=\[1"),
        (["--config", "scal=paper"], r"config.yaml: top level: .*'scal' was unexpected.*"),
        (["--config", "base={N: six}"], r"config.yaml: base.N: 'six' is not of type 'integer'"),
        (["--config", "scales={demo: {width: 7}}"], r"base: d_model: 512 cannot be divided by 7"),
        (["--config", "scales={demo: {experiments: {small: {}}}}"], r".*: expected one of experiments .*'small'"),
        (["--config", "scales={demo: {tasks: {en-de: {dev: here}}}}"], r".*: expected one of corpora .*'here'"),
        (
            ["--config", "scales={demo: {parsing: {tasks: {semi-supervised: {silver: {parser: semi-supervised}}}}}}"],
            r".*: expected a task without silver \(supervised\), found 'semi-supervised'",
        ),
        (
            ["--config", "scales={demo: {tasks: {en-de: {source: xx}}}}"],
            r".*: corpus 'grammar-train' has no 'xx', only .*",
        ),
        (
            ["--config", "scale=paper", "scales={paper: {tasks: {en-de: {source: fr}}}}"],
            r".*: corpus 'europarl-v7.de-en' has no 'fr', only en, de",
        ),
        (["--config", f"scales={{demo: {{from: {{en-de/none/1: {TAKEN}}}}}}}"], r".*from.en-de/none/1: no run of .*"),
        (
            ["--config", f"scales={{demo: {{tasks: {{en-de: {{{FROM}}}}}}}}}"],
            r"elsewhere/SHA256SUMS: cannot be read: .*",
        ),
        (["--configfile", "none.yaml"], r"none.yaml: no such file"),
        (["--gpu", "h300"], r"--gpu: expected one of b200, .*v100, found h300"),
        (["--gpu", "h200", "--budget", "5"], r"--budget: expected --price, or a gpu_hour in config.yaml's report.*"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments, expected):
    with pytest.raises(SystemExit) as refused:
        main(["plan", *arguments])
    assert re.fullmatch(f"transformer plan: error: {expected}", str(refused.value.code))


@pytest.mark.parametrize(
    "arguments",
    [["--gpus", "2"], ["--gpu", "h200", "--gpus", "0"], ["--utilisation", "1.1"], ["--utilisation", "0"]]
    + [["--price", text] for text in ("-1", "nan", "inf", "two")],
)
def test_numbers_that_cannot_be_are_refused(arguments):
    with pytest.raises(SystemExit) as refused:
        main(["plan", *arguments])
    assert refused.value.code == 2


# What is printed.


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
    lines = printed(
        capsys, "--config", f"scale={scale}", *arguments, "--price", "12345", "--budget", "1e9"
    ).splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 120


def test_cost_is_shown_with_a_price_alone(capsys):
    assert not re.search(r" cost$", printed(capsys, "--gpu", "a100"), re.MULTILINE)
    priced = printed(capsys, "--gpu", "a100", "--config", "report={gpu_hour: 2.5, currency: EUR}")
    assert "at 2.5 EUR per GPU-hour\n" in priced
    assert re.search(r" cost$", priced, re.MULTILINE)


def test_readme_shows_what_is_printed(capsys):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    command, shown = re.search(r"```console\n\$ python -m transformer plan (.*)\n((?s:.*?))```", readme).groups()
    assert printed(capsys, *shlex.split(command)) == shown
