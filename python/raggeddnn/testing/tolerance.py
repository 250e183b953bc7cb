"""How far a result may lie from the oracle: derived from the data type, never chosen by a test.

The rule: the error against the oracle is at most twice (three times for gradients) the error of a
plain computation in the same data type, plus ``4 * eps(type) * max|oracle|`` of the row. The plain
computation is what a user would write from matrix products and a softmax: products of half types
accumulate in float32 and every stored intermediate is rounded to the type. It is done in a few
orders of summation, all equally plain, because the error of a single one may be small by luck; the
largest error anywhere in the sequence counts. A sequence is judged by itself: neither a louder
neighbour nor a bigger batch widens its bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .oracle import (
    Array,
    SdpaOptions,
    check_sequence_shapes,
    repeat_heads,
    sdpa_oracle,
    visible_keys,
)

FORWARD_FACTOR = 2.0
GRADIENT_FACTOR = 3.0
ROW_EPSILONS = 4.0

# Orders of summation of the plain computation: each rotates the head dimension by a share of it.
_ROTATIONS = (0.0, 0.3, 0.7)


def epsilon(dtype: np.dtype[Any]) -> float:
    """Spacing of the numbers of ``dtype`` at 1, bfloat16 included."""
    if dtype.kind == "f":
        return float(np.finfo(dtype).eps)
    import ml_dtypes

    finfo: Any = ml_dtypes.finfo
    return float(finfo(dtype).eps)


def plain_sdpa(
    q: Array,
    k: Array,
    v: Array,
    options: SdpaOptions | None = None,
    *,
    bias: Array | None = None,
    dropout: Array | None = None,
) -> tuple[Array, Array]:
    """Attention of one sequence by matrix products and a softmax in the data type of ``q``.

    Shapes as in :func:`raggeddnn.testing.sdpa_oracle`. Scores, weights and the output are rounded
    to the type; products accumulate in float32 (float64 for float64). The log-sum-exp is an FP32
    quantity whatever the inputs, so its scores stay in the accumulation type. Returns ``(o
    [Hq,Sq,Dv], lse [Hq,Sq])``.
    """
    options = options or SdpaOptions()
    check_sequence_shapes(q, k, v)
    stored = q.dtype
    work = np.dtype(np.float64 if stored == np.float64 else np.float32)
    heads, rows, dim = q.shape
    wide_q = q.astype(work)
    wide_k = repeat_heads(k.astype(work), heads, "k")
    wide_v = repeat_heads(v.astype(work), heads, "v")
    visible = visible_keys(rows, k.shape[1], options)

    def store(x: Array) -> Array:
        return x.astype(stored).astype(work)

    with np.errstate(all="ignore"):
        exact = np.matmul(wide_q, np.swapaxes(wide_k, 1, 2)) * work.type(options.scale_for(dim))
        rounded = store(exact)
        if bias is not None:
            wide_bias = np.asarray(bias).astype(work)
            exact, rounded = exact + wide_bias, store(rounded + wide_bias)
        weights, _ = _softmax(rounded, visible)
        if dropout is not None:
            weights = weights * dropout.astype(work)
        o = np.matmul(store(weights), wide_v).astype(stored)
        _, lse = _softmax(exact, visible)
    return o, lse


def plain_results(
    q: Array,
    k: Array,
    v: Array,
    options: SdpaOptions | None = None,
    *,
    bias: Array | None = None,
    dropout: Array | None = None,
) -> list[tuple[Array, Array]]:
    """The results of :func:`plain_sdpa` in each order of summation that sets the tolerance."""
    results = []
    for share in _ROTATIONS:
        shift = int(share * q.shape[2])
        turned_q, turned_k = np.roll(q, shift, axis=2), np.roll(k, shift, axis=2)
        results.append(plain_sdpa(turned_q, turned_k, v, options, bias=bias, dropout=dropout))
    return results


def _softmax(scores: Array, visible: Array) -> tuple[Array, Array]:
    shown = visible & ~np.isneginf(scores)
    alive = shown.any(axis=2)
    peak = np.max(np.where(shown, scores, -np.inf), axis=2, initial=-np.inf)
    peak = np.where(alive, peak, 0).astype(scores.dtype)
    weights = np.where(shown, np.exp(scores - peak[:, :, None]), 0)
    total = np.where(alive, weights.sum(axis=2), 1)
    lse = np.where(alive, peak + np.log(total), -np.inf)
    return weights / total[:, :, None], lse


@dataclass(frozen=True)
class Expected:
    """A result in wide arithmetic, and the error allowed at each of its elements."""

    values: Array
    bounds: Array


def error_bound(
    oracle: Array, plain: Sequence[Array], dtype: np.dtype[Any], *, gradient: bool = False
) -> Array:
    """The error allowed at each element of one sequence's result [..., row], rows along the last
    axis.

    ``oracle`` is the wide result, ``plain`` those of the plain computation, ``dtype`` the data type
    whose precision counts (float32 for a log-sum-exp). Elements that are not finite in the oracle
    get bound 0.
    """
    finite = np.isfinite(oracle)
    magnitude = np.where(finite, np.abs(oracle), 0)
    worst = 0.0
    for result in plain:
        with np.errstate(invalid="ignore"):
            errors = np.where(finite, np.abs(result.astype(oracle.dtype) - oracle), 0)
        # Where the plain computation overflows it sets no standard: only the row's own term
        # remains.
        worst = max(worst, float(np.max(np.where(np.isfinite(errors), errors, 0), initial=0)))
    factor = GRADIENT_FACTOR if gradient else FORWARD_FACTOR
    row_peak = np.max(magnitude, axis=-1, keepdims=True, initial=0)
    bound = factor * worst + ROW_EPSILONS * epsilon(dtype) * row_peak
    return np.where(finite, bound, 0)


def first_violation(
    name: str, axes: tuple[str, ...], got: Array, oracle: Array, bound: Array
) -> str | None:
    """A sentence about the worst element beyond its bound, or None when there is none.

    Elements that are not finite in the oracle must be equal (NaN equals NaN); NaN is never within a
    bound. ``axes`` names the axes of ``got`` for the message.
    """
    if got.shape != oracle.shape:
        return f"{name}: got shape {got.shape}, expected {oracle.shape}"
    wide = got.astype(oracle.dtype)
    with np.errstate(invalid="ignore"):
        error = np.abs(wide - oracle)
    same = (wide == oracle) | (np.isnan(wide) & np.isnan(oracle))
    error = np.where(same, 0, np.where(np.isnan(error), np.inf, error))
    # A bound of zero still admits equality, and an error that is infinite is worse than any excess.
    excess = np.where(error <= bound, -np.inf, error - bound)
    bad = int(np.count_nonzero(excess > -np.inf))
    if bad == 0:
        return None
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(excess)), excess.shape))
    where = ", ".join(f"{axis} {i}" for axis, i in zip(axes, at, strict=True))
    return (
        f"{name} at {where}: got {float(wide[at])!r}, expected {float(oracle[at])!r}, "
        f"error {float(error[at]):.3e}, allowed {float(bound[at]):.3e}; "
        f"{bad} of {got.size} elements beyond their bounds"
    )


def expected_sequence(
    inputs: tuple[Array, Array, Array],
    options: SdpaOptions | None = None,
    *,
    bias: Array | None = None,
    dropout: Array | None = None,
) -> tuple[Expected, Expected]:
    """O [Hq,Sq,Dv] and LSE [Hq,Sq] of one sequence; ``inputs`` are q, k, v as the engine sees
    them.
    """
    q, k, v = inputs
    oracle_o, oracle_lse = sdpa_oracle(q, k, v, options, bias=bias, dropout=dropout)
    plain = plain_results(q, k, v, options, bias=bias, dropout=dropout)
    bound_o = error_bound(oracle_o, [o for o, _ in plain], q.dtype)
    # A row that sees no key is exactly 0: no error is allowed there.
    bound_o = np.where(np.isneginf(oracle_lse)[:, :, None], 0, bound_o)
    bound_lse = error_bound(oracle_lse, [lse for _, lse in plain], np.dtype(np.float32))
    return Expected(oracle_o, bound_o), Expected(oracle_lse, bound_lse)


def assert_sequence_close(
    got_o: Array,
    got_lse: Array | None,
    inputs: tuple[Array, Array, Array],
    options: SdpaOptions | None = None,
    *,
    bias: Array | None = None,
    dropout: Array | None = None,
    label: str = "",
) -> None:
    """Fail unless one sequence's ``got_o`` [Hq,Sq,Dv] and ``got_lse`` [Hq,Sq] keep the derived
    bounds.

    ``inputs`` are q, k, v as the engine saw them. Raises AssertionError naming the worst element,
    its index, the value got and the value expected.
    """
    o, lse = expected_sequence(inputs, options, bias=bias, dropout=dropout)
    problems = [first_violation("O", ("head", "row", "col"), got_o, o.values, o.bounds)]
    if got_lse is not None:
        problems.append(first_violation("LSE", ("head", "row"), got_lse, lse.values, lse.bounds))
    found = [text for text in problems if text is not None]
    if found:
        raise AssertionError(" | ".join(f"[{label}] {text}" if label else text for text in found))
