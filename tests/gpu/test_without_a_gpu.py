"""The GPU's path at the paper's full size, on a device that has shapes and types but no numbers (support/pretend.py).

It cannot show the attention kernels' numbers, copies and events, NCCL, time, or the memory that is really used.
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

from transformer.model.packed import BLOCK

HERE = Path(__file__).parent
TORCH = Path(torch.__file__).parent
TESTS = HERE.parent
TRITON = TESTS.parent / ".triton"
SOURCE = TESTS / "support" / "pretend.cpp"

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


@pytest.fixture
def trace(library):
    """Return a function that runs trace.py: its process."""

    def run(*words: str, program: str = "trace.py") -> subprocess.CompletedProcess:
        environment = os.environ | {
            "PRETEND": str(library),
            "PYTHONPATH": os.pathsep.join(
                map(str, [TESTS.parent, TESTS, *([TRITON] if program == "kernels.py" else [])])
            ),
        }
        command = [sys.executable, HERE / program, *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    return run


def seen(process: subprocess.CompletedProcess) -> dict:
    """Return what trace.py printed."""
    assert process.returncode == 0, process.stderr[-3000:]
    return json.loads(process.stdout)


@pytest.mark.parametrize(
    ("model", "parameters", "most"), [("base", 193, 2200), ("big", 193, 2200), ("parser", 129, 1602)]
)
def test_a_step_that_is_not_compiled(trace, model, parameters, most):
    """It waits for nothing, or trace.py would fail. The bound is what was counted: fewer operators are better."""
    result = seen(trace("step", model))
    assert result["views"]
    assert result["parameters"] == parameters
    assert 500 < result["operators"] <= most


def test_one_graph_serves_all_batches(trace):
    """Of sentences of any length, and of any number of them; what was compiled for one is compiled for none again."""
    result = seen(trace("compiled", "base"))
    assert result["longest"][0] < 128 < result["longest"][-1]
    assert len(set(result["pairs"])) == 3
    assert (result["graphs"], result["breaks"]) == ([1, 1], 0)
    assert result["attention"] == ["torch.bfloat16"]
    assert result["views"]
    assert 4e9 < result["saved_bytes"] < 5.8e9


def test_evaluation(trace):
    assert 100 < seen(trace("evaluation", "base"))["operators"] <= 923


def test_a_step_of_beam_search(trace):
    """Up to the transfer of its ranking nothing waits, and all stays on the device."""
    result = seen(trace("decoding", "base"))
    assert result["shapes"] == [[40, 8], [40, 8]]
    assert result["devices"] == ["cuda:0", "cuda:0"]
    assert 100 < result["operators"] <= 161


@pytest.mark.parametrize(
    ("part", "broken", "message"),
    [
        ("step", "wait", "DataDependentOutputException: aten._local_scalar_dense"),
        ("step", "shape", "DynamicOutputShapeException: aten.nonzero"),
        ("compiled", "wait", "DataDependentOutputException: aten._local_scalar_dense"),
        ("compiled", "shape", "data-dependent expression u0"),
    ],
)
def test_a_step_that_waits_is_found(trace, part, broken, message):
    process = trace(part, "base", "--break", broken)
    assert process.returncode != 0
    assert message in process.stderr


def test_attention_in_float32_is_found(trace):
    assert seen(trace("compiled", "base", "--break", "float32"))["attention"] == ["torch.float32"]


@pytest.mark.slow
def test_every_row_of_tables_3_and_5(trace):
    """What attention in blocks does not know is not compiled: heads wider than 256, and scores that are no products."""
    rows = seen(trace("rows"))
    padded = {name for name, row in rows.items() if not row["blocks"]}
    assert padded == {"heads-1", "unscaled-heads-1", "additive"}
    assert len(rows) > 20
    for name, row in rows.items():
        assert row["views"], name
        if name not in padded:
            assert (row["graphs"], row["breaks"]) == ([1, 1], 0), name


def kernels(trace, *words: str) -> dict:
    """Return what kernels.py printed."""
    needs(str(TRITON / "triton" / "__init__.py"), "pip install --target .triton --no-deps triton==3.7.1")
    return seen(trace(*words, program="kernels.py"))


@pytest.mark.slow
def test_inductors_code_for_a_step(trace):
    """The bounds are what was counted."""
    result = kernels(trace, "base")
    launches = result["launches"]
    assert set(launches) == {"elementwise", "products", "attention"}
    assert launches["attention"] == 36
    assert result["tiles"] == [BLOCK]  # although the mask claims others
    assert launches["elementwise"] <= 479
    assert launches["products"] <= 219


@pytest.mark.slow
def test_each_kernel_compiles(trace):
    """Those of one layer are those of all."""
    result = kernels(trace, "base", "--layers", "1", "--compile")
    assert result["compiled"] > 30
