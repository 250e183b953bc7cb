"""Scaled dot-product attention in wide arithmetic, one sequence at a time.

Every engine is measured against this file, so it favours being obviously right: no tiles, no
running maximum, no mask value. It implements rules 1 to 6 and 9 of the contract of ragged
attention: ``scores = scale * q.k + bias``, masks, a softmax over the visible keys, times V; a row
that sees no key has output 0 and log-sum-exp -inf.

Arithmetic is float64; for float64 inputs it is ``numpy.longdouble``, so that the oracle stays more
exact than what it judges. Scores are kept as ``mantissa * 2**exponent`` with one exponent per
sequence, which keeps magnitudes up to the range of double from overflowing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class SdpaOptions:
    """What changes the meaning of attention, apart from the tensors.

    ``scale`` None means ``1/sqrt(D)``. Bounds are inclusive, in keys; None or a negative bound is
    open. ``causal`` is ``right_bound=0``. ``diagonal_alignment`` is ``"top_left"`` or
    ``"bottom_right"``.
    """

    scale: float | None = None
    causal: bool = False
    left_bound: int | None = None
    right_bound: int | None = None
    diagonal_alignment: str = "top_left"

    def __post_init__(self) -> None:
        if self.diagonal_alignment not in ("top_left", "bottom_right"):
            raise ValueError(
                "diagonal_alignment must be 'top_left' or 'bottom_right', "
                f"got {self.diagonal_alignment!r}"
            )
        if self.causal and self.right_bound not in (None, 0):
            raise ValueError(f"causal means right_bound 0, got right_bound {self.right_bound}")

    def scale_for(self, head_dim: int) -> float:
        """The scale as a number, for queries of ``head_dim`` elements."""
        return 1.0 / math.sqrt(head_dim) if self.scale is None else float(self.scale)


def visible_keys(rows: int, cols: int, options: SdpaOptions) -> Array:
    """Which key each query row may see: a boolean array [rows, cols] (contract, rule 3)."""
    offset = cols - rows if options.diagonal_alignment == "bottom_right" else 0
    diagonal = np.arange(rows)[:, None] + offset
    key = np.arange(cols)[None, :]
    visible = np.ones((rows, cols), dtype=bool)
    left, right = options.left_bound, 0 if options.causal else options.right_bound
    farthest = rows + cols  # bounds may be as large as 64 bits hold
    if right is not None and right >= 0:
        visible &= key <= diagonal + min(right, farthest)
    if left is not None and left >= 0:
        visible &= key >= diagonal - min(left, farthest)
    return visible


def repeat_heads(x: Array, heads: int, name: str) -> Array:
    """[H, S, D] repeated along heads so that query head h finds key head ``h // group``."""
    if x.shape[0] == 0 or heads % x.shape[0] != 0:
        raise ValueError(f"{name} has {x.shape[0]} heads, which must divide the {heads} of q")
    return np.repeat(x, heads // x.shape[0], axis=0)


def check_sequence_shapes(q: Array, k: Array, v: Array) -> None:
    """Raise ValueError unless q [Hq,Sq,D], k [Hk,Skv,D], v [Hv,Skv,Dv] fit together."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 3:
            raise ValueError(f"{name} must be [heads, rows, dim], got shape {x.shape}")
    if q.shape[2] != k.shape[2]:
        raise ValueError(f"k has head dim {k.shape[2]}, q has {q.shape[2]}")
    if k.shape[1] != v.shape[1]:
        raise ValueError(f"v has {v.shape[1]} rows, k has {k.shape[1]}")


def widest(*arrays: Array) -> np.dtype[Any]:
    is_double = any(x.dtype in (np.dtype(np.float64), np.dtype(np.longdouble)) for x in arrays)
    return np.dtype(np.longdouble if is_double else np.float64)


def _normalised(x: Array) -> tuple[Array, int]:
    """``(m, e)`` with ``x == m * 2**e`` and the largest finite ``|m|`` in [0.5, 1)."""
    magnitude = np.abs(x[np.isfinite(x)])
    peak = magnitude.max() if magnitude.size else x.dtype.type(0)
    if peak == 0:
        return x, 0
    exponent = int(np.frexp(peak)[1])
    return np.ldexp(x, -exponent), exponent


def _scores(q: Array, k: Array, scale: float, bias: Array | None) -> tuple[Array, int]:
    """``scale * q.k + bias`` as ``(mantissa [H,Sq,Skv], exponent)``."""
    q_part, q_exp = _normalised(q)
    k_part, k_exp = _normalised(k)
    scale_part, scale_exp = math.frexp(scale)
    exponent = q_exp + k_exp + scale_exp
    scores = np.matmul(q_part, np.swapaxes(k_part, 1, 2)) * q.dtype.type(scale_part)
    if bias is None:
        return scores, exponent
    bias_part, bias_exp = _normalised(bias)
    common = max(exponent, bias_exp)
    shifted = np.ldexp(scores, exponent - common) + np.ldexp(bias_part, bias_exp - common)
    return shifted, common


def sdpa_weights(
    q: Array, k: Array, options: SdpaOptions, wide: np.dtype[Any], bias: Array | None
) -> tuple[Array, Array, Array]:
    """The softmax [Hq,Sq,Skv], the log-sum-exp [Hq,Sq] and which rows see a key [Hq,Sq]; hidden
    keys and rows that see none have weights 0.
    """
    wide_k = repeat_heads(k.astype(wide), q.shape[0], "k")
    wide_bias = None if bias is None else np.asarray(bias).astype(wide)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        scale = options.scale_for(q.shape[2])
        scores, exponent = _scores(q.astype(wide), wide_k, scale, wide_bias)
        visible = visible_keys(q.shape[1], k.shape[1], options) & ~np.isneginf(scores)
        alive: Array = np.any(visible, axis=2)
        peak = np.max(np.where(visible, scores, -np.inf), axis=2, initial=-np.inf)
        peak = np.asarray(np.where(alive, peak, 0))
        # Hidden keys are selected away, never multiplied by zero: a NaN there must not spread.
        shifted = np.exp(np.ldexp(scores - peak[:, :, None], exponent))
        weights: Array = np.where(visible, shifted, 0)
        total: Array = np.where(alive, weights.sum(axis=2), 1)
        lse = np.where(alive, np.ldexp(peak, exponent) + np.log(total), -np.inf)
    return weights / total[:, :, None], lse, alive


def sdpa_oracle(
    q: Array,
    k: Array,
    v: Array,
    options: SdpaOptions | None = None,
    *,
    bias: Array | None = None,
    dropout: Array | None = None,
) -> tuple[Array, Array]:
    """Attention of one sequence: q [Hq,Sq,D], k [Hk,Skv,D], v [Hv,Skv,Dv], any real data type.

    Hk and Hv each divide Hq and may differ. ``bias`` broadcasts to [Hq,Sq,Skv]; -inf hides a key.
    ``dropout`` has that shape and holds what the probabilities are multiplied with. Returns ``(o
    [Hq,Sq,Dv], lse [Hq,Sq])`` in float64 (longdouble for float64 inputs); the log-sum-exp is the
    natural one, without dropout. Rows that see no key: o 0, lse -inf. Raises ValueError when
    shapes do not fit. Source: rules 2 to 6 of the contract; the formula is that of Vaswani et al.
    2017, section 3.2.1.
    """
    options = options or SdpaOptions()
    check_sequence_shapes(q, k, v)
    wide = widest(q, k, v)
    wide_v, v_exp = _normalised(repeat_heads(v.astype(wide), q.shape[0], "v"))
    weights, lse, alive = sdpa_weights(q, k, options, wide, bias)
    if dropout is not None:
        weights = weights * dropout.astype(wide)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        o = np.ldexp(np.matmul(weights, wide_v), v_exp)
    return np.where(alive[:, :, None], o, 0), lse


def slice_bias(bias: Array | None, batch: int, rows: int, cols: int) -> Array | None:
    """The part [H or 1, rows or 1, cols or 1] of a bias [B or 1, H or 1, Sq or 1, Skv or 1]."""
    if bias is None:
        return None
    part: Array = bias[batch if bias.shape[0] > 1 else 0]
    if part.shape[1] > 1:
        part = part[:, :rows]
    if part.shape[2] > 1:
        part = part[:, :, :cols]
    return part


def _used(cu: Sequence[int] | Array, used: Sequence[int] | Array | None) -> list[int]:
    lengths = used if used is not None else np.diff(np.asarray(cu))
    return [int(n) for n in lengths]


def ragged_oracle(
    q: Array,
    k: Array,
    v: Array,
    cu_q: Sequence[int] | Array,
    cu_kv: Sequence[int] | Array,
    *,
    options: SdpaOptions | None = None,
    seqused_q: Sequence[int] | Array | None = None,
    seqused_kv: Sequence[int] | Array | None = None,
    bias: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Attention of packed sequences: q (Tq,Hq,D), k (Tk,Hk,D), v (Tk,Hv,Dv).

    ``cu_*`` (B+1) are offsets in rows. ``seqused_*`` (B) give the valid rows at the head of each
    block; without them whole blocks are valid. ``bias`` broadcasts to [B,Hq,Sq,Skv]. Returns ``(o
    (Tq,Hq,Dv), lse (Hq,Tq), written (Tq,))``; rows that are not written (slack, and rows past
    ``cu_q[-1]``) hold 0 and -inf.
    """
    wide = widest(q, k, v)
    o = np.zeros((q.shape[0], q.shape[1], v.shape[2]), dtype=wide)
    lse = np.full((q.shape[1], q.shape[0]), -np.inf, dtype=wide)
    written = np.zeros(q.shape[0], dtype=bool)
    lens_q, lens_kv = _used(cu_q, seqused_q), _used(cu_kv, seqused_kv)
    for batch, (rows, cols) in enumerate(zip(lens_q, lens_kv, strict=True)):
        at_q = slice(int(cu_q[batch]), int(cu_q[batch]) + rows)
        at_kv = slice(int(cu_kv[batch]), int(cu_kv[batch]) + cols)
        part_o, part_lse = sdpa_oracle(
            q[at_q].transpose(1, 0, 2),
            k[at_kv].transpose(1, 0, 2),
            v[at_kv].transpose(1, 0, 2),
            options,
            bias=slice_bias(bias, batch, rows, cols),
        )
        o[at_q], lse[:, at_q], written[at_q] = part_o.transpose(1, 0, 2), part_lse, True
    return o, lse, written


def padded_oracle(
    q: Array,
    k: Array,
    v: Array,
    lens_q: Sequence[int] | Array,
    lens_kv: Sequence[int] | Array,
    *,
    options: SdpaOptions | None = None,
    bias: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Attention of a padded batch: q [B,Hq,Sq,D], k [B,Hk,Skv,D], v [B,Hv,Skv,Dv], lengths (B).

    Returns ``(o [B,Hq,Sq,Dv], lse [B,Hq,Sq], written [B,Sq])``; padding rows hold 0 and -inf.
    """
    wide = widest(q, k, v)
    o = np.zeros((*q.shape[:3], v.shape[3]), dtype=wide)
    lse = np.full(q.shape[:3], -np.inf, dtype=wide)
    written = np.arange(q.shape[2])[None, :] < np.asarray(lens_q)[:, None]
    lengths = [(int(rows), int(cols)) for rows, cols in zip(lens_q, lens_kv, strict=True)]
    for batch, (rows, cols) in enumerate(lengths):
        o[batch, :, :rows], lse[batch, :, :rows] = sdpa_oracle(
            q[batch, :, :rows],
            k[batch, :, :cols],
            v[batch, :, :cols],
            options,
            bias=slice_bias(bias, batch, rows, cols),
        )
    return o, lse, written
