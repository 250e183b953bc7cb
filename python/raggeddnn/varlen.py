"""Attention of packed sequences in one call.

The sequences of a batch lie one after another in (total, H, D) arrays, and cumulative lengths say
where each begins: no padding is stored or computed. A call becomes a graph whose ragged tensors use
the caller's arrays and offsets as they are; its plan is kept and serves every later call of the
same shape, whatever the lengths and the scale.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import raggeddnn as rd

from ._arrays import (
    Array,
    Operand,
    as_operand,
    check_writable,
    data_type_of,
    finite_scale,
    flag,
    integer,
    integers,
    invalid,
    note_written,
)

PLAN_CACHE_SIZE = 64
_FLOATS = ("float16", "bfloat16", "float32", "float64")


def _row_strides(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    """(row, head) strides with those of axes of size 1, which mean nothing, made canonical."""
    rows, heads, dim = shape
    head = strides[1] if heads > 1 else dim
    span = (heads - 1) * head + dim
    return (strides[0] if rows > 1 else span), head


def _is_token_major(x: Operand, *, distinct: bool) -> bool:
    """Can a ragged tensor address this (total, H, D) array: each row one run, rows one after
    another?

    ``distinct`` asks also that no two heads share memory, as an output must.
    """
    _, heads, dim = x.shape
    row, head = _row_strides(x.shape, x.strides)
    if (dim > 1 and x.strides[2] != 1) or head < (dim if distinct else 0):
        return False
    return row >= (heads - 1) * head + dim


def _rows(name: str, x: Any) -> Operand:
    """A (total, H, D) argument as a ragged tensor can address it, copied only if its strides forbid
    it.
    """
    operand = as_operand(name, x)
    if len(operand.shape) != 3:
        raise invalid(f"{name} has shape {operand.shape}, expected (total, heads, head_dim)")
    if operand.shape[1] == 0 or operand.shape[2] == 0:
        raise invalid(f"{name} has shape {operand.shape}, expected at least one head and element")
    if operand.dtype_name not in _FLOATS:
        raise invalid(f"{name} has data type {operand.dtype_name}, expected one of {_FLOATS}")
    return operand if _is_token_major(operand, distinct=False) else operand.contiguous()


def _check_rows(q: Operand, k: Operand, v: Operand) -> None:
    for x in (k, v):
        if x.dtype_name != q.dtype_name:
            raise invalid(f"{x.name} has data type {x.dtype_name}, q has {q.dtype_name}")
        if q.shape[1] % x.shape[1] != 0:
            raise invalid(
                f"{x.name} has {x.shape[1]} heads, expected a divisor of q's {q.shape[1]}"
            )
    if k.shape[2] != q.shape[2]:
        raise invalid(f"k has head_dim {k.shape[2]}, q has {q.shape[2]}")
    if v.shape[0] != k.shape[0]:
        raise invalid(f"v has {v.shape[0]} rows, k has {k.shape[0]}")


def _first(mask: Array) -> int:
    """The index of the first True, or -1."""
    return int(np.argmax(mask)) if mask.any() else -1


def _offsets(name: str, x: Any, rows: int, rows_name: str, size: int | None) -> Array:
    """Check cumulative lengths against the array they divide (contract, rule 15)."""
    cu = integers(name, x, size)
    if cu[0] != 0:
        raise invalid(f"{name}[0] is {cu[0]}, expected 0")
    at = _first(cu[1:] < cu[:-1])
    if at >= 0:
        raise invalid(f"{name}[{at + 1}] is {cu[at + 1]}, expected at least {cu[at]}")
    at = _first(cu > rows)
    if at >= 0:
        raise invalid(f"{name}[{at}] is {cu[at]}, expected at most {rows}, the rows of {rows_name}")
    return cu


def _used(name: str, x: Any, blocks: Array) -> Array:
    """Check valid lengths against the blocks that hold them."""
    used = integers(name, x, blocks.size)
    at = _first((used < 0) | (used > blocks))
    if at >= 0:
        raise invalid(f"{name}[{at}] is {used[at]}, expected 0 to {blocks[at]}, its block's rows")
    return used


def _check_max(name: str, limit: Any, side: _Side) -> None:
    if limit is None:
        return
    limit = integer(name, limit)
    if limit < 0:
        raise invalid(f"{name} is {limit}, expected 0 or more")
    at = _first(side.lens > limit)
    if at >= 0:
        whole = side.used is None
        source = f"cu_seqlens_{side.name}" if whole else f"seqused_{side.name}"
        place = f"index {at} and index {at + 1}" if whole else f"index {at}"
        raise invalid(
            f"{name} is {limit}, expected at least {side.lens[at]}, the length of sequence {at} "
            f"({source} at {place})"
        )


@dataclass(frozen=True)
class _Side:
    """Offsets and valid lengths of Q, or of K and V. ``used`` None: whole blocks are valid."""

    name: str
    cu: Array
    used: Array | None
    rows: int

    @property
    def blocks(self) -> Array:
        return np.diff(self.cu)

    @property
    def lens(self) -> Array:
        return self.blocks if self.used is None else self.used

    @property
    def capacity(self) -> int:
        """S_max: the longest block, rounded up to a power of two so that few plans are built."""
        longest = int(self.blocks.max(initial=0))
        return 1 << max(longest - 1, 0).bit_length()

    def with_used(self) -> _Side:
        """The same with explicit lengths."""
        used = self.blocks if self.used is None else self.used
        return _Side(self.name, self.cu, used, self.rows)

    def unwritten(self) -> list[slice]:
        """Runs of rows that no sequence owns: slack, and what lies past the last block."""
        runs = []
        if self.used is not None:
            for at in np.flatnonzero(self.used < self.blocks):
                runs.append(slice(int(self.cu[at] + self.used[at]), int(self.cu[at + 1])))
        if self.cu[-1] < self.rows:
            runs.append(slice(int(self.cu[-1]), self.rows))
        return runs


@dataclass(frozen=True)
class _RowTensor:
    """What a plan depends on in a (total, H, D) tensor. Strides in elements, alignment in bytes."""

    name: str
    heads: int
    dim: int
    strides: tuple[int, int]
    alignment: int

    @staticmethod
    def of(x: Operand) -> _RowTensor:
        return _RowTensor(
            x.name, x.shape[1], x.shape[2], _row_strides(x.shape, x.strides), x.alignment
        )


@dataclass(frozen=True)
class _Key:
    """All that a plan depends on; lengths, offsets, totals and the scale are given at execute."""

    batch: int
    capacities: tuple[int, int]
    rows: tuple[_RowTensor, ...]
    dtype_name: str
    integers: tuple[tuple[str, str, int], ...]
    bounds: tuple[int | None, int | None]
    with_lse: bool
    engine: str | None


@dataclass(frozen=True)
class _Plan:
    plan: rd.ExecutionPlan
    tensors: dict[str, rd.TensorAttributes]


class _PlanCache:
    """The plans used last, at most ``size``; safe to use from several threads."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._plans: OrderedDict[_Key, _Plan] = OrderedDict()
        self._lock = threading.Lock()
        self.builds = 0

    def get(self, key: _Key, build: Callable[[_Key], _Plan]) -> _Plan:
        with self._lock:
            found = self._plans.get(key)
            if found is not None:
                self._plans.move_to_end(key)
                return found
        # Built outside the lock: a slow build holds up nobody, and two equal ones do no harm.
        built = build(key)
        with self._lock:
            self.builds += 1
            self._plans[key] = built
            while len(self._plans) > self._size:
                self._plans.popitem(last=False)
        return built

    def clear(self) -> None:
        with self._lock:
            self._plans.clear()

    def __len__(self) -> int:
        return len(self._plans)


