"""Data and runs made in one project are taken into another, which makes the rest, and the same numbers."""

import csv
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from support.project import copy_project, last_line, own_corpus, snakemake, transformer

from transformer.config.runs import PROBED

OWN = ("--configfile", "own.yaml", "from.yaml", "--config", "scale=mine", "--")
RESULTS, DATA = "results/mine", "results/mine/data/en-cs"
BASE, BIG = (f"results/mine/runs/en-cs/{experiment}/1" for experiment in ("base", "big"))
TABLE = "results/mine/tables/table2.csv"


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """Make Table 2 of an own corpus, which needs configuration alone."""
    project = copy_project(tmp_path_factory.mktemp("trained"))
    own_corpus(project)
    (project / "from.yaml").write_text("{}")
    result = snakemake(project, *OWN, TABLE)
    assert result.returncode == 0, result.stdout + result.stderr
    return project


@pytest.fixture
def project(tmp_path) -> Path:
    """Make a project in which nothing is made yet."""
    own_corpus(copy_project(tmp_path))
    return tmp_path


def make_folder(source: Path, folder: Path, keep: str) -> dict[str, str]:
    """Copy what matches `keep`, and list it as a person would; return the folder's entry in config.yaml."""
    shutil.copytree(source, folder)
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if not re.fullmatch(keep, str(path.relative_to(folder))):
            path.unlink()
    subprocess.run("sha256sum $(find . -type f) > SHA256SUMS", shell=True, cwd=folder, check=True)
    return entry(folder)


def entry(folder: Path) -> dict[str, str]:
    """Return the entry in config.yaml of a folder as it is now."""
    return {"path": folder.name, "sha256": hashlib.sha256((folder / "SHA256SUMS").read_bytes()).hexdigest()}


def configure(project: Path, data: dict | None = None, **runs: dict) -> None:
    """Write from.yaml, in which data and runs, by experiment, are made elsewhere."""
    scale = {"from": {f"en-cs/{experiment}/1": run for experiment, run in runs.items()}}
    scale |= {"tasks": {"en-cs": {"from": data}}} if data else {}
    (project / "from.yaml").write_text(yaml.safe_dump({"scales": {"mine": scale}}))


def make(project: Path, target: str, *options: str) -> str:
    """Make a file; return all that Snakemake prints."""
    result = snakemake(project, *options, *OWN, target)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def rules(output: str) -> set[str]:
    """Return the rules that were run."""
    return set(re.findall(r"^(?:local)?rule (\w+):", output, re.MULTILINE))


def same(one: Path, other: Path, *paths: str) -> None:
    for path in paths:
        assert (one / path).read_bytes() == (other / path).read_bytes(), path


def test_an_own_corpus_needs_configuration_alone(trained):
    table = (trained / TABLE).with_suffix(".md").read_text(encoding="utf-8")
    assert "EN-CS" in table
    assert "our corpus" in table
    whole = snakemake(trained, "--dry-run", *OWN[:-1])
    assert "results/mine/runs/en-cs/heads-32/1/dev.last.hyp" in whole.stdout


def test_tables_from_taken_runs(trained, project):
    """One with checkpoints, of which the average is made here, and one with translations and no weights."""
    base = make_folder(trained / BASE, project / "base", r"(?!average|test).*")  # with state/ and all
    big = make_folder(trained / BIG, project / "big", r"run\.json|decoding\.yaml|test\.hyp")
    (project / BIG).mkdir(parents=True)
    shutil.copy(trained / BIG / "average.safetensors", project / BIG)  # of an earlier training: not what translated
    configure(project, base=base, big=big)
    expected = {"unpack", "experiment", "decoding", "take", "take_checkpoints", "average", "translate", "score"}
    assert rules(make(project, TABLE)) == expected | {"table"}
    same(project, trained, TABLE, f"{BASE}/average.safetensors", f"{BASE}/test.hyp", f"{BIG}/test.hyp")
    assert not (project / DATA).exists()
    kept = [path for run in (BASE, BIG) for path in (project / run).rglob("*") if path.is_file()]
    assert not [path for path in kept if "state" in path.parts or path.name == "SHA256SUMS"]
    for run, weights in ((BASE, True), (BIG, False)):
        about = json.loads((project / run / "test.json").read_text())["run"]
        assert (about["weights_sha256"] is not None) == weights
        assert about["averaged_steps"] == [3, 4]
        assert about["taken"]["from"] == Path(run).parent.name
    assert "Nothing to be done" in make(project, TABLE)
    on_a_node(project, f"{BIG}/test.json")
    result = transformer(project, "explain", "table2", "big", "en-cs", "--scale", "mine")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Taken from        big, run.json's SHA-256 " in result.stdout


