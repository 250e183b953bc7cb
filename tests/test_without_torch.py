"""Without PyTorch everything but ``raggeddnn.torch`` works, and that says what to install."""

from __future__ import annotations

import os
import subprocess
import sys

PROBE = """
import sys
for name in ("torch", "transformers"):
    sys.modules[name] = None  # importing it now fails as if it were not installed
import numpy as np
import raggeddnn as rd
import raggeddnn.bench, raggeddnn.testing, raggeddnn.verify
from raggeddnn.cli import main

x = np.ones((3, 1, 8), np.float32)
cu = np.array([0, 1, 3], np.int32)
assert (rd.varlen.sdpa(x, x, x, cu, cu) == 1).all()
assert main(["info"]) == 0
assert main(["verify", "--engine", "reference", "--case", "sdpa/edges"]) == 0
assert main(["bench", "--preset", "tiny", "--time", "0.1"]) == 0
try:
    import raggeddnn.torch
except ImportError as error:
    print("said:", error)
"""


def test_everything_else_works_and_the_module_says_what_to_install():
    paths = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stderr
    assert "said: raggeddnn.torch needs PyTorch: pip install raggeddnn[torch]" in done.stdout
    assert "PyTorch is not installed" in done.stdout  # the benchmark's peers
