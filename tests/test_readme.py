"""The Python of README.md runs, block after block, and its ways to the same result agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from readme_blocks import python_blocks


def test_the_python_of_the_readme_runs():
    call, graph, of_torch = python_blocks(on_gpu=False)
    names: dict[str, Any] = {}
    exec(compile(call, "README.md, call", "exec"), names)
    exec(compile(graph, "README.md, graph", "exec"), names)
    # As one call or as a graph: the scale of 0.125 is the default one of 64 columns.
    assert np.array_equal(names["out"], names["o"])
    exec(compile(of_torch, "README.md, torch", "exec"), names)
    rows = names["same"].transpose(1, 2).values()
    assert torch.equal(rows, names["out"])
    assert names["q"].grad.any()
