"""The GPU's path at the paper's full size, on a device that has shapes and types but no numbers (support/pretend.py).

It cannot show the flash kernel's numbers, copies and events, NCCL, time, or the memory that is really used.
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

HERE = Path(__file__).parent
TORCH = Path(torch.__file__).parent
TESTS = HERE.parent
SOURCE = TESTS / "support" / "pretend.cpp"

pytestmark = pytest.mark.skipif(torch.version.cuda is not None, reason="PyTorch's build for CUDA has a CUDA of its own")


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> Path:
    """Return pretend.cpp, compiled once for all processes of the tests."""
    compiler = needs("g++", "apt-get install g++")
    source = SOURCE.read_bytes() + torch.__version__.encode()
    path = tmp_path_factory.getbasetemp().parent / f"pretend-{hashlib.sha256(source).hexdigest()[:16]}.so"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            build = Path(f"{path}.new")
            options = ["-shared", "-fPIC", "-std=c++20", f"-I{TORCH / 'include'}", str(SOURCE)]
            options += [f"-L{TORCH / 'lib'}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{TORCH / 'lib'}", "-o", str(build)]
            subprocess.run([compiler, *options], check=True)
            build.rename(path)
    return path


@pytest.fixture
def trace(library):
    """Return a function that runs trace.py: its process."""

    def run(*words: str) -> subprocess.CompletedProcess:
        environment = os.environ | {
            "PRETEND": str(library),
            "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)]),
        }
        command = [sys.executable, HERE / "trace.py", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    return run


def seen(process: subprocess.CompletedProcess) -> dict:
    """Return what trace.py printed."""
    assert process.returncode == 0, process.stderr[-3000:]
    return json.loads(process.stdout)


def forward_types(result: dict) -> set[str]:
    """Return the types that flash attention's forward pass is given."""
    return {line.rpartition(" ")[2] for line in result["attention"] if "_varlen_attn.default" in line}


@pytest.mark.parametrize("model", ["base", "big"])
def test_a_step(trace, model):
    """It waits for nothing, or trace.py would fail. The bound is what was counted: fewer operators are better."""
    result = seen(trace("step", model))
    assert result["views"]
    assert result["parameters"] == 193
    assert forward_types(result) == {"torch.bfloat16"}
    assert 500 < result["operators"] <= 1448


def test_evaluation(trace):
    assert 100 < seen(trace("evaluation", "base"))["operators"] <= 908


def test_a_step_of_beam_search(trace):
    """Up to the transfer of its ranking nothing waits, and all stays on the device."""
    result = seen(trace("decoding", "base"))
    assert result["shapes"] == [[40, 8], [40, 8]]
    assert result["devices"] == ["cuda:0", "cuda:0"]
    assert 100 < result["operators"] <= 219


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("wait", "DataDependentOutputException: aten._local_scalar_dense"),
        ("shape", "DynamicOutputShapeException: aten.nonzero"),
    ],
)
def test_a_step_that_waits_is_found(trace, broken, message):
    process = trace("step", "base", "--break", broken)
    assert process.returncode != 0
    assert message in process.stderr


def test_attention_in_float32_is_found(trace):
    assert forward_types(seen(trace("step", "base", "--break", "float32"))) == {"torch.float32"}


@pytest.mark.slow
def test_one_graph_serves_all_batches_of_like_lengths(trace):
    """Each pair of bounds on the sentences' lengths has a graph, which no other batch compiles again."""
    result = seen(trace("compiled", "base"))
    assert result["batches"] > result["bounds"] > 1
    assert result["graphs"] == [result["bounds"]] * 2
    assert result["breaks"] == 0
    assert 4e9 < result["saved_bytes"] < 7e9


@pytest.mark.slow
def test_every_row_of_tables_3_and_5(trace):
    """What flash attention cannot train is not compiled: heads wider than 256, and scores that are no products."""
    rows = seen(trace("rows"))
    padded = {name for name, row in rows.items() if not row["flash"]}
    assert padded == {"heads-1", "unscaled-heads-1", "additive"}
    assert len(rows) > 20
    for name, row in rows.items():
        if name in padded:
            assert row["views"], name
        else:
            assert (row["graphs"], row["breaks"]) == ([1, 1], 0), name
