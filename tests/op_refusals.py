"""Offsets that every operation refuses, and the check that nothing is written then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import raggeddnn as rd
from raggeddnn.testing.cases import numpy_dtype
from raggeddnn.testing.op_graphs import GRAPH_TYPES, OpGraph

# Offsets in elements, of two sequences of at most one row of 8, and the index that is wrong.
BAD_OFFSETS = [([1, 8, 16], 0), ([0, 8, 4], 2), ([0, 7, 16], 1), ([0, 8, 24], 2)]


def assert_refused(
    op: OpGraph, plan: rd.ExecutionPlan, message: str, tables: Mapping[str, Any]
) -> None:
    """Fail unless these offsets raise ``message`` and nothing was written."""
    pack = op.pack()
    for name, offsets in tables.items():
        pack[{**op.tensors, **op.tables}[name]] = offsets
    memory = []
    for tensor in op.outputs.values():
        dtype = next(k for k, v in GRAPH_TYPES.items() if v == tensor.get_data_type())
        memory.append(np.full(4096, 5, dtype=numpy_dtype(dtype)))
        pack[tensor] = memory[-1]
    with pytest.raises(rd.InvalidValueError, match=message):
        plan.execute(pack)
    assert all((array == 5).all() for array in memory)
