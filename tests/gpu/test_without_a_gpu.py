"""The code for GPUs at the paper's full size, on a device with shapes and types but without numbers (trace.py).

It cannot test the attention kernels' numbers, copies and events, NCCL, time, or the actual memory use.
"""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from support.tools import needs

TORCH = Path(torch.__file__).parent
HERE = Path(__file__).parent
SOURCE = HERE / "pretend.cpp"

pytestmark = pytest.mark.skipif(torch.version.cuda is not None, reason="PyTorch's build for CUDA has a CUDA of its own")


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> Path:
    """Return pretend.cpp, compiled once for all processes of the tests."""
    compiler = needs("g++", "apt-get install g++")
    source = SOURCE.read_bytes() + f"{torch.__version__} {TORCH}".encode()
    path = tmp_path_factory.getbasetemp().parent / f"pretend-{hashlib.sha256(source).hexdigest()[:16]}.so"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            build = Path(f"{path}.new")
            options = ["-shared", "-fPIC", "-std=c++20", f"-I{TORCH / 'include'}", str(SOURCE)]
            options += [f"-L{TORCH / 'lib'}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{TORCH / 'lib'}", "-o", str(build)]
            subprocess.run([compiler, *options], check=True)
            build.rename(path)
    return path


def trace(library: Path, part: str, model: str) -> dict:
    """Return the output of trace.py."""
    environment = os.environ | {"PRETEND": str(library), "PYTHONPATH": str(HERE.parents[1])}
    command = [sys.executable, HERE / "trace.py", part, model]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    return json.loads(process.stdout)


@pytest.mark.parametrize(
    ("model", "parameters", "most"),
    [
        ("base", 193, 2200),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in [("big", 193, 2200), ("parser", 129, 1603), ("conv", 159, 2238)]
        ),
        # This build lacks cuDNN. With cuDNN an LSTM is one operator, here each of its steps has several.
        pytest.param("lstm", 74, 9458, marks=pytest.mark.slow),
    ],
)
def test_a_step_that_is_not_compiled(library, model, parameters, most):
    """The step never waits for the GPU; otherwise trace.py would fail. The bound is the counted number of operators."""
    result = trace(library, "step", model)
    assert result["views"]
    assert result["parameters"] == parameters
    assert 500 < result["operators"] <= most


@pytest.mark.slow
def test_one_graph_serves_all_batches(library):
    """The graph serves sentences of any length and number. No batch is compiled twice."""
    result = trace(library, "compiled", "base")
    assert result["longest"][0] < 128 < result["longest"][-1]
    assert len(set(result["pairs"])) == 3
    assert (result["backward"], result["breaks"]) == (1, 0)
    assert result["attention"] == ["torch.bfloat16"]
    assert result["views"]