def on_a_node(project: Path, score: str) -> None:
    """Plan a score as a cluster's job does, which does not see the folders."""
    for folder in ("base", "big"):
        shutil.rmtree(project / folder)
    job = ["--mode", "remote", "--allowed-rules", "score", "--force", "--dry-run"]
    assert rules(make(project, score, *job)) == {"score"}


def test_training_on_taken_data(trained, project):
    """All of them are taken, and no corpus is needed."""
    (project / "train.en").unlink()
    configure(project, make_folder(trained / DATA, project / "data", ".*"))
    assert rules(make(project, f"{DATA}/data.json")) == {"take"}
    same(project, trained, *(f"{DATA}/{file.name}" for file in (project / DATA).iterdir()))
    assert rules(make(project, f"{BASE}/last.safetensors", "--dry-run")) == {"experiment", "train"}


def test_a_taken_vocabulary(trained, project):
    """The rest of the data is made."""
    configure(project, make_folder(trained / DATA, project / "data", r"vocabulary\.model"))
    assert rules(make(project, f"{DATA}/data.json")) == {"unpack", "tokenize", "take", "encode"}
    same(project, trained, f"{DATA}/data.json", f"{DATA}/train.source.ids")


@pytest.fixture
def taking(trained, project) -> Path:
    """Make a project that takes its base model's run."""
    configure(
        project, base=make_folder(trained / BASE, project / "base", r"run\.json|vocabulary\.model|average\.safetensors")
    )
    return project


WHERE = "config.yaml: scales.mine.from.en-cs/base/1"


def refused(project: Path, target: str = f"{BASE}/average.safetensors") -> str:
    """The line that Snakemake ends with, before any job."""
    result = snakemake(project, "--dry-run", *OWN, target)
    assert result.returncode != 0
    assert "Traceback" not in result.stdout + result.stderr
    return last_line(result)


SMALL = "results/small/runs/en-de/base/1"


@pytest.fixture
def measured(small, tmp_path) -> Path:
    """Make a project in which all is made but its base model's run, of which the folder `base` is a copy."""
    project = shutil.copytree(small, tmp_path / "measured")
    (project / SMALL).rename(project / "base")
    return project


