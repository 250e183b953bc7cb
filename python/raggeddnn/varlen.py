"""Attention of packed sequences in one call.

The sequences of a batch lie one after another in (total, H, D) arrays, and cumulative lengths say
where each begins: no padding is stored or computed. A call becomes a graph whose ragged tensors use
the caller's arrays and offsets as they are; its plan is kept and serves every later call of the
same shape, whatever the lengths and the scale.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import raggeddnn as rd

from ._arrays import (
    Array,
    Operand,
    as_operand,
    check_writable,
    finite_scale,
    flag,
    gpu_of,
    integer,
    integers,
    invalid,
    note_written,
)
from ._packed import bounds_of, check_form, check_output, check_rows, problem_of
from ._plans import build, capacity_of, is_token_major, plans


def clear_plan_cache() -> None:
    """Forget all plans, for instance after adding an engine that should be chosen from now on."""
    plans.clear()


def _rows(name: str, x: Any) -> Operand:
    """A (total, H, D) argument as a ragged tensor can address it, copied only if its strides forbid
    it.
    """
    operand = check_form(as_operand(name, x))
    is_direct = is_token_major(operand.shape, operand.strides, distinct=False)
    return operand if is_direct else operand.contiguous()


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
        """S_max that holds the longest block."""
        return capacity_of(int(self.blocks.max(initial=0)))

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


def _output(
    out: Any, q: Operand, shape: tuple[int, int, int], inputs: Mapping[str, Any]
) -> Operand:
    """The caller's ``out``, checked, or a new array of q's library."""
    if out is None:
        return as_operand("out", q.new(shape))
    operand = as_operand("out", out)
    check_output(operand, q, shape)
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
        q: (total_q, Hq, D). k: (total_k, Hk, D). v: (total_k, Hv, Dv). Arrays of one data type
            (float16, bfloat16, float32, float64) with NumPy, torch or DLPack memory. Hk and Hv each
            divide Hq; query head h reads key head ``h // (Hq // Hk)``. Rows may be strided, as a
            slice of packed QKV is; other strides cost a copy, or are refused (on a GPU, but for
            torch).
        cu_seqlens_q, cu_seqlens_k: (B + 1,) int32 or int64, in rows: sequence b owns the rows
            ``[cu[b], cu[b+1])``. They start at 0, never decrease, and end within the arrays.
        seqused_q, seqused_k: (B,) how many rows of each block are valid, from its start. None: all.
        max_seqlen_q, max_seqlen_k: if given, checked as upper bounds of the valid lengths; on a GPU
            taken for them, and for those of the blocks.
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
    their lse -inf. torch tensors give torch tensors (no gradient is recorded), others NumPy arrays,
    or on a GPU a :class:`raggeddnn.tensor.Tensor`.

    Arrays on a GPU (torch, DLPack, ``__cuda_array_interface__``) are all on the same one, lengths
    included, of which nothing is read, copied or waited for on the host: a wrong length shows in
    the results of its sequence alone. Without a ``max_seqlen`` it is the number of rows; both
    ``seqused`` or neither are given, but for torch. The work is on torch's current stream, else on
    the default one.

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
    device = gpu_of(q)
    if device is not None:
        from ._varlen_gpu import Metadata, sdpa_on_gpu

        metadata = Metadata(max_seqlen_q, max_seqlen_k, scale, causal, window_size, engine)
        return sdpa_on_gpu(inputs, metadata, return_lse, out, device)
    rows_q, rows_k, rows_v = _rows("q", q), _rows("k", k), _rows("v", v)
    check_rows(rows_q, rows_k, rows_v)
    side_q, side_k = _sides(
        rows_q,
        rows_k,
        (cu_seqlens_q, cu_seqlens_k),
        (seqused_q, seqused_k),
        (max_seqlen_q, max_seqlen_k),
    )
    bounds, scale_value = bounds_of(causal, window_size), finite_scale(scale, rows_q)
    total, heads = rows_q.shape[0], rows_q.shape[1]
    target = _output(out, rows_q, (total, heads, rows_v.shape[2]), inputs)
    direct = is_token_major(target.shape, target.strides, distinct=True)
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
    integers: dict[str, Array] = {}
    for side in sides:
        integers[f"cu_seqlens_{side.name}"] = side.cu
        if side.used is not None:
            integers[f"seqused_{side.name}"] = side.used
    tables = {name: as_operand(name, array) for name, array in integers.items()}
    batches = {
        side.name: (side.cu.size - 1, side.capacity, f"cu_seqlens_{side.name}") for side in sides
    }
    arrays = dict(zip(("q", "k", "v", "o"), rows, strict=True))
    if lse is not None:
        arrays["lse"] = lse
    problem = problem_of(arrays, tables, batches, (bounds, engine, "cpu"))
    found = plans.get(problem, build)
    pack: dict[rd.TensorAttributes, Any] = {found.tensors["scale"]: scale}
    for name, x in (*arrays.items(), *tables.items()):
        pack[found.tensors[name]] = x.array
    found.plan.execute(pack)