_plans = _PlanCache(PLAN_CACHE_SIZE)


def clear_plan_cache() -> None:
    """Forget all plans, for instance after adding an engine that should be chosen from now on."""
    _plans.clear()


def _add_rows(
    graph: rd.Graph, key: _Key, x: _RowTensor, aux: rd.TensorAttributes
) -> rd.TensorAttributes:
    """A ragged [B,H,S_max,D] input whose memory is the caller's (total, H, D) array."""
    capacity = key.capacities[0 if x.name == "q" else 1]
    row, head = x.strides
    return graph.tensor(
        name=x.name,
        dim=[key.batch, x.heads, capacity, x.dim],
        stride=[capacity * row, head, row, 1],
        data_type=data_type_of(key.dtype_name),
        alignment=x.alignment,
        ragged_offset=aux,
        ragged_offset_multiplier=row,
    )


def _set_output(
    tensor: rd.TensorAttributes, key: _Key, x: _RowTensor, aux: rd.TensorAttributes
) -> None:
    capacity = key.capacities[0]
    row, head = x.strides
    tensor.set_name(x.name).set_output(True).set_alignment(x.alignment)
    tensor.set_dim([key.batch, x.heads, capacity, x.dim])
    tensor.set_stride([capacity * row, head, row, 1])
    tensor.set_ragged_offset(aux).set_ragged_offset_multiplier(row)


