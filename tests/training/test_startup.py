"""A training starts without what it does not need: each module below takes a good part of a second to load."""

import subprocess
import sys

from support.toy import PROCESSOR

UNNEEDED = {"torch._dynamo", "sympy", "pandas", "matplotlib", "sacrebleu", "sacremoses", "tensorboardX"}


def test_the_training_loop_loads_nothing_that_is_heavy_and_not_needed():
    program = "import sys, transformer.training.loop; print(*sys.modules)"
    process = subprocess.run([sys.executable, "-c", program], env=PROCESSOR, capture_output=True, text=True, check=True)
    loaded = set(process.stdout.split())
    assert "transformer.training.step" in loaded
    assert not loaded & UNNEEDED
