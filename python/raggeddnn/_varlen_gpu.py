"""``varlen.sdpa`` for arrays on a GPU, of which nothing is read, copied or waited for on the host.

Results and work space are torch's for torch tensors, on its current stream; else they are tensors
of ``raggeddnn.tensor`` and memory kept by the library, and the default stream is used.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import raggeddnn as rd

from . import _core
from ._arrays import (
    Operand,
    as_gpu_operand,
    check_torch_output,
    finite_scale,
    integer,
    invalid,
    is_torch,
    memory_at,
    note_written,
    share_memory,
)
from ._packed import bounds_of, check_form, check_output, check_rows, problem_of
from ._plans import build, capacity_of, data_type_of, is_token_major, plans
from .tensor import Tensor

_DEFAULT_STREAM = 0


@dataclass(frozen=True)
class Metadata:
    """Arguments of ``varlen.sdpa`` that are no arrays."""

    max_seqlen_q: Any
    max_seqlen_k: Any
    scale: Any
    causal: bool
    window_size: Any
    engine: str | None


def _rows(name: str, x: Any, device: str) -> Operand:
    operand = check_form(as_gpu_operand(name, x, device))
    if is_token_major(operand.shape, operand.strides, distinct=False):
        return operand
    if is_torch(x):
        return as_gpu_operand(name, x.contiguous(), device)
    raise invalid(
        f"{name} has shape {operand.shape} and strides {operand.strides} (in elements), expected "
        "rows one after another, each of contiguous heads: on a GPU nothing is copied"
    )


def _table(name: str, x: Any, size: int | None, device: str) -> Operand:
    """Cumulative or valid lengths; ``size`` None takes any but 0."""
    expected = "(batch + 1,)" if size is None else f"({size},)"
    if x is None:
        raise invalid(f"{name} is None, expected {expected} int32 or int64")
    table = as_gpu_operand(name, x, device)
    if table.dtype_name not in ("int32", "int64"):
        raise invalid(f"{name} has data type {table.dtype_name}, expected int32 or int64")
    has_size = len(table.shape) == 1 and table.shape[0] == (size or table.shape[0])
    if not has_size or table.shape[0] == 0:
        raise invalid(f"{name} has shape {table.shape}, expected {expected}")
    if table.shape[0] > 1 and table.strides[0] < 1:
        raise invalid(f"{name} has stride {table.strides[0]}, expected at least 1")
    return table


def _capacity(name: str, limit: Any, rows: int) -> int:
    """S_max: no block is longer than ``limit``, or than all rows."""
    if limit is None:
        return capacity_of(rows)
    limit = integer(name, limit)
    if limit < 0:
        raise invalid(f"{name} is {limit}, expected 0 or more")
    return capacity_of(limit)


def _tables(inputs: Mapping[str, Any], device: str) -> dict[str, Operand]:
    given = dict(inputs)
    cu_q = _table("cu_seqlens_q", given["cu_seqlens_q"], None, device)
    tables = {"cu_seqlens_q": cu_q}
    tables["cu_seqlens_k"] = _table("cu_seqlens_k", given["cu_seqlens_k"], cu_q.shape[0], device)
    batch = cu_q.shape[0] - 1
    missing = [side for side in "qk" if given[f"seqused_{side}"] is None]
    if batch == 0 or len(missing) == 2:
        return tables
    for side in missing:  # the graph takes lengths of both sides, or of none
        cu = given[f"cu_seqlens_{side}"]
        if not is_torch(cu):
            raise invalid(
                f"seqused_{side} is None and the other one is given, expected both or neither on a "
                "GPU: the lengths of blocks are not known on the host"
            )
        given[f"seqused_{side}"] = cu.diff()
    for side in "qk":
        name = f"seqused_{side}"
        tables[name] = _table(name, given[name], batch, device)
    return tables


def _check_output(
    out: Any, operand: Operand, q: Operand, shape: tuple[int, int, int], inputs: list[Operand]
) -> None:
    """Of the caller's ``out``."""
    check_output(operand, q, shape)
    if is_torch(out):
        check_torch_output(out)
    if operand.array.is_read_only:
        raise invalid("out is read-only, expected a writeable array")
    dense = (shape[1] * shape[2], shape[2], 1)
    pairs = zip(shape, operand.strides, dense, strict=True)
    if any(n > 1 and stride != wanted for n, stride, wanted in pairs):
        raise invalid(
            f"out has strides {operand.strides} (in elements), expected {dense}: on a GPU it is "
            "filled whole"
        )

    def memory(x: Operand) -> Any:
        return memory_at(x.address, x.shape, x.strides, _item_bytes(x))

    for x in inputs:
        if math.prod(x.shape) and math.prod(shape) and share_memory(memory(operand), memory(x)):
            raise invalid(f"out overlaps {x.name}, expected memory of its own")


