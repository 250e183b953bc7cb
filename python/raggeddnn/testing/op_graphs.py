"""Graphs of single operations: run, measure against an oracle, and differentiate.

An oracle is a NumPy function of arrays that computes in the type it is given: in a wide type it is
the standard, in that of the inputs (float32 for half types) it is the plain computation from which
the tolerance derives, in two orders of summation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import raggeddnn as rd

from .cases import numpy_dtype
from .oracle import Array
from .tolerance import Expected, error_bound, first_violation

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

    def build(self, engine: str | None = None) -> rd.ExecutionPlan:
        """The plan; raises ``rd.NotSupportedError`` when the engine refuses the graph."""
        return self.graph.build(engine=engine)

    def run(
        self,
        plan: rd.ExecutionPlan,
        inputs: Mapping[str, Array | Ragged] | None = None,
        values: Mapping[str, Any] | None = None,
        fill: float = 77.0,
    ) -> dict[str, Array]:
        """Outputs by name; ragged ones as rows (T + SLACK, H, D), prefilled."""
        pack = self.pack(inputs)
        for name, number in (values or {}).items():
            pack[self.tensors[name]] = number
        by_uid = {t.get_uid(): memory for t, memory in pack.items()}
        results: dict[str, Array] = {}
        for name, tensor in self.outputs.items():
            shape = tuple(tensor.get_dim())
            if aux := tensor.get_ragged_offset():
                _, heads, _, width = shape
                last = int(by_uid[aux.get_uid()][-1])
                elements = last * tensor.get_ragged_offset_multiplier()
                shape = (elements // tensor.get_stride()[2] + SLACK, heads, width)
            dtype = next(k for k, v in GRAPH_TYPES.items() if v == tensor.get_data_type())
            results[name] = np.full(shape, fill, dtype=numpy_dtype(dtype))
            pack[tensor] = results[name]
        plan.execute(pack)
        return results

    def pack(
        self, inputs: Mapping[str, Array | Ragged] | None = None
    ) -> dict[rd.TensorAttributes, Any]:
        """The part of the variant pack that is read; ``inputs`` take the place of those given."""
        pack: dict[rd.TensorAttributes, Any] = {}
        for name, value in {**self.inputs, **(inputs or {})}.items():
            if isinstance(value, Ragged):
                pack[self.tables[value.table]] = value.offsets
            pack[self.tensors[name]] = value.rows if isinstance(value, Ragged) else value
        return pack


def _converted(arrays: Mapping[str, Array], of_double: type, of_others: type) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for name, array in arrays.items():
        found[name] = array.astype(of_double if array.dtype == np.float64 else of_others)
    return found


def expected_outputs(
    oracle: Oracle,
    inputs: Mapping[str, Array],
    types: Mapping[str, np.dtype[Any]],
    *,
    gradient: bool = False,
    is_symmetric: bool = True,
) -> dict[str, Expected]:
    """What each output in ``types`` (its data type by name) should be, and the bounds derived from
    that type and a plain computation.

    ``is_symmetric``: reversing every axis of the inputs reverses the outputs, which gives the plain
    computation another order of summation.
    """
    wide = _converted(inputs, np.longdouble, np.float64)
    narrow = _converted(inputs, np.float64, np.float32)
    turned = {name: np.flip(a) for name, a in narrow.items()}
    with np.errstate(all="ignore"):
        results = oracle(**wide)
        plain = [oracle(**narrow)]
        if is_symmetric:
            plain.append({k: np.flip(v) for k, v in oracle(**turned).items()})
    found = {}
    for name, dtype in types.items():
        values = np.asarray(results[name])
        stored = [np.asarray(computed[name]).astype(dtype) for computed in plain]
        found[name] = Expected(values, error_bound(values, stored, dtype, gradient=gradient))
    return found


def assert_close(
    got: Mapping[str, Array],
    oracle: Oracle,
    inputs: Mapping[str, Array],
    *,
    gradient: bool = False,
    is_symmetric: bool = True,
) -> None:
    """Fail unless every output keeps the bounds of :func:`expected_outputs`."""
    types = {name: values.dtype for name, values in got.items()}
    expected = expected_outputs(oracle, inputs, types, gradient=gradient, is_symmetric=is_symmetric)
    for name, want in expected.items():
        axes = tuple(f"axis{i}" for i in range(want.values.ndim))
        found = first_violation(name, axes, got[name], want.values, want.bounds)
        if found is not None:
            raise AssertionError(found)


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
