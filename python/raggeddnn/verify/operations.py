"""Operations beyond attention as subjects: each with its oracle; dense, some ragged as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import raggeddnn as rd

from ..testing import batchnorm, linear, norms, pointwise
from ..testing.cases import numpy_dtype
from ..testing.op_graphs import (
    GRAPH_TYPES,
    OpGraph,
    Oracle,
    Ragged,
    expected_outputs,
    random_array,
)
from ..testing.oracle import Array
from ..testing.tolerance import Expected
from .subject import Call, Subject, VerifyCase, in_memory, split_pack

LENS = (3, 0, 5)
MATMULS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "plain": ((3, 5), (5, 4)),
    "batched": ((2, 3, 5), (2, 5, 4)),
    "broadcast": ((2, 1, 3, 5), (3, 5, 4)),
    "nothing-to-sum": ((2, 3, 4, 0), (2, 3, 0, 2)),
}
REDUCED: tuple[tuple[int, ...], ...] = ((0, 1, 2, 3), (1, 3))
RAGGED_REDUCTIONS: dict[tuple[int, ...], str] = {
    (3,): "along each ragged row",
    (2,): "over the rows of each sequence, one of them empty",
    (0, 2): "over the rows of all sequences",
}


@dataclass
class _Operation:
    """A graph, and the oracle of its outputs with what that takes (of ragged tensors the rows)."""

    op: OpGraph
    oracle: Oracle
    inputs: Mapping[str, Array]
    gradient: bool = False
    is_symmetric: bool = True

    def subject(self) -> Subject:
        for name, tensor in self.op.outputs.items():
            tensor.set_name(name)
        self.op.graph.validate()  # infers dims, strides and types
        found = expected_outputs(
            self.oracle,
            self.inputs,
            {name: _dtype(tensor) for name, tensor in self.op.outputs.items()},
            gradient=self.gradient,
            is_symmetric=self.is_symmetric,
        )
        inputs, scalars = split_pack(self.op.pack())
        expected = {
            tensor: self._in_memory(tensor, found[name]) for name, tensor in self.op.outputs.items()
        }
        call = Call(inputs, expected, scalars)  # each time in memory of its own
        return Subject(self.op.graph, [call, call])

    def _in_memory(self, tensor: rd.TensorAttributes, expected: Expected) -> Expected:
        if tensor.get_ragged_offset() is not None:
            return in_memory(expected, lambda rows: rows)
        dims, strides = tensor.get_dim(), tensor.get_stride()
        return in_memory(expected, lambda array: _strided(array, dims, strides))


def _dtype(tensor: rd.TensorAttributes) -> np.dtype[Any]:
    kind = tensor.get_data_type()
    return numpy_dtype(next(name for name, known in GRAPH_TYPES.items() if known == kind))


def _strided(array: Array, dims: list[int], strides: list[int]) -> Array:
    """The memory of a dense tensor; gaps hold 0."""
    span = 1 + sum((n - 1) * s for n, s in zip(dims, strides, strict=True))
    memory = np.zeros(span if all(dims) else 0, array.dtype)
    steps = [s * memory.itemsize for s in strides]
    np.lib.stride_tricks.as_strided(memory, dims, steps)[...] = array.reshape(dims)
    return memory


def _case(name: str, about: str, make: Callable[[], _Operation]) -> VerifyCase:
    return VerifyCase(name, about, lambda: make().subject())


def _matmul(shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: str) -> _Operation:
    rng = np.random.default_rng(1)
    a, b = (random_array(rng, shape, dtype) for shape in shapes)
    return _Operation(linear.matmul_graph(a, b), linear.matmul_oracle, {"a": a, "b": b})


def _matmuls(dtype: str) -> Iterator[VerifyCase]:
    for name, shapes in MATMULS.items():
        about = f"{dtype}, {list(shapes[0])} times {list(shapes[1])}"
        yield _case(f"matmul/{name}-{dtype}", about, partial(_matmul, shapes, dtype))
    about = f"{dtype}, ragged rows of a and c"
    yield _case(f"matmul/ragged-rows-{dtype}", about, partial(_matmul_of_rows, dtype))
    about = f"{dtype}, a sum over the ragged rows of b"
    yield _case(f"matmul/over-ragged-rows-{dtype}", about, partial(_matmul_over_rows, dtype))


def _ragged(shape: tuple[int, int], dtype: str, seed: int = 1) -> Ragged:
    return Ragged.random(np.random.default_rng(seed), LENS, shape, dtype, unit=1)


def _valid(ragged: Ragged) -> Array:
    return ragged.rows[: sum(LENS)]


def _matmul_of_rows(dtype: str) -> _Operation:
    a, b = _ragged((2, 4), dtype), random_array(np.random.default_rng(2), (4, 8), dtype)
    inputs = {"a": _valid(a), "b": b}
    return _Operation(linear.matmul_graph(a, b), linear.matmul_oracle, inputs)


def _matmul_over_rows(dtype: str) -> _Operation:
    a, b = random_array(np.random.default_rng(2), (6, max(LENS)), dtype), _ragged((2, 4), dtype)

    def oracle(a: Array, b: Array) -> dict[str, Array]:
        parts = np.split(b, np.cumsum(LENS)[:-1])
        return {"c": np.stack([np.matmul(a[:, : len(x)], np.swapaxes(x, 0, 1)) for x in parts])}

    inputs = {"a": a, "b": _valid(b)}
    return _Operation(linear.matmul_graph(a, b), oracle, inputs, is_symmetric=False)


def _reduction(mode: rd.ReductionMode, axes: tuple[int, ...], dtype: str) -> _Operation:
    x = random_array(np.random.default_rng(1), (2, 3, 4, 5), dtype)
    x[0, 0, 0, 0] = 0

    def oracle(x: Array) -> dict[str, Array]:
        return {"y": linear.REDUCTIONS[mode](x, axis=axes, keepdims=True)}

    return _Operation(linear.reduction_graph(mode, x, axes), oracle, {"x": x})


def _ragged_reduction(mode: rd.ReductionMode, axes: tuple[int, ...], dtype: str) -> _Operation:
    x = _ragged((2, 4), dtype)

    def over_rows(part: Array) -> Array:  # (S, H, D) to [H, 1, D]
        if len(part) == 0:
            return np.full((part.shape[1], 1, part.shape[2]), linear.NOTHING[mode], part.dtype)
        return np.swapaxes(linear.REDUCTIONS[mode](part, axis=0, keepdims=True), 0, 1)

    def oracle(x: Array) -> dict[str, Array]:
        if 2 not in axes:  # rows are kept
            return {"y": linear.REDUCTIONS[mode](x, axis=2, keepdims=True)}
        parts = [x] if 0 in axes else np.split(x, np.cumsum(LENS)[:-1])
        return {"y": np.stack([over_rows(part) for part in parts])}

    op = linear.reduction_graph(mode, x, axes)
    return _Operation(op, oracle, {"x": _valid(x)}, is_symmetric=False)


def _reductions(dtype: str) -> Iterator[VerifyCase]:
    for mode in linear.REDUCTIONS:
        for axes in REDUCED:
            name = f"{mode.name.lower()}-{''.join(map(str, axes))}-{dtype}"
            about = f"{dtype}, {mode.name} over axes {list(axes)} of [2, 3, 4, 5]"
            yield _case(f"reduction/{name}", about, partial(_reduction, mode, axes, dtype))
        for axes, what in RAGGED_REDUCTIONS.items():
            name = f"reduction/{mode.name.lower()}-ragged-{''.join(map(str, axes))}-{dtype}"
            about = f"{dtype}, {mode.name} {what}"
            yield _case(name, about, partial(_ragged_reduction, mode, axes, dtype))


def _one_input(mode: rd.PointwiseMode, dtype: str, ragged: bool) -> _Operation:
    shape = (sum(LENS), 2, 4) if ragged else (3, 4, 5)
    x = random_array(np.random.default_rng(1), shape, dtype)
    if mode in pointwise.POSITIVE:
        x = (np.abs(x) + x.dtype.type(0.25)).astype(x.dtype)
    op = pointwise.pointwise_graph(mode, Ragged(x, LENS) if ragged else x)
    return _Operation(op, lambda a: {"out": pointwise.UNARY[mode](a)}, {"a": x})


def _two_inputs(mode: rd.PointwiseMode, dtype: str, ragged: bool) -> _Operation:
    rng = np.random.default_rng(2)
    shape = (sum(LENS), 2, 4) if ragged else (3, 4, 5)
    a, b = random_array(rng, shape, dtype), random_array(rng, shape, dtype)
    is_gradient = mode.name.endswith("_BWD")
    if not ragged and not is_gradient:
        b = b[0, :, :1]
    arrays = (Ragged(a, LENS), Ragged(b, LENS)) if ragged else (a, b)
    op = pointwise.pointwise_graph(mode, *arrays)

    def oracle(a: Array, b: Array) -> dict[str, Array]:
        return {"out": pointwise.BINARY[mode](*np.broadcast_arrays(a, b))}

    return _Operation(op, oracle, {"a": a, "b": b}, gradient=is_gradient)


def _pointwises(dtype: str) -> Iterator[VerifyCase]:
    for modes, make in ((pointwise.UNARY, _one_input), (pointwise.BINARY, _two_inputs)):
        for mode in modes:
            for ragged in (False, True):
                layout = "ragged" if ragged else "dense"
                name = f"pointwise/{mode.name.lower()}-{layout}-{dtype}"
                about = f"{dtype}, {layout}, {mode.name}"
                yield _case(name, about, partial(make, mode, dtype, ragged))


def _norm_arrays(dtype: str, ragged: bool) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays as the oracle takes them, and as the graph does."""
    if not ragged:
        arrays = norms.inputs_of((2, 3, 4, 5), (1, 1, 1, 5), dtype)
        arrays["dy"] = random_array(np.random.default_rng(2), (2, 3, 4, 5), dtype)
        return arrays, dict(arrays)
    given: dict[str, Any] = norms.inputs_of((sum(LENS), 2, 4), (1, 1, 1, 4), dtype)
    given["dy"] = random_array(np.random.default_rng(2), (sum(LENS), 2, 4), dtype)
    rows = {name: x if x.ndim == 3 else x.reshape(1, 1, 4) for name, x in given.items()}
    for name in ("x", "dy"):
        given[name] = Ragged(given[name], LENS)
    return rows, given


