"""Graphs of single operations: run, measure against an oracle, and differentiate.

An oracle is a NumPy function of arrays that computes in the type it is given: in a wide type it is
the standard, in that of the inputs (float32 for half types) it is the plain computation from which
the tolerance derives, in two orders of summation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import raggeddnn as rd
from raggeddnn.testing.cases import numpy_dtype
from raggeddnn.testing.checks import is_reference
from raggeddnn.testing.tolerance import error_bound, first_violation

Array = np.ndarray[Any, np.dtype[Any]]
Tensors = dict[str, rd.TensorAttributes]
Make = Callable[[rd.Graph, Tensors], Tensors]
Oracle = Callable[..., dict[str, Array]]

REAL_TYPES = ("float64", "float32", "float16", "bfloat16")
GRAPH_TYPES = {
    "float64": rd.DataType.DOUBLE,
    "float32": rd.DataType.FLOAT,
    "float16": rd.DataType.HALF,
    "bfloat16": rd.DataType.BFLOAT16,
    "int64": rd.DataType.INT64,
    "int32": rd.DataType.INT32,
    "int8": rd.DataType.INT8,
    "uint8": rd.DataType.UINT8,
    "bool": rd.DataType.BOOLEAN,
}
SLACK = 3  # rows of a ragged buffer past the last sequence
# Offsets in elements, of two sequences of at most one row of 8, and the index that is wrong.
BAD_OFFSETS = [([1, 8, 16], 0), ([0, 8, 4], 2), ([0, 7, 16], 1), ([0, 8, 24], 2)]


def graph_type(array: Array) -> rd.DataType:
    return GRAPH_TYPES[array.dtype.name]


def random_array(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> Array:
    return rng.standard_normal(tuple(shape)).astype(numpy_dtype(dtype))


@dataclass
class Ragged:
    """Rows (T, H, D) of sequences laid end to end, as one tensor [B, H, S, D].

    Tensors of one ``table`` share a table of offsets, whose unit is ``unit`` rows, or one element.
    """

    rows: Array
    lens: tuple[int, ...]
    unit: int | None = None
    index: str = "int64"
    table: str = "off"
    max_rows: int | None = None  # the longest sequence, unless given

    @property
    def width(self) -> int:
        return int(np.prod(self.rows.shape[1:]))

    @property
    def multiplier(self) -> int:
        return 1 if self.unit is None else self.unit * self.width

    @property
    def offsets(self) -> Array:
        starts = np.concatenate([[0], np.cumsum(self.lens)]).astype(self.index)
        if self.unit is None:
            return (starts * self.width).astype(self.index)
        assert (starts % self.unit == 0).all()
        return starts // self.unit

    @property
    def dims(self) -> list[int]:
        _, heads, width = self.rows.shape
        return [len(self.lens), heads, self.max_rows or max(*self.lens, 1), width]

    @classmethod
    def random(
        cls,
        rng: np.random.Generator,
        lens: tuple[int, ...],
        token: tuple[int, int],
        dtype: str,
        **more: Any,
    ) -> Ragged:
        """Tokens (H, D), and NaN past the last sequence."""
        rows = random_array(rng, (sum(lens) + SLACK, *token), dtype)
        rows[sum(lens) :] = np.nan
        return cls(rows, lens, **more)

    def split(self) -> list[Array]:
        """The rows of each sequence, (S, H, D)."""
        return np.split(self.rows[: sum(self.lens)], np.cumsum(self.lens)[:-1])


@dataclass
class OpGraph:
    """One graph, its inputs and its outputs; outputs not given dims get them from validation."""

    make: Make
    inputs: Mapping[str, Array | Ragged]
    types: Mapping[str, str] = field(default_factory=dict)  # of outputs; else that of the first
    scalars: Mapping[str, Any] = field(default_factory=dict)  # name -> a call g -> tensor

    def __post_init__(self) -> None:
        first = next(iter(self.inputs.values()))
        array = first.rows if isinstance(first, Ragged) else first
        self.dtype = array.dtype
        wide = rd.DataType.DOUBLE if self.dtype == np.float64 else rd.DataType.FLOAT
        self.graph = rd.Graph(
            io_data_type=graph_type(array), intermediate_data_type=wide, compute_data_type=wide
        )
        self.tensors: Tensors = {}
        self.tables: Tensors = {}  # of offsets
        for name, value in self.inputs.items():
            self.tensors[name] = self._add(name, value)
        for name, scalar in self.scalars.items():
            self.tensors[name] = scalar(self.graph)
        self.outputs = self.make(self.graph, self.tensors)
        for name, tensor in self.outputs.items():
            tensor.set_output(True)
            if name in self.types:
                tensor.set_data_type(GRAPH_TYPES[self.types[name]])
            elif self.dtype == np.float64:
                tensor.set_data_type(rd.DataType.DOUBLE)

    def _add(self, name: str, value: Array | Ragged) -> rd.TensorAttributes:
        if isinstance(value, Ragged):
            if value.table not in self.tables:
                self.tables[value.table] = self.graph.tensor(
                    name=value.table,
                    dim=[len(value.lens) + 1, 1, 1, 1],
                    data_type=GRAPH_TYPES[value.index],
                )
            return self.graph.tensor(
                name=name,
                dim=value.dims,
                data_type=graph_type(value.rows),
                ragged_offset=self.tables[value.table],
                ragged_offset_multiplier=value.multiplier,
            )
        stride = [s // value.itemsize for s in value.strides]
        return self.graph.tensor(
            name=name, dim=list(value.shape), stride=stride, data_type=graph_type(value)
        )

    def build(self, engine: str) -> rd.ExecutionPlan:
        """The plan; a refusal skips the test, but the reference engine refuses nothing."""
        try:
            return self.graph.build(engine=engine)
        except rd.NotSupportedError as refusal:
            if is_reference(engine):
                raise
            pytest.skip(f"{engine} refuses: {refusal}")

    def run(
        self,
        plan: rd.ExecutionPlan,
        inputs: Mapping[str, Array | Ragged] | None = None,
        values: Mapping[str, Any] | None = None,
        fill: float = 77.0,
    ) -> dict[str, Array]:
        """Outputs by name; ragged ones as rows (T + SLACK, H, D), prefilled."""
        given = {**self.inputs, **(inputs or {})}
        pack = self._pack(given)
        for name, number in (values or {}).items():
            pack[self.tensors[name]] = number
        by_uid = {t.get_uid(): memory for t, memory in pack.items()}
        results: dict[str, Array] = {}
        for name, tensor in self.outputs.items():
            shape = tuple(tensor.get_dim())
            if aux := self._raggedness(tensor).get("ragged_offset_tensor_uid"):
                _, heads, _, width = shape
                multiplier = self._raggedness(tensor).get("ragged_offset_multiplier", 1)
                elements = int(by_uid[aux][-1]) * multiplier
                shape = (elements // tensor.get_stride()[2] + SLACK, heads, width)
            dtype = next(k for k, v in GRAPH_TYPES.items() if v == tensor.get_data_type())
            results[name] = np.full(shape, fill, dtype=numpy_dtype(dtype))
            pack[tensor] = results[name]
        plan.execute(pack)
        return results

    def assert_refused(
        self, plan: rd.ExecutionPlan, message: str, tables: Mapping[str, Array]
    ) -> None:
        """Fail unless these offsets raise ``message`` and nothing was written."""
        pack = self._pack(self.inputs)
        for name, offsets in tables.items():
            pack[{**self.tensors, **self.tables}[name]] = offsets
        memory = []
        for tensor in self.outputs.values():
            dtype = next(k for k, v in GRAPH_TYPES.items() if v == tensor.get_data_type())
            memory.append(np.full(4096, 5, dtype=numpy_dtype(dtype)))
            pack[tensor] = memory[-1]
        with pytest.raises(rd.InvalidValueError, match=message):
            plan.execute(pack)
        assert all((array == 5).all() for array in memory)

    def _pack(self, given: Mapping[str, Array | Ragged]) -> dict[rd.TensorAttributes, Any]:
        pack: dict[rd.TensorAttributes, Any] = {}
        for name, value in given.items():
            if isinstance(value, Ragged):
                pack[self.tables[value.table]] = value.offsets
            pack[self.tensors[name]] = value.rows if isinstance(value, Ragged) else value
        return pack

    def _raggedness(self, tensor: rd.TensorAttributes) -> dict[str, Any]:
        """A tensor of the built graph as JSON: its inferred offsets are not shown otherwise."""
        tensors: list[dict[str, Any]] = json.loads(self.graph.to_json())["tensors"]
        return next(t for t in tensors if t["uid"] == tensor.get_uid())


def _wider(array: Array, of_double: type, of_others: type) -> type:
    return of_double if array.dtype == np.float64 else of_others


def assert_close(
    got: Mapping[str, Array],
    oracle: Oracle,
    inputs: Mapping[str, Array],
    *,
    gradient: bool = False,
    is_symmetric: bool = True,
) -> None:
    """Fail unless every output keeps the bound derived from its type and a plain computation.

    ``is_symmetric``: reversing every axis of the inputs reverses the outputs, which gives the plain
    computation another order of summation.
    """
    wide = {name: a.astype(_wider(a, np.longdouble, np.float64)) for name, a in inputs.items()}
    narrow = {name: a.astype(_wider(a, np.float64, np.float32)) for name, a in inputs.items()}
    turned = {name: np.flip(a) for name, a in narrow.items()}
    with np.errstate(all="ignore"):
        expected = oracle(**wide)
        plain = [oracle(**narrow)]
        if is_symmetric:
            plain.append({k: np.flip(v) for k, v in oracle(**turned).items()})
    for name, values in got.items():
        want = np.asarray(expected[name])
        stored = [np.asarray(results[name]).astype(values.dtype) for results in plain]
        bound = error_bound(want, stored, values.dtype, gradient=gradient)
        axes = tuple(f"axis{i}" for i in range(want.ndim))
        found = first_violation(name, axes, values, want, bound)
        assert found is None, found


def difference_quotients(loss: Callable[[Array], float], at: Array) -> tuple[Array, Array]:
    """The gradient of ``loss`` by central differences, and how far it may lie from the truth.

    The bound is what two steps disagree by, which the error of the smaller one stays below, plus
    the rounding of the loss over the step.
    """
    eps = np.finfo(np.float64).eps
    step = float(eps ** (1 / 3))
    gradient, bound = np.zeros(at.shape), np.zeros(at.shape)
    for index in np.ndindex(at.shape):
        estimates, size = [], 0.0
        for h in (step, 2 * step):
            values = []
            for sign in (1, -1):
                moved = at.copy()
                moved[index] += sign * h
                values.append(loss(moved))
            estimates.append((values[0] - values[1]) / (2 * h))
            size = max(size, *map(abs, values))
        gradient[index] = estimates[0]
        # Sums of the loss round at most once per term, some hundred terms.
        bound[index] = abs(estimates[0] - estimates[1]) + 100 * eps * (size + 1) / step
    return gradient, bound
