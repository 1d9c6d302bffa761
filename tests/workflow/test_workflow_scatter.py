"""A training set prepared by many jobs is the one that a single job prepares, and stays when their number changes."""

from pathlib import Path

import pytest
from support.project import copy_project, own_corpus, snakemake

DATA = "results/mine/data/en-cs"


def prepare(project: Path, scatter: int, *options: str) -> str:
    """Prepare the data in so many jobs; return what Snakemake prints."""
    setting = ("--configfile", "own.yaml", "--config", "scale=mine", f"scatter={scatter}")
    result = snakemake(project, *options, *setting, "--", f"{DATA}/data.json")
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


def content(project: Path) -> dict[str, bytes]:
    """Return all files of the data's folder, whose parts are to be gone."""
    return {str(path.relative_to(project)): path.read_bytes() for path in (project / DATA).rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def projects(tmp_path_factory) -> dict[int, Path]:
    """Prepare the same corpus in two projects; return them by the number of jobs."""
    projects = {number: copy_project(tmp_path_factory.mktemp(f"scatter{number}")) for number in (1, 3)}
    for number, project in projects.items():
        own_corpus(project)
        output = prepare(project, number)
        assert output.count("rule tokenize_part:") == output.count("rule encode_part:") == number * (number > 1)
    return projects


def test_many_jobs_prepare_what_one_does_byte_for_byte(projects):
    assert content(projects[3]) == content(projects[1])
    assert len(content(projects[1])) == 16


@pytest.mark.parametrize(("made", "scatter"), [(1, 4), (3, 1), (3, 4)])
def test_another_number_of_jobs_prepares_nothing_again(projects, made, scatter):
    assert "Nothing to be done" in prepare(projects[made], scatter, "--dry-run")


def test_an_edited_corpus_is_prepared_again_in_either_way(projects):
    before = content(projects[1])
    for number, project in projects.items():
        with (project / "train.en").open("a") as source, (project / "train.cs").open("a") as target:
            source.write("seven six five\n")
            target.write("seven six five")  # without a line end
        prepare(project, number + 1)
    assert content(projects[3]) == content(projects[1]) != before
