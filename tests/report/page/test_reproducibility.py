"""REPRODUCIBILITY.md: every number in it is that of a file, and what is missing is said.

Made-up runs, whose sums are known by hand; the recorded runs.
"""

import csv
import json
import re
import statistics
from pathlib import Path

import pytest
import yaml
from support.page import about_run
from support.project import ROOT
from support.scored import score

from transformer.commands import reproducibility
from transformer.data.manifest import checksum_of
from transformer.files import InputError
from transformer.report.page.energy import Power, number_text, totals
from transformer.report.page.summary import work

VERSIONS = {"python": "3.11.7", "torch": "2.13.0"}
CORES = {
    "hardware": "Abacus, 2 of 4 cores",
    "processes": 1,
    "products": "bfloat16",
    "versions": VERSIONS,
    "commit": "c1",
}
GPUS = {"hardware": "NVIDIA H100", "processes": 8, "products": "float32", "versions": VERSIONS, "commit": "c2"}
FILES = {"vocabulary.model": "ab" * 32}
DATA = {
    "files": FILES,
    "splits": {
        "train": {"read": 30, "kept": 29, "source_tokens": 1234, "target_tokens": 5678, "silver": 3},
        "dev": {"read": 9, "kept": 9, "source_tokens": 90, "target_tokens": 91},
    },
    "sha256": checksum_of(FILES),
}
SETTINGS = {
    "model": {"N": 2, "h": 8, "positions": "sinusoid"},
    "training": {"steps": 6000, "rate": 1.0},
    "preparation": {"escape": True, "max_words": 80},
}
DECODING = {"beam": 4, "alpha": 0.6, "extra_length": 50, "batch_tokens": 4096}
DESCRIBED = {
    "tasks": {
        "en-de": {
            "source": "en",
            "target": "de",
            "train": ["made"],
            "dev": "mine",
            "test": "far",
            "subsets": {"half": "mine"},
        }
    },
    "corpora": {
        "made": {"grammar": {"seed": 7, "skip": 1000, "take": 30}},
        "mine": {"lines": 9, "files": {"en": {"path": "dev.en"}, "de": {"path": "dev.de"}, "fr": {"path": "dev.fr"}}},
        "far": {"files": {"en": {"download": "far.tgz", "member": "test/far.en"}}},
    },
    "downloads": {"far.tgz": {"urls": ["https://example.org/far.tgz", "https://other.org"], "md5": "5d" * 16}},
}
HOURS = {"en-de/base/1": 0.5 * 2, "en-de/base/2": 1.5 * 2, "en-de/big/1": 0.25 * 8}  # by hand, of cores or GPUs
KWH = {"en-de/base/1": 0.015, "en-de/base/2": 0.045, "en-de/big/1": 0.9}  # · 10 W or 300 W · 1.5 / 1000
TEST, DEV = {"1": 30.0, "2": 31.0}, {"1": 28.0, "2": 27.0}  # BLEU of base


