"""Attention of jagged nested tensors: their values are packed rows, their offsets cumulative
lengths.
"""

from __future__ import annotations

import torch
from torch import Tensor

import raggeddnn as rd

from ._arguments import draw_seeds
from ._ops import varlen
from ._varlen import block_limit

CALLER = "scaled_dot_product_attention"


def _invalid(text: str) -> rd.InvalidValueError:
    return rd.InvalidValueError(f"[{CALLER}] {text}")


def _check(name: str, x: Tensor) -> None:
    if not x.is_nested or x.layout != torch.jagged:
        raise _invalid(f"{name} is no jagged nested tensor, expected all three to be")
    if x.dim() != 4 or x._ragged_idx != 2:
        raise _invalid(
            f"{name} is a nested tensor of {x.dim()} axes, ragged in axis {x._ragged_idx}, "
            "expected [B, H, j, D], made by transposing [B, j, H, D]"
        )


def _same(a: Tensor | None, b: Tensor | None) -> bool:
    """Host memory is compared; on a device only the same tensor is known to be equal."""
    if a is b:
        return True
    return a is not None and b is not None and a.is_cpu and b.is_cpu and torch.equal(a, b)


def _longest(x: Tensor) -> int:
    """What no sequence of [B, H, j, D] exceeds: the tensor's own statement, else the offsets where
    reading them stops neither a device nor a compilation, else all rows.
    """
    known: int | None = x._maybe_max_seqlen
    rows = x.values().transpose(0, 1)
    if known is None:
        is_readable = x.is_cpu and not torch.compiler.is_compiling()
        known = x._get_max_seqlen() if is_readable else rows.shape[0]
    return block_limit(known, x.lengths(), rows)


def attention(
    tensors: tuple[Tensor, Tensor, Tensor],
    scale: float,
    right: int,
    dropout: float,
    enable_gqa: bool,
) -> Tensor:
    """The jagged nested [B, H, j, Dv] result. ``right``: top-left bound, negative is open."""
    query, key, value = tensors
    for name, x in zip(("query", "key", "value"), tensors, strict=True):
        _check(name, x)
    if not _same(key.offsets(), value.offsets()) or not _same(key.lengths(), value.lengths()):
        raise _invalid("key and value have different offsets or lengths, expected the same")
    if query.shape[0] != key.shape[0]:
        raise _invalid(f"key has batch {key.shape[0]}, query {query.shape[0]}")
    for name, x in (("key", key), ("value", value)):
        if not enable_gqa and x.shape[1] != query.shape[1]:
            raise _invalid(
                f"{name} has {x.shape[1]} heads, query {query.shape[1]}, expected as many"
            )
    # [H, total, D] lies in memory as the [total, H, D] that was transposed.
    rows = [x.values().transpose(0, 1) for x in tensors]
    lengths = (query.lengths(), key.lengths())
    out, _ = varlen(
        *rows,
        query.offsets(),
        key.offsets(),
        *lengths,
        draw_seeds(rows[0]) if dropout > 0 else None,
        _longest(query),
        _longest(key),
        scale,
        -1,
        right,
        True,
        dropout,
        False,
        CALLER,
    )
    nested = torch.nested.nested_tensor_from_jagged(
        out,
        query.offsets(),
        query.lengths(),
        min_seqlen=query._maybe_min_seqlen,
        max_seqlen=query._maybe_max_seqlen,
    )
    return nested.transpose(1, 2)