def _item_bytes(x: Operand) -> int:
    return {"float64": 8, "int64": 8, "float32": 4, "int32": 4}.get(x.dtype_name, 2)


def _new(q: Any, shape: tuple[int, ...], dtype_name: str, device: str) -> Any:
    """An array of zeros."""
    if is_torch(q):
        return q.new_zeros(shape, dtype=getattr(sys.modules["torch"], dtype_name))
    return Tensor(shape, None, data_type_of(dtype_name) or rd.DataType.NOT_SET, device=device)


def _new_lse(q: Any, rows: int, heads: int, device: str) -> Any:
    """(H, total), -inf; in memory (total, H), as a ragged tensor has it."""
    if is_torch(q):
        torch = sys.modules["torch"]
        return q.new_full((rows, heads), -math.inf, dtype=torch.float32).T
    made = Tensor([heads, rows], [1, heads], rd.DataType.FLOAT, device=device)
    made.fill_with_value(-math.inf)
    return made


def sdpa_on_gpu(
    inputs: Mapping[str, Any], metadata: Metadata, return_lse: bool, out: Any, device: str
) -> Any:
    """``inputs``: q, k, v, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k by name."""
    given_q = inputs["q"]
    q, k, v = (_rows(name, inputs[name], device) for name in "qkv")
    check_rows(q, k, v)
    tables = _tables(inputs, device)
    capacities = {
        "q": _capacity("max_seqlen_q", metadata.max_seqlen_q, q.shape[0]),
        "k": _capacity("max_seqlen_k", metadata.max_seqlen_k, k.shape[0]),
    }
    bounds = bounds_of(metadata.causal, metadata.window_size)
    scale = finite_scale(metadata.scale, q)
    rows, heads = q.shape[0], q.shape[1]
    shape = (rows, heads, v.shape[2])
    batch = tables["cu_seqlens_q"].shape[0] - 1
    with _current_device(given_q):
        result = _new(given_q, shape, q.dtype_name, device) if out is None else out
        o = as_gpu_operand("out", result, device)
        if out is not None:
            _check_output(out, o, q, shape, [q, k, v, *tables.values()])
        arrays = {"q": q, "k": k, "v": v, "o": o}
        lse = _new_lse(given_q, rows, heads, device) if return_lse else None
        if lse is not None:
            address = as_gpu_operand("lse", lse, device).address
            arrays["lse"] = Operand("lse", lse, (rows, heads), (heads, 1), "float32", address)
        found = None
        if batch > 0 and rows > 0 and k.shape[0] > 0:
            batches = {side: (batch, capacities[side], f"cu_seqlens_{side}") for side in "qk"}
            settings = (bounds, metadata.engine, device)
            problem = problem_of(arrays, tables, batches, settings)
            index = (given_q.device.index or 0) if is_torch(given_q) else 0
            found = plans.get(replace(problem, device_index=index), build)
        if out is not None:
            _clear(out, o)
        if found is not None:
            pack: dict[rd.TensorAttributes, Any] = {found.tensors["scale"]: scale}
            for name, x in (*arrays.items(), *tables.items()):
                pack[found.tensors[name]] = x.address
            _execute(found.plan, pack, given_q)
    note_written(out)
    return result if lse is None else (result, lse)


def _current_device(q: Any) -> contextlib.AbstractContextManager[Any]:
    """torch's tensors may be on any of its devices."""
    if not is_torch(q):
        return contextlib.nullcontext()
    found: contextlib.AbstractContextManager[Any] = sys.modules["torch"].cuda.device(q.device)
    return found


def _clear(out: Any, operand: Operand) -> None:
    """Rows of no sequence hold 0 afterwards, and which these are is not known here."""
    if is_torch(out):
        out.zero_()
    elif operand.address and math.prod(operand.shape):
        size = math.prod(operand.shape) * _item_bytes(operand)
        _core.fill_gpu_with_zeros(operand.address, size, _DEFAULT_STREAM)


def _execute(plan: rd.ExecutionPlan, pack: dict[rd.TensorAttributes, Any], q: Any) -> None:
    if not is_torch(q):
        plan.execute(pack)
        return
    torch = sys.modules["torch"]
    workspace = torch.empty(max(plan.workspace_size, 1), dtype=torch.uint8, device=q.device)
    plan.execute(pack, workspace, torch.cuda.current_stream(q.device))
