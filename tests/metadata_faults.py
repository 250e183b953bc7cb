"""Bad offsets and lengths, one kind a row, and the attention case that they are put into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import raggeddnn as rd
from raggeddnn.testing import Case, Problem
from raggeddnn.testing.graphs import SdpaGraph

# Every ragged tensor has offsets of its own, in elements; int64, so that any number can be there.
CASE = Case(
    "faults",
    lens_q=(5, 3, 7, 2),
    lens_kv=(4, 9, 1, 6),
    heads=(2, 2, 1),
    d=16,
    d_v=8,
    dtype="float16",
    layout="slack",
    causal=True,
    offset_unit="element",
    index_dtype="int64",
)
FILL = 7.0  # of outputs before a run
AT = 2  # the number that is changed, where it is not the first


@dataclass(frozen=True)
class Fault:
    """``change(number, row)`` of the number at ``at``: an offset (``row``: elements of a row) or a
    length, of each of ``tensors``; ``batches`` are those that it makes bad.
    """

    name: str
    at: int
    change: Callable[[int, int], int]
    batches: tuple[int, ...]
    tensors: tuple[str, ...] = ("q", "o", "stats", "k", "v")
    is_empty: bool = True  # the blocks count as empty


LENGTHS = ("seq_q", "seq_kv")
FAULTS = [
    Fault("not-from-zero", 0, lambda n, row: row, (0,)),
    Fault("negative-first", 0, lambda n, row: -row, (0,)),
    Fault("decreasing", AT, lambda n, row: n - 12 * row, (1, 2)),
    Fault("negative", AT, lambda n, row: -3 * row, (1, 2)),
    Fault("least", AT, lambda n, row: -(2**63), (1, 2)),
    Fault("part-of-a-row", AT, lambda n, row: n + 1, (1, 2)),
    Fault("longer-than-s-max", AT, lambda n, row: n + 12 * row, (1, 2)),
    Fault("far", AT, lambda n, row: 2**40 * row, (1, 2)),
    Fault("largest", AT, lambda n, row: 2**63 - 1, (1, 2)),
    # A product with the size of an element or with a row's that passes 2^63 comes back as 0.
    Fault("wraps-around", AT, lambda n, row: 2**62, (1, 2)),
    Fault("last-far", 4, lambda n, row: 2**40 * row, (3,)),
    Fault("disagreeing", AT, lambda n, row: n - row, (1, 2), ("o", "stats", "v"), False),
    Fault("negative-length", AT, lambda n, row: -1, (2,), LENGTHS, False),
    Fault("length-beyond-block", AT, lambda n, row: n + 4, (2,), LENGTHS, False),
    Fault("far-length", AT, lambda n, row: 2**62, (2,), LENGTHS, False),
]
SINGLE = [(fault, tensor) for fault in FAULTS for tensor in fault.tensors]


def name_of(part: Any) -> str:
    """Of a fault or a tensor, in a test's name."""
    return part if isinstance(part, str) else str(part.name)


def index_tensor(sdpa: SdpaGraph, tensor: str) -> rd.TensorAttributes:
    """The tensor whose numbers a fault of ``tensor`` changes."""
    return sdpa.tensors[tensor] if tensor in LENGTHS else sdpa.offsets[tensor][0]


def put(fault: Fault, tensor: str, sdpa: SdpaGraph, pack: dict[Any, Any]) -> None:
    """Change the numbers of a host pack."""
    numbers = pack[index_tensor(sdpa, tensor)]
    row = 1 if tensor in LENGTHS else sdpa.offsets[tensor][1]
    numbers[fault.at] = fault.change(int(numbers[fault.at]), row)


def rows_of_batch(problem: Problem, batch: int) -> slice:
    """The rows of O that belong to a batch, slack included."""
    start = problem.side_q.starts[batch]
    return slice(start, start + problem.side_q.blocks[batch])


def host_message(sdpa: SdpaGraph, pack: dict[Any, Any]) -> str:
    """What the reference engine refuses the pack with; arrays by address, of unknown extent."""
    plan = sdpa.build("reference")
    try:
        plan.execute({tensor: address(array) for tensor, array in pack.items()})
    except rd.InvalidValueError as refusal:
        return str(refusal)
    raise AssertionError("the reference engine took bad offsets or lengths")


def address(value: Any) -> Any:
    """Of an array; a scalar as it is."""
    return value.ctypes.data if isinstance(value, np.ndarray) and value.ndim else value