def write_run(folder: Path, run: dict, settings: dict = SETTINGS, perplexities: tuple[float, ...] = (9.0, 4.0)) -> Path:
    """Write what a training leaves; return its run.json."""
    place = folder / "runs" / run["task"] / run["experiment"] / str(run["seed"])
    place.mkdir(parents=True)
    (place / "run.json").write_text(json.dumps(run))
    (place / "experiment.yaml").write_text(yaml.safe_dump(settings))
    (place / "decoding.yaml").write_text(yaml.safe_dump(DECODING))
    lines = [json.dumps({"step": step, "dev_perplexity": value}) for step, value in enumerate(perplexities, start=1)]
    (place / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    return place / "run.json"


def write_score(place: Path, bleu: float, run: dict) -> str:
    """Write a score file of a run; return its path."""
    place.write_text(json.dumps(score(bleu, digest=run["digest"], **named(run)) | {"sentences": 1000}))
    return str(place)


def named(run: dict) -> dict:
    return {key: run[key] for key in ("task", "experiment", "seed")}


@pytest.fixture
def options(tmp_path) -> list[str]:
    """Write two runs of base, on cores, and one of big, on GPUs and taken from elsewhere; N-2 is expected alone."""
    data = {"data_sha256": DATA["sha256"]}
    base = [about_run(seed=1, starts=[CORES], **data), about_run(seed=2, starts=[CORES], seconds=5400.0, **data)]
    taken = {"from": "/elsewhere/big", "sha256": "fe" * 32}
    big = about_run(experiment="big", starts=[CORES, GPUS], seconds=900.0, taken=taken, parameters=6_553_600, **data)
    base[1]["dev_perplexity"] = 2.5
    runs = [write_run(tmp_path, run) for run in base]
    runs.append(write_run(tmp_path, big, SETTINGS | {"model": SETTINGS["model"] | {"h": 16}}))
    files = {"test.json": TEST, "dev.last.json": DEV}
    scores = [
        write_score(path.with_name(file), bleu[path.parent.name], run)
        for file, bleu in files.items()
        for run, path in zip(base, runs, strict=False)  # big is not scored
    ]
    missing = tmp_path / "runs/en-de/N-2/1/run.json"
    (tmp_path / "data/en-de").mkdir(parents=True)
    (tmp_path / "data/en-de/data.json").write_text(json.dumps(DATA))
    dev = missing.with_name("dev.last.json")
    words = "--scale test --label made-up --configfile own.yaml --core-watts 10 --gpu-watts 300 --pue 1.5"
    words += " --target results/test/tables/table2.md results/test/figures/curves.svg"
    many = {"--run": [*runs, missing], "--score": [*scores, dev], "--data": [tmp_path / "data/en-de/data.json"]}
    texts = ["--described", json.dumps(DESCRIBED), "--missing", "table4", "no trees", "--estimate", "by hand"]
    texts += ["--source", "this test", "--output", str(tmp_path / "REPRODUCIBILITY.md")]
    return [*words.split(), *(str(word) for option, paths in many.items() for word in (option, *paths)), *texts]


def written(options: list[str]) -> str:
    reproducibility.main(options)
    return Path(options[-1]).read_text("utf-8")


def table(text: str, heading: str) -> list[dict[str, str]]:
    """Return the rows of the table of Markdown whose first column has this heading."""
    lines = text[re.search(rf"^\| {re.escape(heading)} +\|", text, re.MULTILINE).start() :].partition("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines.splitlines()]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def test_hours_and_energy_are_those_worked_out_by_hand(options):
    text = written(options)
    rows = {row["Run"]: row for row in table(text, "Run")}
    for name, hours in HOURS.items():
        assert float(rows[name]["Unit-hours"]) == pytest.approx(hours)
        assert float(rows[name]["kWh, estimated"]) == pytest.approx(KWH[name])
    assert {name: row["Unit"] for name, row in rows.items()} == {
        **dict.fromkeys(("en-de/base/1", "en-de/base/2"), "core"),
        "en-de/big/1": "GPU",
        "en-de/N-2/1": "",
    }
    assert "- core: 2 runs, 4.000 unit-hours × 10 W × 1.5 / 1000 = 0.06 kWh\n" in text
    assert "- GPU: 1 run, 2.000 unit-hours × 300 W × 1.5 / 1000 = 0.9 kWh\n" in text
    assert "No power was measured." in text
    assert "- Name of the estimate: by hand\n- Source of its numbers: this test\n" in text
    assert re.search(r"watts of one\s+unit at work are assumed, and so is the PUE", text)


def test_energy_grows_with_each_of_its_factors():
    power = Power({"core": 12.0, "GPU": 200.0}, 1.56, "", "")
    assert power.kwh(work("A, 3 of 8 cores", 2, 7200)) == pytest.approx(2 * 3 * 2 * 12 * 1.56 / 1000)
    assert power.kwh(work("A GPU", 4, 1800)) == pytest.approx(4 * 0.5 * 200 * 1.56 / 1000)
    assert totals([], power) == []


def test_scores_are_means_of_the_files(options):
    rows = {row["Runs of"]: row for row in table(written(options), "Runs of")}

    def mean(values) -> str:
        return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"

    base = rows["en-de/base"]
    assert (base["Made"], base["Seeds"]) == ("2 of 2", "1, 2")
    assert base["test.json"] == mean(TEST.values())
    assert base["dev.last.json"] == mean(DEV.values())
    assert base["Dev perplexity"] == mean([1.5, 2.5])
    assert base["Lowest dev perplexity"] == "4.00 ± 0.00"
    assert base["Early dev BLEU"] == "not recorded"
    assert base["Measure"] == "BLEU (compound_split)"
    assert (rows["en-de/big"]["test.json"], rows["en-de/big"]["Dev perplexity"]) == ("in no table", "1.50")
    missing = rows["en-de/N-2"]
    assert (missing["Made"], missing["test.json"], missing["Dev perplexity"]) == ("0 of 1", "not run", "not run")


def test_a_mean_over_some_of_the_runs_says_so(options, tmp_path):
    (tmp_path / "runs/en-de/base/2/test.json").unlink()
    rows = {row["Runs of"]: row for row in table(written(options), "Runs of")}
    assert rows["en-de/base"]["test.json"] == "30.00 (1 of 2 runs)"


def test_what_is_missing_or_made_elsewhere_is_said(options, tmp_path):
    (tmp_path / "runs/en-de/base/1/metrics.jsonl").unlink()
    (tmp_path / "runs/en-de/base/2/experiment.yaml").unlink()
    text = written(options)
    assert "3 of 4 expected runs are in it." in text
    for line in (
        "- Table 4: parsing: no trees\n",
        "- Runs: no file en-de/N-2/1/run.json\n",
        "- Scores: no file en-de/N-2/1/dev.last.json\n",
        "- en-de/base/1: no metrics.jsonl\n",
        "- en-de/base/2: no experiment.yaml\n",
        "Made elsewhere, and taken from there: en-de/big/1.\n",
    ):
        assert line in text
    remarks = {row["Run"]: row["Remarks"] for row in table(text, "Run")}
    assert remarks["en-de/N-2/1"] == "not run"
    assert f"taken from /elsewhere/big, run.json's SHA-256 {'fe' * 32}" in remarks["en-de/big/1"]
    assert "2 starts; on several machines, and counted in full on the last" in remarks["en-de/big/1"]
    assert {row["Differences"]: row["Runs"] for row in table(text, "Differences")} == {
        "none": "en-de/base/1",
        "not recorded": "en-de/base/2",
        "h 16": "en-de/big/1",
    }


def test_scores_that_are_not_of_a_run_as_it_is_are_named(options, tmp_path):
    path = tmp_path / "runs/en-de/base/1/run.json"
    path.write_text(path.read_text().replace("d1" * 32, "d2" * 32))
    (tmp_path / "runs/en-de/base/2/run.json").unlink()
    text = written(options)
    assert "- en-de/base/1: test.json is of another training than run.json\n" in text
    assert "- en-de/base/2: test.json is there, but no run.json\n" in text
    assert "± " not in text.partition("### C3")[2].partition("A score is")[0]


def test_data_are_those_of_the_runs(options, tmp_path):
    text = written(options)
    assert table(text, "Task")[0] == {
        "Task": "en-de",
        "Languages": "en to de",
        "Split": "train",
        "Read": "30",
        "Kept": "29",
        "Source tokens": "1,234",
        "Target tokens": "5,678",
        "Other counts": "silver 3",
        "data.json": "here",
        "SHA-256 of the data": DATA["sha256"],
    }
    tested = table(text[text.index("What was scored") :], "Task")
    assert [(row["Split"], row["Sentences"]) for row in tested] == [("test", "1,000"), ("dev", "1,000")]
    corpora = table(text[text.index("The corpora behind") :], "Task")
    assert [list(row.values())[1:] for row in corpora] == [
        ["train", "made", "30", "this project's grammar, seed 7, after the first 1,000", "none: its seed makes it"],
        ["dev", "mine", "9", "en: dev.en", "not recorded"],
        ["dev", "mine", "9", "de: dev.de", "not recorded"],
        ["test", "far", "not recorded", "en: https://example.org/far.tgz, member test/far.en", f"md5 {'5d' * 16}"],
        ["test, a part", "mine", "9", "en: dev.en", "not recorded"],
        ["test, a part", "mine", "9", "de: dev.de", "not recorded"],
    ]
    assert "come from the seed 7." in text
    other = DATA | {"files": {"a": "b"}, "sha256": checksum_of({"a": "b"})}
    (tmp_path / "data/en-de/data.json").write_text(json.dumps(other))
    assert {row["data.json"] for row in table(written(options), "Task")} == {"not here"}


def test_setup_software_and_commands(options):
    text = written(options)
    assert {row["Setting"]: row["Value"] for row in table(text, "Setting")} == {
        "`N`": "2",
        "`h`": "8",
        "`positions`": "sinusoid",
        "`steps`": "6000",
        "`rate`": "1.0",
    }
    assert table(text, "Beam search") == [
        {"Beam search": "beam 4, alpha 0.6, extra_length 50, batch_tokens 4096", "Runs": "all"}
    ]
    assert table(text, "Versions") == [{"Versions": "python 3.11.7, torch 2.13.0", "Runs": "all"}]
    assert table(text, "Commit") == [
        {"Commit": "c1", "Runs": "all"},
        {"Commit": "c2", "Runs": "en-de/big/1"},
    ]
    machines = {row["Processes × hardware"]: row["Runs"] for row in table(text, "Processes × hardware")}
    assert machines["8 × NVIDIA H100; number type of products: float32"] == "en-de/big/1"
    assert {row["What"]: row["Command"] for row in table(text, "What")} == {
        "table2": "`snakemake --cores all results/test/tables/table2.md --configfile own.yaml --config scale=test`",
        "curves": "`snakemake --cores all results/test/figures/curves.svg --configfile own.yaml --config scale=test`",
        "all, and this file": "`snakemake --cores all --configfile own.yaml --config scale=test`",
    }
    assert "- `en-de|compound_split|v:1`\n" in text


def test_in_a_module_commands_name_what_the_other_workflow_makes(options):
    """The targets as they are given, and no --config: the scale is set elsewhere, and plan would not know it."""
    options[options.index("results/test/tables/table2.md")] = "paper/results/test/tables/table2.md"
    text = written(["--module", *options])
    commands = {row["What"]: row["Command"] for row in table(text, "What")}
    assert commands["table2"] == "`snakemake --cores all paper/results/test/tables/table2.md --configfile own.yaml`"
    assert commands["this file"] == f"`snakemake --cores all {options[-1]} --configfile own.yaml`"
    assert "That workflow's configuration sets the scale." in text
    assert "--config " not in text
    assert "transformer plan" not in text


def test_disk_is_estimated_of_the_same_configuration(options):
    assert "`python -m transformer plan --configfile own.yaml --config scale=test` estimates disk." in written(options)


def test_names_the_projects_files_without_links(options):
    """A link would break where the document is copied to another folder, as a record does."""
    text = written(options)
    assert "](" not in text
    named = set(re.findall(r"`(LICENSE|docs/[\w-]+\.md)`", text))
    assert named == {"LICENSE", "docs/licences.md", "docs/own-corpus.md", "docs/development.md"}
    assert all((ROOT / name).is_file() for name in named)


def test_settings_are_those_of_the_run_that_is_named(options, tmp_path):
    """The first one has none."""
    (tmp_path / "runs/en-de/base/1/experiment.yaml").unlink()
    (tmp_path / "runs/en-de/base/2/experiment.yaml").unlink()
    text = written(options)
    assert "The settings of `en-de/big/1`, in the paper's symbols:" in text
    assert {row["Setting"]: row["Value"] for row in table(text, "Setting")}["`h`"] == "16"


def test_what_was_tried_is_shown_where_the_scale_states_it(options):
    assert "and how they chose, is not recorded for this scale." in written(options)
    place = options.index("--described") + 1
    tried = [{"setting": "P_drop 0.3", "outcome": "dev BLEU 25.1"}]
    tried.append({"setting": "P_drop 0.1", "outcome": "dev BLEU 26.4", "chosen": True})
    options[place] = json.dumps(DESCRIBED | {"tried": tried})
    text = written(options)
    assert table(text, "Tried") == [
        {"Tried": "P_drop 0.3", "Outcome": "dev BLEU 25.1", "Chosen": ""},
        {"Tried": "P_drop 0.1", "Outcome": "dev BLEU 26.4", "Chosen": "yes"},
    ]
    assert "not recorded for this scale" not in text


def test_of_nothing_it_says_that_nothing_is_there(tmp_path):
    power = "--core-watts 1 --gpu-watts 1 --pue 1 --estimate E --source S"
    options = ["--scale", "paper", "--label", "L", "--run", "a/b/1/run.json", *power.split(), "--output"]
    text = written([*options, str(tmp_path / "R.md")])
    assert "0 of 1 expected runs are in it." in text
    assert "| a/b/1 |" in text
    assert "No run is here, so that there are neither hours nor an estimate of energy." in text
    assert "cannot reproduce" not in text  # models and data are the paper's


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("run.json", {"seconds": None}, "run.json, "),
        ("test.json", {"run": None}, "test.json, run: expected object, found None"),
        ("test.json", {"scores": {"paper": "tokenized"}}, "test.json, scores.tokenized: expected object, found None"),
        ("test.json", {"scores": {"paper": []}}, "test.json, scores.paper: expected str, found []"),
        ("test.json", {"sentences": "many"}, "test.json, sentences: expected int, found 'many'"),
    ],
)
def test_damaged_files_end_in_one_line(options, tmp_path, file, content, expected):
    path = tmp_path / "runs/en-de/base/1" / file
    path.write_text(json.dumps(json.loads(path.read_text()) | content))
    with pytest.raises(InputError, match=re.escape(expected)):
        reproducibility.main(options)


