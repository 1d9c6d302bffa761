"""The start of jobs: the environment of rules, and the folder of locks on GPUs."""

import os
import shutil
import subprocess
import sys

import pytest
from support.project import ENVIRONMENT, ROOT, copy_project, last_line


def test_without_its_environment_the_workflow_says_so(tmp_path):
    """Rules call `python`, of which there is none here, or one without torch."""
    project = copy_project(tmp_path)
    bare = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONPATH"}
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("bash", "git", "env", "which"):
        (folder / tool).symlink_to(shutil.which(tool))
    command = [sys.executable, "-m", "snakemake", "-n", "--cores", "1"]
    for found in ("none", folder / "python"):
        ended = subprocess.run(command, cwd=project, env=bare | {"PATH": str(folder)}, text=True, capture_output=True)
        assert ended.returncode == 1
        assert last_line(ended).startswith("Snakefile: expected `python` on PATH to be that of ")
        assert f"found {found}: activate the environment" in last_line(ended)
        (folder / "python").write_text("#!/bin/bash\nexit 1\n")
        (folder / "python").chmod(0o755)


GPUS = [ROOT / "workflow/scripts/gpus", "here", "1", "1", "true"]


@pytest.mark.parametrize("kind", ["another's", "a link", "a file"])
def test_the_folder_for_locks_on_gpus_is_ones_own(tmp_path, kind):
    place = tmp_path / f"gpus-{os.getuid()}-here"
    if kind == "another's":
        if os.getuid():
            pytest.skip("only root can make a folder of another user")
        place.mkdir(mode=0o777)
        os.chown(place, 12345, 12345)
    elif kind == "a link":
        (tmp_path / "other").mkdir()
        place.symlink_to(tmp_path / "other")
    elif kind == "a file":
        place.touch()
    env = {name: value for name, value in os.environ.items() if name != "SLURM_JOB_ID"}
    env |= {"TMPDIR": str(tmp_path), "CUDA_VISIBLE_DEVICES": "0"}
    ended = subprocess.run(GPUS, env=env, capture_output=True, text=True, timeout=20)
    assert ended.returncode == 1
    assert ended.stderr.startswith("gpus: ")
    assert ended.stderr.count("\n") == 1
    assert str(place) in ended.stderr