def _norm_forward(layer: bool, dtype: str, ragged: bool) -> _Operation:
    rows, given = _norm_arrays(dtype, ragged)
    names = ("x", "scale", "bias")
    op = norms.forward_graph(
        {name: given[name] for name in names},
        layer=layer,
        phase=rd.NormFwdPhase.INFERENCE if ragged else norms.TRAINING,
    )
    oracle = partial(norms.forward_oracle, layer=layer)
    return _Operation(op, oracle, {name: rows[name] for name in names})


def _norm_backward(layer: bool, dtype: str, ragged: bool) -> _Operation:
    rows, given = _norm_arrays(dtype, ragged)
    names = ("dy", "x", "scale")
    inputs = {name: given[name] for name in names}
    if not layer:
        wide = {name: rows[name].astype(np.float64) for name in ("x", "scale")}
        inverse = norms.statistics(wide["x"], wide["scale"], layer)[2]
        stored = np.float64 if dtype == "float64" else np.float32
        inputs["inverse"] = (_by_sequence(inverse) if ragged else inverse).astype(stored)
    oracle = partial(norms.backward_oracle, layer=layer)
    op = norms.backward_graph(inputs, layer=layer)
    return _Operation(op, oracle, {name: rows[name] for name in names}, gradient=True)


def _by_sequence(rows: Array) -> Array:
    """Numbers of rows (T, H, 1) as a dense [B, H, S, 1]; rows that are none hold NaN."""
    dense = np.full((len(LENS), rows.shape[1], max(LENS), 1), np.nan)
    for batch, (start, count) in enumerate(zip(np.cumsum([0, *LENS]), LENS, strict=False)):
        dense[batch, :, :count] = np.swapaxes(rows[start : start + count], 0, 1)
    return dense