def _build(key: _Key) -> _Plan:
    compute = rd.DataType.DOUBLE if key.dtype_name == "float64" else rd.DataType.FLOAT
    io_type = data_type_of(key.dtype_name) or rd.DataType.NOT_SET
    graph = rd.Graph(
        name="varlen_sdpa",
        io_data_type=io_type,
        intermediate_data_type=compute,
        compute_data_type=compute,
    )
    tensors: dict[str, rd.TensorAttributes] = {}
    for name, dtype_name, alignment in key.integers:
        tensors[name] = graph.tensor(
            name=name,
            dim=[key.batch + name.startswith("cu"), 1, 1, 1],
            stride=[1, 1, 1, 1],
            data_type=data_type_of(dtype_name),
            alignment=alignment,
        )
    aux_q, aux_kv = tensors["cu_seqlens_q"], tensors["cu_seqlens_k"]
    q, k, v, o = key.rows
    for x in (q, k, v):
        tensors[x.name] = _add_rows(graph, key, x, aux_q if x is q else aux_kv)
    # A run-time parameter without a value: each call brings one, and no scale needs its own plan.
    scale = rd.TensorAttributes().set_name("scale").set_dim([1]).set_stride([1])
    scale.set_data_type(compute).set_as_runtime_parameter()
    tensors["scale"] = graph.tensor(scale)
    o_tensor, stats = graph.sdpa(
        tensors["q"],
        tensors["k"],
        tensors["v"],
        attn_scale=tensors["scale"],
        seq_len_q=tensors.get("seqused_q"),
        seq_len_kv=tensors.get("seqused_k"),
        diagonal_alignment=rd.DiagonalAlignment.BOTTOM_RIGHT,
        left_bound=key.bounds[0],
        right_bound=key.bounds[1],
        generate_stats=key.with_lse,
        name="varlen_sdpa",
    )
    _set_output(o_tensor.set_data_type(io_type), key, o, aux_q)
    tensors["out"] = o_tensor
    if stats is not None:
        lse = _RowTensor("lse", q.heads, 1, (q.heads, 1), 4)
        _set_output(stats.set_data_type(rd.DataType.FLOAT), key, lse, aux_q)
        tensors["lse"] = stats
    return _Plan(graph.build(engine=key.engine), tensors)


def _bounds(causal: bool, window_size: tuple[int, int]) -> tuple[int | None, int | None]:
    """Left and right bound; None is open. Causal closes the right side, whatever the window."""
    try:
        left, right = window_size
    except (TypeError, ValueError) as error:
        raise invalid(f"window_size is {window_size!r}, expected two integers") from error
    left, right = integer("window_size[0]", left), integer("window_size[1]", right)
    return (left if left >= 0 else None), (0 if causal else right if right >= 0 else None)


def _output(
    out: Any, q: Operand, shape: tuple[int, int, int], inputs: Mapping[str, Any]
) -> Operand:
    """The caller's ``out``, checked, or a new array of q's library."""
    if out is None:
        return as_operand("out", q.new(shape))
    operand = as_operand("out", out)
    if operand.shape != shape or operand.dtype_name != q.dtype_name:
        raise invalid(
            f"out has shape {operand.shape} and data type {operand.dtype_name}, "
            f"expected {shape} and {q.dtype_name}"
        )
    check_writable(out, operand, inputs)
    return operand


def _sides(
    q: Operand, k: Operand, cu: tuple[Any, Any], seqused: tuple[Any, Any], limits: tuple[Any, Any]
) -> tuple[_Side, _Side]:
    """Check all metadata of a call; raises before anything is written."""
    cu_q = _offsets("cu_seqlens_q", cu[0], q.shape[0], "q", None)
    cu_k = _offsets("cu_seqlens_k", cu[1], k.shape[0], "k", cu_q.size)
    used_q = None if seqused[0] is None else _used("seqused_q", seqused[0], np.diff(cu_q))
    used_k = None if seqused[1] is None else _used("seqused_k", seqused[1], np.diff(cu_k))
    side_q, side_k = _Side("q", cu_q, used_q, q.shape[0]), _Side("k", cu_k, used_k, k.shape[0])
    for side, limit in ((side_q, limits[0]), (side_k, limits[1])):
        _check_max(f"max_seqlen_{side.name}", limit, side)
    if used_q is None and used_k is None:
        return side_q, side_k
    return side_q.with_used(), side_k.with_used()


