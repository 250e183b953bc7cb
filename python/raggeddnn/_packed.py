"""What ``varlen.sdpa`` checks and states alike for arrays of the host and of a GPU."""

from __future__ import annotations

from collections.abc import Mapping

from ._arrays import Operand, integer, invalid
from ._plans import FLOATS, Integers, Memory, Problem

Bounds = tuple[int | None, int | None]
# A side's batch: how many sequences, their capacity, and the name of the table of their offsets.
Batches = Mapping[str, tuple[int, int, str]]


def check_form(x: Operand) -> Operand:
    """Of a (total, H, D) argument, given back."""
    if len(x.shape) != 3:
        raise invalid(f"{x.name} has shape {x.shape}, expected (total, heads, head_dim)")
    if x.shape[1] == 0 or x.shape[2] == 0:
        raise invalid(f"{x.name} has shape {x.shape}, expected at least one head and element")
    if x.dtype_name not in FLOATS:
        raise invalid(f"{x.name} has data type {x.dtype_name}, expected one of {FLOATS}")
    return x


def check_rows(q: Operand, k: Operand, v: Operand) -> None:
    """Of q, k and v together."""
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


def bounds_of(causal: bool, window_size: tuple[int, int]) -> Bounds:
    """Left and right bound; None is open. Causal closes the right side, whatever the window."""
    try:
        left, right = window_size
    except (TypeError, ValueError) as error:
        raise invalid(f"window_size is {window_size!r}, expected two integers") from error
    left, right = integer("window_size[0]", left), integer("window_size[1]", right)
    return (left if left >= 0 else None), (0 if causal else right if right >= 0 else None)


def check_output(out: Operand, q: Operand, shape: tuple[int, ...]) -> None:
    """Of an ``out`` that was given."""
    if out.shape != shape or out.dtype_name != q.dtype_name:
        raise invalid(
            f"out has shape {out.shape} and data type {out.dtype_name}, "
            f"expected {shape} and {q.dtype_name}"
        )


def _memory(x: Operand, batch: tuple[int, int, str]) -> Memory:
    """Of q, k, v, o (total, H, D) or the log-sum-exp (total, H) in a graph."""
    tail = (1,) * (3 - len(x.shape))
    kind = (x.dtype_name, x.alignment)
    return Memory.of_rows((*x.shape, *tail), (*x.strides, *tail), kind, batch)


def problem_of(
    arrays: Mapping[str, Operand],
    tables: Mapping[str, Operand],
    batches: Batches,
    settings: tuple[Bounds, str | None, str],
) -> Problem:
    """``arrays``: q, k, v, o, lse; ``tables``: cumulative and valid lengths; ``batches``: of "q"
    and "k"; ``settings``: bounds, engine, device.
    """
    bounds, engine, device = settings
    memory = {
        name: _memory(x, batches["k" if name in ("k", "v") else "q"]) for name, x in arrays.items()
    }
    integers = (
        Integers(name, x.shape[0], x.dtype_name, x.alignment, x.strides[0] if x.shape[0] > 1 else 1)
        for name, x in tables.items()
    )
    return Problem(
        memory=tuple(memory.items()),
        integers=tuple(integers),
        bounds=bounds,
        engine=engine,
        device=device,
    )
