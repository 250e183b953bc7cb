"""Attention of packed sequences under the names of flash-attn and of torch.nn.attention.varlen."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import raggeddnn as rd

from . import _ops, _statements
from ._arguments import (
    bounds_of,
    checked_dropout,
    checked_scale,
    draw_seeds,
    explain,
    not_supported,
)


def block_limit(longest: int, used: Tensor | None, rows: Tensor) -> int:
    """What no block of rows exceeds: its longest length where whole blocks are valid, else, on a
    device, whose offsets the host does not read, all rows. On the CPU blocks are looked at.
    """
    return longest if used is None or rows.is_cpu else rows.shape[0]


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Tensor | None = None,
) -> Any:
    """Attention of a batch of packed sequences, with gradients.

    Arguments:
        q: (total_q, Hq, D). k: (total_k, Hk, D). v: (total_k, Hv, Dv). One data type (float16,
            bfloat16, float32, float64). Hk and Hv each divide Hq. Rows may be strided, as a slice
            of packed QKV is; other strides cost a copy.
        cu_seqlens_q, cu_seqlens_k: (B + 1,) int32 or int64, in rows, used where they are: sequence
            b owns the rows ``[cu[b], cu[b+1])``.
        max_seqlen_q, max_seqlen_k: at least the longest lengths. A plan serves lengths up to the
            next power of two, so both exact values and a fixed capacity build few plans.
        dropout_p: probability of dropping an attention weight, in [0, 1). The mask comes from a
            seed drawn from PyTorch's default generator of the device, so ``torch.manual_seed``
            reproduces it, and is the same in the backward pass.
        softmax_scale: multiplies ``q.k``; None is ``1/sqrt(D)``.
        causal, window_size: keys visible (left, right) of the diagonal on which the last row and
            the last key of a sequence meet (bottom-right), both ends included; negative is open.
            ``causal`` sets the right side to 0.
        deterministic: the same gradients, bit by bit, for the same inputs, also from an engine for
            which that costs time. So does ``torch.use_deterministic_algorithms(True)``.
        return_attn_probs: also return the log-sum-exp.
        softcap, alibi_slopes, block_table: not supported unless left at their defaults.

    Returns out (total_q, Hq, Dv), or ``(out, softmax_lse, None)`` with softmax_lse (Hq, total_q)
    float32, natural logarithm, without dropout; its gradient counts. Rows that see no key, and rows
    past ``cu_seqlens_q[-1]``, are exactly 0 in out and all gradients, their softmax_lse -inf.

    Raises ``raggeddnn.InvalidValueError`` (a ValueError) naming argument, index, what was got and
    expected, before anything is written: of CPU tensors; nothing of a device tensor is read on the
    host. ``raggeddnn.NotSupportedError`` where no engine can run it, or for an argument above.

    Source: flash-attn 2, ``flash_attn_varlen_func``.
    """
    caller = "flash_attn_varlen_func"
    if softcap != 0.0:
        raise not_supported(caller, f"softcap is {softcap}, expected 0")
    if alibi_slopes is not None:
        raise not_supported(caller, "alibi_slopes is given, expected None")
    if block_table is not None:
        raise not_supported(caller, "block_table is given, expected None")
    try:
        left, right = bounds_of(caller, window_size)
        philox = draw_seeds(q) if checked_dropout(caller, dropout_p) else None
        out, lse = _ops.varlen(
            q,
            k,
            v,
            cu_seqlens_q,
            cu_seqlens_k,
            None,
            None,
            philox,
            max_seqlen_q,
            max_seqlen_k,
            _ops.default_scale(q)
            if softmax_scale is None
            else checked_scale(caller, "softmax_scale", softmax_scale, q),
            left,
            0 if causal else right,
            False,
            dropout_p,
            deterministic,
            caller,
        )
    except Exception:
        named = {"q": q, "k": k, "v": v}
        tables = {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k}
        limits = {"max_seqlen_q": max_seqlen_q, "max_seqlen_k": max_seqlen_k}
        explain(caller, {**named, **tables}, {}, limits)
        raise
    if not return_attn_probs:
        return out
    return out, lse if lse.dtype == torch.float32 else lse.float(), None


def varlen_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: Any = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Any:
    """Attention of a batch of packed sequences, with gradients.

    Arguments:
        query: (T_q, Hq, D). key: (T_k, Hkv, D). value: (T_k, Hkv, Dv). As q, k, v of
            :func:`flash_attn_varlen_func`, also float32 and float64.
        cu_seq_q, cu_seq_k: (N + 1,) int32 or int64: sequence b owns the rows ``[cu[b], cu[b+1])``.
        max_q, max_k: at least the longest lengths.
        return_aux: an object whose ``lse`` is true, as torch's ``AuxRequest(lse=True)``, asks for
            the log-sum-exp.
        scale: multiplies ``query.key``; None is ``1/sqrt(D)``.
        window_size: keys visible (left, right) of the diagonal, bottom-right: the last row and the
            last key of a sequence meet. (-1, 0) is causal.
        enable_gqa: lets Hkv be a divisor of Hq; without it they must be equal.
        seqused_k: (N,) how many keys of each sequence are valid, from its start. Here it may be
            used in training: unused keys get gradients of exactly 0.
        block_table: not supported unless None.
        num_splits: a hint; every engine gives a sequence the same bits in any batch.

    Returns out (T_q, Hq, Dv), or ``(out, lse)`` with lse (Hq, T_q) float32, natural logarithm: the
    shape that torch's op gives. Dead rows and errors are as in :func:`flash_attn_varlen_func`.

    Source: ``torch.nn.attention.varlen.varlen_attn`` of PyTorch 2.13.
    """
    caller = "varlen_attn"
    if block_table is not None:
        raise not_supported(caller, "block_table is given, expected None")
    if cu_seq_k is None:
        raise rd.InvalidValueError(f"[{caller}] cu_seq_k is None, expected int32 or int64")
    try:
        with_lse = return_aux is not None and return_aux.lse
    except AttributeError as error:
        raise rd.InvalidValueError(
            f"[{caller}] return_aux is {return_aux!r}, expected None or an object with lse, as "
            "torch's AuxRequest(lse=True)"
        ) from error
    try:
        heads, heads_k = query.shape[1], key.shape[1]
        if not enable_gqa and heads != heads_k:
            raise rd.InvalidValueError(
                f"[{caller}] key has {heads_k} heads, query has {heads}, expected as many without "
                "enable_gqa=True"
            )
        left, right = bounds_of(caller, window_size)
        out, lse = _ops.varlen(
            query,
            key,
            value,
            cu_seq_q,
            cu_seq_k,
            None,
            seqused_k,
            None,
            max_q,
            block_limit(max_k, seqused_k, key),
            _ops.default_scale(query)
            if scale is None
            else checked_scale(caller, "scale", scale, query),
            left,
            right,
            False,
            0.0,
            False,
            caller,
        )
    except Exception as error:
        named = {"query": query, "key": key, "value": value}
        tables = {"cu_seq_q": cu_seq_q, "cu_seq_k": cu_seq_k}
        limits = {"max_q": max_q, "max_k": max_k}
        explain(caller, {**named, **tables}, {"seqused_k": seqused_k}, limits)
        if isinstance(error, IndexError):
            _statements.check_data(caller, query, key, value)
        raise
    if not with_lse:
        return out
    return out, lse if lse.dtype == torch.float32 else lse.float()