def test_a_corpus_that_is_not_described_ends_in_one_line(options):
    options[options.index("--described") + 1] = json.dumps(DESCRIBED | {"downloads": {}})
    with pytest.raises(InputError, match=r"^--described, downloads: missing key 'far.tgz'$"):
        reproducibility.main(options)


def test_the_record_tells_what_its_files_tell(tmp_path):
    """The scores are those of the recorded Table 2, the hours those of run.json."""
    record = ROOT / "results/record/multi30k"
    runs = sorted(record.glob("runs/*/*/*/run.json"))
    scores = [path for path in (run.with_name("test.json") for run in runs) if path.exists()]
    data = record.glob("data/*/data.json")
    power = "--core-watts 12 --gpu-watts 200 --pue 1.56 --estimate E --source S --output"
    options = ["--scale", "multi30k", "--label", "L", "--run", *map(str, runs), "--score", *map(str, scores)]
    text = written([*options, "--data", *map(str, data), *power.split(), str(tmp_path / "R.md")])
    contents = [json.loads(path.read_text("utf-8")) for path in runs]
    rows = table(text, "Run")
    assert [row["Parameters"] for row in rows] == [f"{run['parameters']:,}" for run in contents]
    hours = sum(run["seconds"] * int(re.search(r"(\d+) of \d+ cores", run["hardware"])[1]) for run in contents) / 3600
    consumed = number_text(hours * 12 * 1.56 / 1000)
    assert f"{number_text(hours)} unit-hours × 12 W × 1.56 / 1000 = {consumed} kWh" in text
    printed = {row["Runs of"]: row["test.json"].partition(" ±")[0] for row in table(text, "Runs of")}
    with open(record / "tables/table2.csv", encoding="utf-8", newline="") as file:
        ours = [row for row in csv.DictReader(file) if row["by"] == "ours"]
    scored = [(row, task) for row in ours for task in ("en-de", "en-fr") if row[f"{task}_bleu"]]
    assert scored
    for row, task in scored:
        experiment = re.search(r"\((\w+)\)", row["model"])[1]
        assert printed[f"{task}/{experiment}"] == f"{float(row[f'{task}_bleu']):.2f}"
    assert {row["data.json"] for row in table(text, "Task")} == {"here"}
