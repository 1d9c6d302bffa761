"""`import transformer`, `transformer.load`: quick, light, and the same as the command."""

import subprocess
import sys
from pathlib import Path

from support.toy import PROCESSOR

ROOT = Path(__file__).parents[1]
HEAVY = "{'torch', 'numpy', 'pandas', 'matplotlib', 'snakemake', 'sacrebleu', 'starlette'}"


def python(code: str) -> str:
    command = [sys.executable, "-c", f"import sys, time; {code}"]
    return subprocess.run(command, cwd=ROOT, env=PROCESSOR, check=True, capture_output=True, text=True).stdout


def test_import_takes_a_tenth_of_a_second_and_no_torch():
    """The quickest of five, as the machine may be busy."""
    code = "start = time.perf_counter(); import transformer; "
    code += f"print(time.perf_counter() - start, {HEAVY} & {{*sys.modules}})"
    times, loaded = zip(*(python(code).split(maxsplit=1) for _ in range(5)), strict=True)
    assert set(loaded) == {"set()\n"}
    assert min(map(float, times)) <= 0.1


def test_translating_needs_neither_the_workflow_nor_the_report():
    run = "results/record/multi30k/runs/en-de/base/1"
    code = f"import transformer; transformer.load('{run}').translate(['A dog.']); print({HEAVY} & {{*sys.modules}})"
    assert set(python(code).strip("{}\n").split(", ")) == {"'torch'", "'numpy'"}
