"""Processes that are killed or wait for nobody: nothing of theirs lives on, and nothing waits for ever."""

import signal
import time
from pathlib import Path

import psutil
import pytest
from support.project import ENVIRONMENT, SNAKEMAKE, copy_project, own_corpus
from support.toy import heed_signals

SOON = 30  # seconds, on a machine that does other work; an idle one takes less than 5
TOKENIZE = ["-m", "transformer", "tokenize"]
TOKENIZED = [f"results/mine/data/en-cs/{split}.json" for split in ("train", "dev")]


def command(process: psutil.Process) -> list[str]:
    """Return the words of a command; none of a process that has ended meanwhile."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def parents(snakemake: psutil.Process, project: Path, log: Path) -> dict[str, psutil.Process]:
    """Wait until two jobs write what their workers have tokenised; return the jobs' main processes by split."""
    late = time.time() + 60
    while sum(path.stat().st_size > 0 for path in project.glob("results/mine/data/en-cs/.*.source.tok.*.part")) < 2:
        assert snakemake.is_running(), log.read_text()
        assert time.time() < late, log.read_text()
        time.sleep(0.05)
    jobs = [child for child in snakemake.children(recursive=True) if command(child)[1:4] == TOKENIZE]
    return {Path(command(job)[-1]).name: job for job in jobs}


@pytest.fixture
def tokenizing(tmp_path):
    """Yield Snakemake in the middle of two jobs that tokenise long texts, each with two workers, and its log."""
    project, log = copy_project(tmp_path), tmp_path / "output"
    configuration = own_corpus(project)
    for name in ("train.en", "train.cs", "dev.en", "dev.cs"):
        (project / name).write_text("one two three four .\n" * 400_000)
    options = ["--configfile", configuration, "--config", "scale=mine", "--set-threads", "tokenize=2"]
    command = [*SNAKEMAKE[:-1], "4", *options, "--", *TOKENIZED]
    with log.open("w") as output:
        streams = {"stdout": output, "stderr": output, "preexec_fn": heed_signals}
        snakemake = psutil.Popen(command, cwd=project, env=ENVIRONMENT, **streams)
    yield snakemake, project, log
    for process in (*snakemake.children(recursive=True), snakemake) if snakemake.is_running() else []:
        process.kill()
    snakemake.wait(60)


def test_a_job_ends_with_the_process_that_was_killed(tokenizing):
    """KILL ends one that tokenises, TERM another: their workers, `tee`, shells and Snakemake itself end, too."""
    snakemake, project, log = tokenizing
    jobs = parents(snakemake, project, log)
    everything = snakemake.children(recursive=True)
    assert "tee" in {process.name() for process in everything}
    jobs["train"].kill()
    jobs["dev"].send_signal(signal.SIGTERM)
    _, alive = psutil.wait_procs(everything, timeout=SOON)
    left = [command(process) for process in alive]
    for process in alive:
        process.kill()
    assert left == []
    assert snakemake.wait(60) == 1, log.read_text()