def sdpa(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    *,
    seqused_q: Any = None,
    seqused_k: Any = None,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    return_lse: bool = False,
    out: Any = None,
    engine: str | None = None,
) -> Any:
    """Scaled dot-product attention of a batch of packed sequences, forward only.

    Arguments:
        q: (total_q, Hq, D). k: (total_k, Hk, D). v: (total_k, Hv, Dv). CPU arrays of one data type
            (float16, bfloat16, float32, float64) with NumPy, torch or DLPack memory. Hk and Hv each
            divide Hq; query head h reads key head ``h // (Hq // Hk)``. Rows may be strided, as a
            slice of packed QKV is; other strides cost a copy.
        cu_seqlens_q, cu_seqlens_k: (B + 1,) int32 or int64, in rows: sequence b owns the rows
            ``[cu[b], cu[b+1])``. They start at 0, never decrease, and end within the arrays.
        seqused_q, seqused_k: (B,) how many rows of each block are valid, from its start. None: all.
        max_seqlen_q, max_seqlen_k: if given, checked as upper bounds of the valid lengths.
        scale: multiplies ``q.k``; None is ``1/sqrt(D)``. Any finite real number, at most 3.4e38 in
            magnitude unless the data is float64; a new one needs no new plan.
        causal: hide later keys; the last query row and the last key of a sequence meet
            (bottom-right).
        window_size: keys visible (left, right) of the bottom-right diagonal, both ends included; a
            negative side is open. ``causal`` sets the right side to 0.
        return_lse: also return the log-sum-exp.
        out: (total_q, Hq, Dv) array to write to, of q's data type. Its memory overlaps neither
            itself nor an input; a torch tensor does not require grad.
        engine: an engine's name; None lets the library choose.

    Returns ``o`` (total_q, Hq, Dv), or ``(o, lse)`` with ``lse`` (Hq, total_q) float32, the natural
    logarithm. Rows that see no key, slack rows and rows past ``cu_seqlens_q[-1]`` are exactly 0,
    their lse -inf. torch tensors give torch tensors (no gradient is recorded), others NumPy arrays.

    Raises ``raggeddnn.InvalidValueError`` (a ValueError) naming the argument, the index, the value
    got and the one expected, before anything is written; ``raggeddnn.NotSupportedError`` when no
    engine can run it.

    Source: the calling convention of flash-attn's ``flash_attn_varlen_func``.
    """
    causal, return_lse = flag("causal", causal), flag("return_lse", return_lse)
    if engine is not None and not isinstance(engine, str):
        raise invalid(f"engine is {engine!r}, expected a name or None")
    inputs = {"q": q, "k": k, "v": v, "cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k}
    inputs |= {"seqused_q": seqused_q, "seqused_k": seqused_k}
    rows_q, rows_k, rows_v = _rows("q", q), _rows("k", k), _rows("v", v)
    _check_rows(rows_q, rows_k, rows_v)
    side_q, side_k = _sides(
        rows_q,
        rows_k,
        (cu_seqlens_q, cu_seqlens_k),
        (seqused_q, seqused_k),
        (max_seqlen_q, max_seqlen_k),
    )
    bounds, scale_value = _bounds(causal, window_size), finite_scale(scale, rows_q)
    total, heads = rows_q.shape[0], rows_q.shape[1]
    target = _output(out, rows_q, (total, heads, rows_v.shape[2]), inputs)
    direct = _is_token_major(target, distinct=True)
    written = target if direct else as_operand("out", target.new(target.shape))
    lse = as_operand("lse", rows_q.new((total, heads), "float32")) if return_lse else None

    if side_q.lens.max(initial=0) == 0 or side_k.lens.max(initial=0) == 0:
        written.array[:] = 0
        if lse is not None:
            lse.array[:] = -math.inf
    else:
        _run(
            (rows_q, rows_k, rows_v, written), lse, (side_q, side_k), (bounds, scale_value, engine)
        )
        for run in side_q.unwritten():
            written.array[run] = 0
            if lse is not None:
                lse.array[run] = -math.inf
    if not direct:
        target.array[:] = written.array
    note_written(out)
    result = target.array if out is None else out
    if lse is None:
        return result
    return result, as_operand("lse", lse.array.T).contiguous().array


def _run(
    rows: tuple[Operand, Operand, Operand, Operand],
    lse: Operand | None,
    sides: tuple[_Side, _Side],
    settings: tuple[tuple[int | None, int | None], float, str | None],
) -> None:
    """Find or build the plan and execute it on q, k, v and the output."""
    bounds, scale, engine = settings
    arrays: dict[str, Array] = {}
    for side in sides:
        arrays[f"cu_seqlens_{side.name}"] = side.cu
        if side.used is not None:
            arrays[f"seqused_{side.name}"] = side.used
    integers = {name: as_operand(name, array) for name, array in arrays.items()}
    key = _Key(
        batch=sides[0].cu.size - 1,
        capacities=(sides[0].capacity, sides[1].capacity),
        rows=tuple(_RowTensor.of(x) for x in rows),
        dtype_name=rows[0].dtype_name,
        integers=tuple((n, x.dtype_name, x.alignment) for n, x in integers.items()),
        bounds=bounds,
        with_lse=lse is not None,
        engine=engine,
    )
    found = _plans.get(key, _build)
    pack: dict[rd.TensorAttributes, Any] = {found.tensors["scale"]: scale}
    for x in (*rows, *integers.values(), *(() if lse is None else (lse,))):
        pack[found.tensors[x.name]] = x.array
    found.plan.execute(pack)
