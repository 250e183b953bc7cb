"""``scaled_dot_product_attention`` of dense, padded and nested tensors."""

from __future__ import annotations

import math

import torch
from torch import Tensor

import raggeddnn as rd

from . import _nested, _ops
from ._arguments import checked_dropout, checked_scale, draw_seeds, explain

CALLER = "scaled_dot_product_attention"


def _invalid(text: str) -> rd.InvalidValueError:
    return rd.InvalidValueError(f"[{CALLER}] {text}")


def _leading(q: Tensor, k: Tensor, v: Tensor, enable_gqa: bool) -> list[torch.Size]:
    """The axes before [S, D] of q, k and v after broadcasting; with GQA heads stay their own."""
    if min(q.dim(), k.dim(), v.dim()) < 2:
        raise _invalid("query, key and value have fewer than two axes, expected [..., S, D]")
    own = [x.shape[:-2] for x in (q, k, v)]
    try:
        if not enable_gqa:
            return [torch.broadcast_shapes(*own)] * 3
        if min(len(axes) for axes in own) == 0:
            raise _invalid("enable_gqa is True, expected tensors with an axis of heads")
        batch = torch.broadcast_shapes(*(axes[:-1] for axes in own))
        return [torch.Size((*batch, axes[-1])) for axes in own]
    except RuntimeError as error:
        if isinstance(error, rd.Error):
            raise
        shapes = [tuple(x.shape) for x in (q, k, v)]
        raise _invalid(
            f"query, key and value have shapes {shapes}, whose axes before the last two do not "
            "broadcast (enable_gqa=True lets key and value have fewer heads)"
        ) from error


def _as_four_axes(x: Tensor, leading: torch.Size) -> Tensor:
    """[..., S, D] expanded to its leading axes, as [B,H,S,D]."""
    x = x.expand(*leading, *x.shape[-2:])
    if x.dim() < 4:
        return x.reshape(*(1,) * (4 - x.dim()), *x.shape)
    return x if x.dim() == 4 else x.flatten(0, -4)


def _bias_of(mask: Tensor, q: Tensor, leading: torch.Size) -> Tensor:
    """An attn_mask as an additive bias of four axes, those it is broadcast over of size 1."""
    if mask.dtype == torch.bool:
        zero = torch.zeros((), dtype=q.dtype, device=mask.device)
        mask = torch.where(mask, zero, -math.inf)
    elif not mask.is_floating_point():
        raise _invalid(f"attn_mask has data type {mask.dtype}, expected bool or floating-point")
    axes = len(leading) + 2
    if mask.dim() > axes:
        raise _invalid(f"attn_mask has {mask.dim()} axes, expected at most {axes}")
    if mask.dim() <= 4 and axes <= 4:
        # Missing axes of the queries stand before the mask's own.
        return mask.reshape(*(1,) * (4 - mask.dim()), *mask.shape)
    mask = mask.reshape(*(1,) * (axes - mask.dim()), *mask.shape)
    return mask.expand(*leading[:-1], *mask.shape[-3:]).flatten(0, -4)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    seq_len_q: Tensor | None = None,
    seq_len_kv: Tensor | None = None,
) -> Tensor:
    """Attention of dense, padded or jagged nested tensors, with gradients.

    Arguments:
        query: [..., H, S, D]. key: [..., Hk, L, D]. value: [..., Hk, L, Dv]. Any strides; leading
            axes broadcast. Or all three jagged nested tensors [B, H, j, D], made by transposing
            [B, j, H, D]; with ``lengths`` (not contiguous) too.
        attn_mask: broadcasts to [..., H, S, L]; bool (True: visible) or floating-point, added to
            the scores and given a gradient. Not with ``is_causal``, nor with nested tensors.
        dropout_p: as in :func:`flash_attn_varlen_func`; applied whenever it is not 0.
        is_causal: key c is visible to row r for ``c <= r`` (top-left).
        scale: multiplies ``query.key``; None is ``1/sqrt(D)``.
        enable_gqa: lets Hk, and the heads of value, be divisors of H.
        seq_len_q, seq_len_kv: (B,) int32 or int64: how many rows of each batch are valid, the first
            ones; of [B,H,S,D] tensors only. What padding rows hold never matters.

    Returns [..., H, S, Dv]; of nested tensors a jagged nested [B, H, j, Dv] with the offsets (and
    lengths) of query. Rows that see no key, and padding rows, are exactly 0, in all gradients too.

    Raises ``raggeddnn.InvalidValueError`` (a ValueError), ``raggeddnn.NotSupportedError``.

    Source: ``torch.nn.functional.scaled_dot_product_attention``; the lengths are an addition.
    """
    if attn_mask is not None and is_causal:
        raise _invalid("attn_mask is given and is_causal is True, expected one of them")
    has_lengths = seq_len_q is not None or seq_len_kv is not None
    try:
        is_dropped = checked_dropout(CALLER, dropout_p)
        factor = (
            _ops.default_scale(query)
            if scale is None
            else checked_scale(CALLER, "scale", scale, query)
        )
        right = 0 if is_causal else -1
        if query.is_nested or key.is_nested or value.is_nested:
            if attn_mask is not None or has_lengths:
                raise _invalid("attn_mask and lengths are not supported with nested tensors")
            return _nested.attention(
                (query, key, value), factor, right, dropout_p if is_dropped else 0.0, enable_gqa
            )
        q, k, v, leading = query, key, value, query.shape[:-2]
        if has_lengths and len(leading) != 2:
            raise _invalid(f"query has {query.dim()} axes, expected [B,H,S,D] with lengths")
        if len(leading) != 2 or leading != key.shape[:-2] or leading != value.shape[:-2]:
            shapes = _leading(query, key, value, enable_gqa)
            q, k, v = (
                _as_four_axes(x, s) for x, s in zip((query, key, value), shapes, strict=True)
            )
            leading = shapes[0]
        bias = None if attn_mask is None else _bias_of(attn_mask, query, leading)
        out, _ = _ops.dense(
            q,
            k,
            v,
            bias,
            seq_len_q,
            seq_len_kv,
            draw_seeds(query) if is_dropped else None,
            factor,
            -1,
            right,
            True,
            dropout_p,
            False,
            CALLER,
        )
    except Exception:
        named = {"query": query, "key": key, "value": value}
        lengths = {"seq_len_q": seq_len_q, "seq_len_kv": seq_len_kv}
        explain(CALLER, named, {"attn_mask": attn_mask, **lengths}, {})
        raise
    return out if len(leading) == 2 else out.reshape(*leading, *out.shape[-2:])