def take_base(project: Path, keep: str, *arguments: str) -> str:
    """Take what matches `keep` from the folder `base`; return all that Snakemake prints."""
    run = make_folder(project / "base", project / "taken", keep)
    (project / "from.yaml").write_text(yaml.safe_dump({"scales": {"small": {"from": {"en-de/base/1": run}}}}))
    result = snakemake(project, "--configfile", "from.yaml", *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def test_a_folder_of_results_is_taken_as_it_is(measured):
    """With what was measured on the run."""
    planned = take_base(measured, ".*", "--dry-run")
    assert "take" in rules(planned)
    assert not {"train", "average", "translate", "probe", "refuse"} & rules(planned)
    assert all(f"{SMALL}/{probe}.json" in planned for probe in PROBED)


def test_without_checkpoints_averaging_is_not_measured(measured):
    """And everything else is made."""
    keep = r"(run|decoding)\.(json|yaml)|metrics\.jsonl|vocabulary\.model|(last|average)\.safetensors|.*\.hyp"
    assert not {"train", "refuse"} & rules(take_base(measured, keep))
    table = (measured / "results/small/tables/table5.csv").read_text("utf-8").splitlines()
    verdicts = {row["row"]: row["verdict"] for row in csv.DictReader(table)}
    page = (measured / "results/small/tables/table5.md").read_text("utf-8")
    assert "as these have not been measured: averaging of en-de/base/1." in page
    assert sorted(file.stem for file in (measured / SMALL).glob("*.json") if file.stem in PROBED) == [
        *("heads", "lengths", "smoothing")
    ]
    assert verdicts["masked"] != "not run"


def test_a_run_that_is_taken_by_its_translations_is_not_measured(measured):
    """It has no weights; before Table 5, `all` needed none of it."""
    other = measured / "results/small/runs/en-de/smoothing-0.0/1"
    other.rename(measured / "base-without")
    keep = r"run\.json|decoding\.yaml|metrics\.jsonl|.*\.hyp"
    run = make_folder(measured / "base-without", measured / "taken", keep)
    (measured / "base").rename(measured / SMALL)
    (measured / "from.yaml").write_text(yaml.safe_dump({"scales": {"small": {"from": {"en-de/smoothing-0.0/1": run}}}}))
    result = snakemake(measured, "--configfile", "from.yaml", "--dry-run")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "smoothing-0.0/1/smoothing.json" not in result.stdout


def test_a_run_of_table_5_alone_is_taken_without_its_log(measured):
    """No table or figure shows the log, so that no training is asked for."""
    claim = "en-de/additive/1"
    (measured / f"results/small/runs/{claim}").rename(measured / "claim")
    (measured / "base").rename(measured / SMALL)
    run = make_folder(measured / "claim", measured / "taken", r"run\.json|decoding\.yaml|dev\.last\.hyp")
    (measured / "from.yaml").write_text(yaml.safe_dump({"scales": {"small": {"from": {claim: run}}}}))
    result = snakemake(measured, "--configfile", "from.yaml", "--", "results/small/report.html")
    assert result.returncode == 0, result.stdout + result.stderr
    assert not {"train", "refuse"} & rules(result.stdout + result.stderr)


def test_what_training_alone_makes_is_not_trained(taking):
    problem = "base/SHA256SUMS: expected last.safetensors, which is needed; a run that is taken is not trained here"
    assert refused(taking, "results/mine/tables/table3.md") == f"{WHERE}: {problem}"


NO_SUM = "0" * 64
LINES = {  # each a fault, and what is said of the list that it is in
    f"{NO_SUM}  ../run.json": ": '../run.json' leads out of the folder",
    f"{NO_SUM} */run.json": ": '/run.json' leads out of the folder",
    f"{NO_SUM}  ./notes.txt": ": no rule makes 'notes.txt'",
    f"{NO_SUM}  test.hyp": ": expected decoding.yaml beside test.hyp",
    "run.json": ", line 4: expected a sum and a path, found 'run.json'",
}
READ_ALL = """
include: "Snakefile"

for number, folder in enumerate(FOLDERS):
    try:
        read_folder("mine/runs/en-cs/base/1", folder, f"fault {number}")
    except SystemExit as refusal:
        print(refusal)
"""


def test_lists_that_are_refused(taking):
    """All in one run of Snakemake, by the function that reads each: another sum, no list, and each of LINES."""
    sums, folders = (taking / "base/SHA256SUMS").read_text(), [{"path": "base", "sha256": NO_SUM}]
    problems = [f": expected SHA-256 {NO_SUM}, found {entry(taking / 'base')['sha256']}"]
    folders.append({"path": "none", "sha256": NO_SUM})
    problems.append(": cannot be read: No such file or directory")
    for number, (line, problem) in enumerate(LINES.items()):
        (folder := taking / f"fault-{number}").mkdir()
        (folder / "SHA256SUMS").write_text(f"{sums}{line}\n")
        folders.append(entry(folder))
        problems.append(problem)
    (taking / "all.smk").write_text(READ_ALL.replace("FOLDERS", repr(folders)))
    said = make(taking, f"{BASE}/average.safetensors", "--snakefile", "all.smk", "--dry-run")
    expected = [
        f"config.yaml: fault {number}: {folder['path']}/SHA256SUMS{problem}"
        for number, (folder, problem) in enumerate(zip(folders, problems, strict=True))
    ]
    assert re.findall("config.yaml: fault.*", said) == expected


def test_a_run_taken_at_another_scale(taking):
    """Is not trained because its scale is not the configured one."""
    result = snakemake(taking, "--dry-run", "--configfile", "own.yaml", "from.yaml", "--", f"{BASE}/last.safetensors")
    assert result.returncode != 0
    assert last_line(result) == f"{WHERE}: taken at its own scale alone: add --config scale=mine"