def _norms(dtype: str) -> Iterator[VerifyCase]:
    for op, layer in (("rmsnorm", False), ("layernorm", True)):
        for suffix, make in (("", _norm_forward), ("_backward", _norm_backward)):
            for ragged in (False, True):
                layout = "ragged" if ragged else "dense"
                about = f"{dtype}, {layout}, over the last axis"
                name = f"{op}{suffix}/{layout}-{dtype}"
                yield _case(name, about, partial(make, layer, dtype, ragged))


BATCHNORM_SHAPE = (2, 3, 4, 5)
RAGGED_TOKEN = (2, 4)


def _ragged_channels(inputs: dict[str, Array], dtype: str, names: Sequence[str]) -> Any:
    """Ragged tensors of those names, and the others for their channels H: as the graph takes them,
    and as the oracle does, to which all rows are one dense tensor (T, H, D).
    """
    given: dict[str, Any] = dict(inputs)
    for seed, name in enumerate(names):
        given[name] = _ragged(RAGGED_TOKEN, dtype, seed)
    rows = {
        name: _valid(x) if isinstance(x, Ragged) else x.reshape(1, -1, 1)
        for name, x in given.items()
    }
    return given, rows


def _batchnorm_ragged(dtype: str, form: str) -> _Operation:
    inputs = batchnorm.inputs_of((1, RAGGED_TOKEN[0], 1, 1), dtype)
    given, rows = _ragged_channels(inputs, dtype, ("x",))
    if form == "training":
        return _Operation(batchnorm.training_graph(given), batchnorm.training_oracle, rows)
    op = batchnorm.inference_graph(given, form)
    return _Operation(op, batchnorm.inference_oracle(form), rows)


