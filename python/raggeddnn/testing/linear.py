"""Matrix products and reductions in NumPy, and their graphs.

Each oracle computes in the type of its arguments; see :mod:`raggeddnn.testing.op_graphs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import raggeddnn as rd

from .op_graphs import OpGraph, Ragged, Tensors
from .oracle import Array

Mode = rd.ReductionMode

REDUCTIONS: dict[Mode, Callable[..., Array]] = {
    Mode.ADD: np.sum,
    Mode.MUL: np.prod,
    Mode.MIN_OP: np.min,
    Mode.MAX_OP: np.max,
    Mode.AMAX: lambda x, **k: np.max(np.abs(x), **k),
    Mode.AVG: np.mean,
    Mode.NORM1: lambda x, **k: np.sum(np.abs(x), **k),
    Mode.NORM2: lambda x, **k: np.sqrt(np.sum(x * x, **k)),
    Mode.MUL_NO_ZEROS: lambda x, **k: np.prod(np.where(x == 0, 1, x), **k),
}
"""By mode; each takes an array, ``axis`` and ``keepdims``."""

NOTHING: dict[Mode, float] = {
    Mode.ADD: 0,
    Mode.MUL: 1,
    Mode.MIN_OP: np.inf,
    Mode.MAX_OP: -np.inf,
    Mode.AMAX: 0,
    Mode.AVG: np.nan,
    Mode.NORM1: 0,
    Mode.NORM2: 0,
    Mode.MUL_NO_ZEROS: 1,
}
"""What each comes to over no elements."""


def matmul_oracle(a: Array, b: Array) -> dict[str, Array]:
    return {"c": np.matmul(a, b)}


def matmul_graph(a: Array | Ragged, b: Array | Ragged, **types: str) -> OpGraph:
    """``c = a b``; ``types`` may state the data type of c."""
    return OpGraph(lambda g, t: {"c": g.matmul(t["a"], t["b"])}, {"a": a, "b": b}, types)


def reduction_graph(
    mode: rd.ReductionMode,
    x: Array | Ragged,
    axes: Sequence[int] | None = None,
    out: str | None = None,
) -> OpGraph:
    """``y``: x reduced over ``axes`` (None: all), which stay as 1; ``out`` is its data type."""

    def make(g: rd.Graph, t: Tensors) -> Tensors:
        y = g.reduction(mode, t["x"], is_deterministic=True)
        if axes is not None:
            dims = t["x"].get_dim()
            y.set_dim([1 if i in axes else n for i, n in enumerate(dims)])
        return {"y": y}

    return OpGraph(make, {"x": x}, {"y": out} if out else {})
