"""The GPU's path at the paper's full size, on a device that has shapes and types but no numbers (trace.py).

It cannot show the attention kernels' numbers, copies and events, NCCL, time, or the memory that is really used.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.tools import needs, once

TORCH = Path(torch.__file__).parent
HERE = Path(__file__).parent

pytestmark = pytest.mark.skipif(torch.version.cuda is not None, reason="PyTorch's build for CUDA has a CUDA of its own")


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> Path:
    """Return pretend.cpp, compiled once for all processes of the tests."""
    command = [needs("g++", "apt-get install g++"), "-shared", "-fPIC", "-std=c++20", f"-I{TORCH / 'include'}"]
    command += [HERE / "pretend.cpp", f"-L{TORCH / 'lib'}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{TORCH / 'lib'}", "-o"]

    def build(folder: Path) -> None:
        subprocess.run([*command, folder / "pretend.so"], check=True)

    return once(tmp_path_factory, "pretend", build) / "pretend.so"


def trace(library: Path, model: str) -> dict:
    """Return what trace.py prints."""
    environment = os.environ | {"PRETEND": str(library), "PYTHONPATH": str(HERE.parents[1])}
    command = [sys.executable, HERE / "trace.py", model]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    return json.loads(process.stdout)


@pytest.mark.parametrize(
    ("model", "parameters", "most"),
    [
        ("base", 193, 2200),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in [("big", 193, 2200), ("parser", 129, 1603)]),
    ],
)
def test_a_step_that_is_not_compiled(library, model, parameters, most):
    """It waits for nothing, or trace.py would fail. The bound is what was counted: fewer operators are better."""
    result = trace(library, model)
    assert result["views"]
    assert result["parameters"] == parameters
    assert 500 < result["operators"] <= most