def _batchnorm_training(dtype: str, last: bool) -> _Operation:
    inputs = batchnorm.inputs_of(BATCHNORM_SHAPE, dtype)
    if last:
        memory = np.ascontiguousarray(inputs["x"].transpose(0, 2, 3, 1))
        inputs["x"] = memory.transpose(0, 3, 1, 2)
    return _Operation(batchnorm.training_graph(inputs), batchnorm.training_oracle, inputs)


def _batchnorm_inference(dtype: str, form: str) -> _Operation:
    inputs = batchnorm.inputs_of(BATCHNORM_SHAPE, dtype)
    op = batchnorm.inference_graph(inputs, form)
    return _Operation(op, batchnorm.inference_oracle(form), inputs)


def _batchnorm_backward(dtype: str, ragged: bool) -> _Operation:
    shape = (1, RAGGED_TOKEN[0], 1, 1) if ragged else BATCHNORM_SHAPE
    inputs = batchnorm.inputs_of(shape, dtype, running=False)
    given = rows = {**inputs, "dy": random_array(np.random.default_rng(2), shape, dtype)}
    if ragged:
        given, rows = _ragged_channels(inputs, dtype, ("x", "dy"))
    wide = {name: rows[name].astype(np.float64) for name in inputs}
    trained = batchnorm.training_oracle(**wide)
    stored = "float64" if dtype == "float64" else "float32"
    of_channels = given["scale"].shape
    saved = {k: trained[k].reshape(of_channels).astype(stored) for k in ("mean", "inverse")}
    names = ("dy", "x", "scale")
    op = batchnorm.backward_graph({**{name: given[name] for name in names}, **saved})
    taken = {name: rows[name] for name in names}
    return _Operation(op, batchnorm.backward_oracle, taken, gradient=True)


def _batchnorms(dtype: str) -> Iterator[VerifyCase]:
    for last in (False, True):
        order = "last" if last else "first"
        yield _case(
            f"batchnorm/channels-{order}-{dtype}",
            f"{dtype}, training, channels {order}, with running statistics",
            partial(_batchnorm_training, dtype, last),
        )
    for form in ("inverse", "variance"):
        yield _case(
            f"batchnorm_inference/{form}-{dtype}",
            f"{dtype}, given the {form}",
            partial(_batchnorm_inference, dtype, form),
        )
    for form in ("training", "inverse", "variance"):
        op = "batchnorm" if form == "training" else "batchnorm_inference"
        about = f"{dtype}, ragged, {form if op == 'batchnorm' else f'given the {form}'}"
        suffix = "" if op == "batchnorm" else f"{form}-"
        name = f"{op}/{suffix}ragged-{dtype}"
        yield _case(name, about, partial(_batchnorm_ragged, dtype, form))
    for ragged in (False, True):
        layout = "ragged" if ragged else "dense"
        yield _case(
            f"batchnorm_backward/{layout}-{dtype}",
            f"{dtype}, {layout}, given mean and inverse deviation",
            partial(_batchnorm_backward, dtype, ragged),
        )


def operation_cases(dtypes: tuple[str, ...]) -> Iterator[VerifyCase]:
    """The cases of every operation but attention, in these data types."""
    for dtype in dtypes:
        for cases in (_matmuls, _pointwises, _reductions, _norms, _batchnorms):
            yield from cases(dtype)
