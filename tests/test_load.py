"""`import transformer`, `transformer.load`: they load no more than they need."""

import subprocess
import sys
from pathlib import Path

from support.toy import PROCESSOR

ROOT = Path(__file__).parents[1]
HEAVY = "{'torch', 'numpy', 'pandas', 'matplotlib', 'snakemake', 'sacrebleu', 'starlette'}"


def python(code: str) -> str:
    command = [sys.executable, "-c", f"import sys; {code}"]
    return subprocess.run(command, cwd=ROOT, env=PROCESSOR, check=True, capture_output=True, text=True).stdout


def test_importing_needs_no_torch():
    assert python(f"import transformer; print({HEAVY} & {{*sys.modules}})") == "set()\n"


def test_translating_needs_neither_the_workflow_nor_the_report():
    run = "results/record/multi30k/runs/en-de/base/1"
    code = f"import transformer; transformer.load('{run}').translate(['A dog.']); print({HEAVY} & {{*sys.modules}})"
    assert set(python(code).strip("{}\n").split(", ")) == {"'torch'", "'numpy'"}
