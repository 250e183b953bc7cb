"""Attention problems as graphs, and the plans kept for them.

A :class:`Problem` states all that a plan depends on, and is the key that its plan is kept under.
Lengths, offsets, totals, the scale and the seeds of dropout are given at execute.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import raggeddnn as rd

PLAN_CACHE_SIZE = 256

_DATA_TYPES = {
    "float16": "HALF",
    "bfloat16": "BFLOAT16",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "int32": "INT32",
    "int64": "INT64",
}
FLOATS = ("float16", "bfloat16", "float32", "float64")
_INPUTS = ("q", "k", "v", "bias")


def data_type_of(dtype_name: str) -> rd.DataType | None:
    """The graph's data type for a name like ``float32``; None for types attention does not take."""
    found = _DATA_TYPES.get(dtype_name)
    return None if found is None else getattr(rd.DataType, found)


def capacity_of(longest: int) -> int:
    """S_max for sequences of at most so many rows: the power of two that few plans are built for.

    >>> [capacity_of(n) for n in (0, 1, 5, 64)]
    [1, 1, 8, 64]
    """
    return 1 << max(longest - 1, 0).bit_length()


def row_strides(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """(row, head) strides of a (total, H, D) array with those of axes of size 1, which mean
    nothing, made canonical.
    """
    rows, heads, dim = shape
    head = strides[1] if heads > 1 else dim
    span = (heads - 1) * head + dim
    return (strides[0] if rows > 1 else span), head


def is_token_major(shape: Sequence[int], strides: Sequence[int], *, distinct: bool) -> bool:
    """Can a ragged tensor address this (total, H, D) array: each row one run, rows one after
    another?

    ``distinct`` asks also that no two heads share memory, as an output must.
    """
    _, heads, dim = shape
    row, head = row_strides(shape, strides)
    if (dim > 1 and strides[2] != 1) or head < (dim if distinct else 0):
        return False
    return row >= (heads - 1) * head + dim


@dataclass(frozen=True)
class Memory:
    """What a plan depends on in a [B,H,S,D] tensor. Strides in elements, alignment in bytes.

    ``offsets`` names the table of cumulative lengths of a ragged tensor; "" is a dense one.
    """

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    dtype_name: str
    alignment: int
    offsets: str = ""

    @staticmethod
    def of_rows(
        shape: Sequence[int],
        strides: Sequence[int],
        kind: tuple[str, int],
        batch: tuple[int, int, str],
    ) -> Memory:
        """That of a (total, H, D) array. ``kind``: data type and alignment; ``batch``: how many
        sequences, their capacity, and the table of their offsets.
        """
        count, capacity, offsets = batch
        row, head = row_strides(shape, strides)
        dims = (count, shape[1], capacity, shape[2])
        return Memory(dims, (capacity * row, head, row, 1), *kind, offsets)


@dataclass(frozen=True)
class Integers:
    """A table of INT32 or INT64: cumulative lengths, lengths, or one number."""

    name: str
    count: int
    dtype_name: str
    alignment: int
    stride: int = 1


@dataclass(frozen=True)
class Problem:
    """One attention call. ``memory`` has q, k, v, bias and o, lse; with do also dlse, dq, dk, dv,
    dbias, and the problem is the backward one. Bounds None are open; plans are for one device of
    its kind; ``is_deterministic`` asks the engine for the same bits for the same inputs where that
    is not so by itself.
    """

    memory: tuple[tuple[str, Memory], ...]
    integers: tuple[Integers, ...]
    bounds: tuple[int | None, int | None]
    is_bottom_right: bool = True
    dropout: float = 0.0
    engine: str | None = None
    device: str = "cpu"
    device_index: int = 0
    is_deterministic: bool = False


@dataclass(frozen=True)
class BuiltPlan:
    """A plan and its tensors by name; ``scale`` is a run-time scalar among them."""

    plan: rd.ExecutionPlan
    tensors: dict[str, rd.TensorAttributes]

    def uid(self, name: str) -> int | None:
        tensor = self.tensors.get(name)
        return None if tensor is None else tensor.get_uid()


T = TypeVar("T")


class PlanCache(Generic[T]):
    """The plans used last, at most ``size``; safe to use from several threads."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._plans: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = threading.Lock()
        self.builds = 0

    def find(self, key: Hashable) -> T | None:
        """The plan kept under ``key``, which counts as used now; None when there is none."""
        with self._lock:
            found = self._plans.get(key)
            if found is not None:
                self._plans.move_to_end(key)
            return found

    def add(self, key: Hashable, built: T) -> T:
        """Keep a plan, dropping the one not used for longest when there are too many."""
        with self._lock:
            self.builds += 1
            self._plans[key] = built
            while len(self._plans) > self._size:
                self._plans.popitem(last=False)
        return built

    def get(self, key: Any, build: Callable[[Any], T]) -> T:
        """The plan of ``key``, built if there is none. A slow build holds up nobody: two threads
        may build equal plans, which does no harm.
        """
        found = self.find(key)
        return self.add(key, build(key)) if found is None else found

    def clear(self) -> None:
        with self._lock:
            self._plans.clear()

    def __len__(self) -> int:
        return len(self._plans)


plans: PlanCache[BuiltPlan] = PlanCache(PLAN_CACHE_SIZE)


class _Builder:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.memory = dict(problem.memory)
        self.is_backward = "do" in self.memory
        io_name = self.memory["q"].dtype_name
        self.compute = rd.DataType.DOUBLE if io_name == "float64" else rd.DataType.FLOAT
        self.graph = rd.Graph(
            name="sdpa_backward" if self.is_backward else "sdpa",
            io_data_type=data_type_of(io_name) or rd.DataType.NOT_SET,
            intermediate_data_type=self.compute,
            compute_data_type=self.compute,
        )
        self.tensors: dict[str, rd.TensorAttributes] = {}

    def build(self) -> BuiltPlan:
        for table in self.problem.integers:
            self.tensors[table.name] = self.graph.tensor(
                name=table.name,
                dim=[table.count, 1, 1, 1],
                stride=[table.stride, 1, 1, 1],
                data_type=data_type_of(table.dtype_name),
                alignment=table.alignment,
            )
        # A run-time parameter without a value: each call brings one, and no scale needs its own
        # plan.
        scale = rd.TensorAttributes().set_name("scale").set_dim([1]).set_stride([1])
        scale.set_data_type(self.compute).set_as_runtime_parameter()
        self.tensors["scale"] = self.graph.tensor(scale)
        for name in (*_INPUTS, *(("o", "do", "lse", "dlse") if self.is_backward else ())):
            if name in self.memory:
                self.add_input(name)
        if self.is_backward:
            self.add_backward()
        else:
            self.add_forward()
        problem = self.problem
        handle = None if problem.device == "cpu" else rd.Handle(device=problem.device)
        knobs = {"deterministic": True} if problem.is_deterministic else None
        plan = self.graph.build(handle, engine=problem.engine, knobs=knobs)
        return BuiltPlan(plan, self.tensors)

    def add_input(self, name: str) -> None:
        x = self.memory[name]
        ragged: dict[str, Any] = {}
        if x.offsets:
            ragged["ragged_offset"] = self.tensors[x.offsets]
            ragged["ragged_offset_multiplier"] = x.strides[2]
        self.tensors[name] = self.graph.tensor(
            name=name,
            dim=list(x.dims),
            stride=list(x.strides),
            data_type=data_type_of(x.dtype_name),
            alignment=x.alignment,
            **ragged,
        )

    def set_output(self, name: str, tensor: rd.TensorAttributes) -> None:
        x = self.memory[name]
        tensor.set_name(name).set_output(True).set_alignment(x.alignment)
        tensor.set_data_type(data_type_of(x.dtype_name) or rd.DataType.NOT_SET)
        tensor.set_dim(list(x.dims)).set_stride(list(x.strides))
        if x.offsets:
            tensor.set_ragged_offset(self.tensors[x.offsets])
            tensor.set_ragged_offset_multiplier(x.strides[2])
        self.tensors[name] = tensor

    def options(self) -> dict[str, Any]:
        problem = self.problem
        alignments = rd.DiagonalAlignment
        return {
            "attn_scale": self.tensors["scale"],
            "bias": self.tensors.get("bias"),
            "seq_len_q": self.tensors.get("seqused_q") or self.tensors.get("seq_len_q"),
            "seq_len_kv": self.tensors.get("seqused_k") or self.tensors.get("seq_len_kv"),
            "diagonal_alignment": (
                alignments.BOTTOM_RIGHT if problem.is_bottom_right else alignments.TOP_LEFT
            ),
            "left_bound": problem.bounds[0],
            "right_bound": problem.bounds[1],
            "dropout_probability": problem.dropout or None,
            "seed": self.tensors.get("seed"),
            "offset": self.tensors.get("offset"),
            "name": self.graph.name,
        }

    def add_forward(self) -> None:
        q, k, v = (self.tensors[name] for name in ("q", "k", "v"))
        o, stats = self.graph.sdpa(q, k, v, generate_stats="lse" in self.memory, **self.options())
        self.set_output("o", o)
        if stats is not None:
            self.set_output("lse", stats)

    def add_backward(self) -> None:
        results = self.graph.sdpa_backward(
            *(self.tensors[name] for name in ("q", "k", "v", "o", "do", "lse")),
            dstats=self.tensors.get("dlse"),
            generate_dbias="dbias" in self.memory,
            **self.options(),
        )
        for name, tensor in zip(("dq", "dk", "dv", "dbias"), results, strict=False):
            self.set_output(name, tensor)


def build(problem: Problem) -> BuiltPlan:
    """Raises ``rd.NotSupportedError`` when no engine can run the problem."""
    return _Builder(problem).build()
