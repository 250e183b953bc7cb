"""How many floating-point operations the ops do, for torch.utils.flop_counter.

Counted are the products of visible pairs of a row and a key, two operations per multiply-add:
forward q.k and p.v; backward q.k again, dO.v, and those of dQ, dK and dV. Softmax, masks and
dropout are not counted, as PyTorch does not. Where lengths cannot be read without waiting for a
device (and while tracing) every row is taken to have the longest length of keys.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula


def _readable(*tables: Tensor | None) -> bool:
    return all(x is None or (type(x) is Tensor and x.is_cpu) for x in tables)


def visible_pairs(rows: int, keys: int, bounds: tuple[int, int], is_top_left: bool) -> int:
    """Pairs of one sequence: key c is visible to row r for ``r + offset - left <= c <= r + offset +
    right``; negative bounds are open.

    >>> visible_pairs(3, 5, (-1, 0), True), visible_pairs(3, 5, (-1, 0), False)
    (6, 12)
    """
    left, right = bounds
    at = torch.arange(rows) + (0 if is_top_left else keys - rows)
    end = (at + right + 1).clamp(0, keys) if right >= 0 else torch.full_like(at, keys)
    begin = (at - left).clamp(0, keys) if left >= 0 else torch.zeros_like(at)
    return int((end - begin).clamp(min=0).sum())


def _varlen_pairs(q: Tensor, tables: tuple[Any, ...], rest: tuple[Any, ...]) -> int:
    cu_q, cu_k, used_q, used_k, _ = tables
    _, max_k, _, left, right, is_top_left, *_ = rest
    if not _readable(*tables[:4]):
        return int(q.shape[0]) * int(max_k)
    lens_q = (cu_q.diff() if used_q is None else used_q).tolist()
    lens_k = (cu_k.diff() if used_k is None else used_k).tolist()
    return sum(
        visible_pairs(rows, keys, (left, right), is_top_left)
        for rows, keys in zip(lens_q, lens_k, strict=True)
    )


def _dense_pairs(q: Tensor, k: Tensor, lengths: tuple[Any, Any], rest: tuple[Any, ...]) -> int:
    _, left, right, is_top_left, *_ = rest
    batch, rows, keys = int(q.shape[0]), int(q.shape[2]), int(k.shape[2])
    if not _readable(*lengths):
        return batch * rows * keys
    used_q, used_k = (
        [most] * batch if x is None else x.tolist()
        for x, most in zip(lengths, (rows, keys), strict=True)
    )
    return sum(
        visible_pairs(n, m, (left, right), is_top_left) for n, m in zip(used_q, used_k, strict=True)
    )


def _forward(q: Tensor, v: Tensor, pairs: int) -> int:
    return 2 * int(q.shape[1]) * pairs * (int(q.shape[-1]) + int(v.shape[-1]))


def _backward(q: Tensor, v: Tensor, pairs: int) -> int:
    return 2 * int(q.shape[1]) * pairs * (3 * int(q.shape[-1]) + 2 * int(v.shape[-1]))


def _varlen_forward(q: Tensor, k: Tensor, v: Tensor, *rest: Any, **_: Any) -> int:
    return _forward(q, v, _varlen_pairs(q, rest[:5], rest[5:]))


def _varlen_backward(
    dout: Any, dlse: Any, q: Tensor, k: Tensor, v: Tensor, out: Any, lse: Any, *rest: Any, **_: Any
) -> int:
    return _backward(q, v, _varlen_pairs(q, rest[:5], rest[5:]))


def _dense_forward(q: Tensor, k: Tensor, v: Tensor, bias: Any, *rest: Any, **_: Any) -> int:
    return _forward(q, v, _dense_pairs(q, k, (rest[0], rest[1]), rest[3:]))


def _dense_backward(
    dout: Any, dlse: Any, q: Tensor, k: Tensor, v: Tensor, bias: Any, *rest: Any, **_: Any
) -> int:
    lengths, options = (rest[2], rest[3]), rest[6:]
    return _backward(q, v, _dense_pairs(q, k, lengths, options))


def register() -> None:
    """Tell PyTorch; the ops must be defined."""
    ops = torch.ops.raggeddnn
    for packet, formula in (
        (ops.varlen_fwd, _varlen_forward),
        (ops.varlen_bwd, _varlen_backward),
        (ops.dense_fwd, _dense_forward),
        (ops.dense_bwd, _dense_backward),
    ):
        register_flop_formula(packet, get_raw=True)(formula)
