"""The gradients of scaled dot-product attention in wide arithmetic, one sequence at a time.

With P the softmax, F the factors of dropout (else 1) and L the log-sum-exp, for a loss whose
gradients with respect to the output and to L are dO and dL:

    dV = (P F)^T dO,  dP = F dO V^T,  dS = P (dP - sum(P dP) + dL),
    dQ = scale dS K,  dK = scale dS^T Q,  dBias = dS.

Like the forward oracle it favours being obviously right and recomputes P from the inputs: neither
the output nor the log-sum-exp of an engine enters. Rows that see no key give and get exact zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .oracle import Array, SdpaOptions, repeat_heads, sdpa_weights, visible_keys, widest


@dataclass(frozen=True)
class SdpaGradients:
    """dq [Hq,Sq,D], dk [Hk,Skv,D], dv [Hv,Skv,Dv], and ds [Hq,Sq,Skv], the gradient of the scores:
    that of a bias before its broadcast axes are summed over. ``alive`` [Hq,Sq]: rows that see a
    key.
    """

    dq: Array
    dk: Array
    dv: Array
    ds: Array
    alive: Array


def sum_groups(x: Array, heads: int) -> Array:
    """[Hq, S, D] summed over the query heads that share each of ``heads`` key or value heads."""
    total: Array = x.reshape(heads, x.shape[0] // heads, *x.shape[1:]).sum(axis=1)
    return total


def sdpa_backward_oracle(
    inputs: tuple[Array, Array, Array],
    do: Array,
    options: SdpaOptions | None = None,
    *,
    bias: Array | None = None,
    dstats: Array | None = None,
    dropout: Array | None = None,
) -> SdpaGradients:
    """Gradients of one sequence. ``inputs`` are q [Hq,Sq,D], k [Hk,Skv,D], v [Hv,Skv,Dv]; ``do``
    [Hq,Sq,Dv] is the gradient of the output, ``dstats`` [Hq,Sq] that of the natural log-sum-exp.
    ``bias`` broadcasts to [Hq,Sq,Skv], ``dropout`` has that shape and holds what the probabilities
    are multiplied with. float64 (longdouble for float64 inputs).
    """
    options = options or SdpaOptions()
    q, k, v = inputs
    heads = q.shape[0]
    wide = widest(q, k, v)
    weights, _, alive = sdpa_weights(q, k, options, wide, bias)
    scale = wide.type(options.scale_for(q.shape[2]))
    wide_q = q.astype(wide)
    wide_k = repeat_heads(k.astype(wide), heads, "k")
    wide_v = repeat_heads(v.astype(wide), heads, "v")
    # A row that sees no key is selected away: its dO may be anything.
    wide_do = np.where(alive[:, :, None], do.astype(wide), 0)
    factors = 1 if dropout is None else dropout.astype(wide)
    dp = np.matmul(wide_do, np.swapaxes(wide_v, 1, 2)) * factors
    dp = np.where(weights == 0, 0, dp)  # the values of hidden keys may be anything
    shift = -np.sum(weights * dp, axis=2)
    if dstats is not None:
        shift = shift + np.where(alive, dstats.astype(wide), 0)
    ds = np.where(weights == 0, 0, weights * (dp + shift[:, :, None]))
    dv = np.matmul(np.swapaxes(weights * factors, 1, 2), wide_do)
    dk = np.matmul(np.swapaxes(ds, 1, 2), wide_q) * scale
    return SdpaGradients(
        dq=np.matmul(ds, wide_k) * scale,
        dk=sum_groups(dk, k.shape[0]),
        dv=sum_groups(dv, v.shape[0]),
        ds=ds,
        alive=alive,
    )


def plain_sdpa_backward(
    inputs: tuple[Array, Array, Array],
    do: Array,
    results: tuple[Array, Array],
    options: SdpaOptions,
    *,
    bias: Array | None = None,
    dstats: Array | None = None,
    dropout: Array | None = None,
) -> dict[str, Array]:
    """The same by matrix products in the data type of ``q``, from ``results``: the output
    [Hq,Sq,Dv] and log-sum-exp [Hq,Sq] as the forward pass stored them.

    Every stored intermediate is rounded to the type; products accumulate in float32 (float64 for
    float64). Returns dq, dk, dv and ds.
    """
    q, k, v = inputs
    stored, heads = q.dtype, q.shape[0]
    work = np.dtype(np.float64 if stored == np.float64 else np.float32)
    o, lse = (x.astype(work) for x in results)
    alive = ~np.isneginf(lse)
    scale = work.type(options.scale_for(q.shape[2]))
    wide_q = q.astype(work)
    wide_k = repeat_heads(k.astype(work), heads, "k")
    wide_v = repeat_heads(v.astype(work), heads, "v")
    wide_do = np.where(alive[:, :, None], do.astype(work), 0).astype(work)

    def store(x: Array) -> Array:
        return x.astype(stored).astype(work)

    with np.errstate(all="ignore"):
        scores = store(np.matmul(wide_q, np.swapaxes(wide_k, 1, 2)) * scale)
        if bias is not None:
            scores = store(scores + np.asarray(bias).astype(work))
        shown = _shown(q, k, options, scores) & alive[:, :, None]
        level = np.where(alive, lse, 0)[:, :, None]
        weights = store(np.where(shown, np.exp(scores - level), 0))
        factors = work.type(1) if dropout is None else dropout.astype(work)
        dp = store(np.matmul(wide_do, np.swapaxes(wide_v, 1, 2)) * factors)
        shift = -np.sum(wide_do * np.where(alive[:, :, None], o, 0), axis=2)
        if dstats is not None:
            shift = shift + np.where(alive, dstats.astype(work), 0)
        ds = store(np.where(weights == 0, 0, weights * (dp + shift[:, :, None])))
        dropped = store(weights * factors)
        gradients = {
            "dq": np.matmul(ds, wide_k) * scale,
            "dk": sum_groups(np.matmul(np.swapaxes(ds, 1, 2), wide_q) * scale, k.shape[0]),
            "dv": sum_groups(np.matmul(np.swapaxes(dropped, 1, 2), wide_do), v.shape[0]),
            "ds": ds,
        }
    return {name: x.astype(stored) for name, x in gradients.items()}


def _shown(q: Array, k: Array, options: SdpaOptions, scores: Array) -> Array:
    shown: Array = visible_keys(q.shape[1], k.shape[1], options) & ~np.isneginf(scores)
    return shown
