"""Backward problems of the named cases: what goes in, what must come out, and the checks of both.

The output and the log-sum-exp that the backward pass reads are the oracle's, rounded to the types
that a forward pass stores them in, so that each engine is judged by its backward pass alone.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .cases import Case, Problem, make_problem, numpy_dtype
from .oracle import Array, widest
from .oracle_backward import SdpaGradients, plain_sdpa_backward, sdpa_backward_oracle
from .tolerance import Expected, error_bound, first_violation

# Orders of summation of the plain computation: each rotates the head dimensions by a share of them.
_ROTATIONS = (0.0, 0.3, 0.7)
GRADIENTS = ("dq", "dk", "dv")


@dataclass
class BackwardProblem:
    """A problem with ``do`` and ``o`` (Rq,Hq,Dv), ``lse`` and ``dstats`` (Hq,Rq); dstats None where
    the loss does not depend on the log-sum-exp.
    """

    forward: Problem
    do: Array
    o: Array
    lse: Array
    dstats: Array | None

    @property
    def case(self) -> Case:
        return self.forward.case

    def gradients_of(self, batch: int) -> SdpaGradients:
        """The oracle's gradients of one sequence."""
        at = self.forward.rows_of(batch)[0]
        q, k, v, bias = self.forward.sequence(batch)
        return sdpa_backward_oracle(
            (q, k, v),
            self.do[at].transpose(1, 0, 2),
            self.forward.options,
            bias=bias,
            dstats=None if self.dstats is None else self.dstats[:, at],
            dropout=self.forward.dropout_of(batch),
        )

    def plain_gradients_of(self, batch: int) -> list[dict[str, Array]]:
        """Those of the plain computation, in each order of summation that sets the tolerance."""
        at = self.forward.rows_of(batch)[0]
        q, k, v, bias = self.forward.sequence(batch)
        do, o = self.do[at].transpose(1, 0, 2), self.o[at].transpose(1, 0, 2)
        found = []
        for share in _ROTATIONS:
            turn, turn_v = int(share * q.shape[2]), int(share * v.shape[2])
            plain = plain_sdpa_backward(
                (np.roll(q, turn, 2), np.roll(k, turn, 2), np.roll(v, turn_v, 2)),
                np.roll(do, turn_v, 2),
                (np.roll(o, turn_v, 2), self.lse[:, at]),
                self.forward.options,
                bias=bias,
                dstats=None if self.dstats is None else self.dstats[:, at],
                dropout=self.forward.dropout_of(batch),
            )
            for name, by in (("dq", turn), ("dk", turn), ("dv", turn_v)):
                plain[name] = np.roll(plain[name], -by, 2)
            found.append(plain)
        return found


def backward_case(case: Case) -> Case:
    """The case as its backward pass needs it: with stats."""
    return replace(case, stats="dense") if case.stats == "none" else case


def make_backward(source: Case | Problem) -> BackwardProblem:
    """The backward problem of a case, or of a problem of such a case that was changed since."""
    forward = source if isinstance(source, Problem) else make_problem(backward_case(source))
    case = forward.case
    rng = np.random.default_rng([case.seed, zlib.crc32(case.name.encode()), 1])
    o, lse, written = forward.expected()
    with np.errstate(over="ignore"):
        stored_o, stored_lse = o.astype(numpy_dtype(case.dtype)), lse.astype(np.float32)
    do = rng.standard_normal(o.shape).astype(stored_o.dtype)
    dstats = rng.standard_normal(lse.shape).astype(np.float32) if case.dstats else None
    if case.poison is not None:
        stored_o[~written], do[~written] = float(case.poison), float(case.poison)
        stored_lse[:, ~written] = float(case.poison)
        if dstats is not None:
            dstats[:, ~written] = float(case.poison)
    return BackwardProblem(forward, do, stored_o, stored_lse, dstats)


def is_well_posed(back: BackwardProblem) -> bool:
    """Can the stored log-sum-exp tell probabilities apart at all? Above 2^20 its spacing is 0.125,
    and ``exp(score - lse)`` says nothing any more, whoever computes it.
    """
    finite = back.lse[:, back.forward.side_q.written]
    finite = finite[np.isfinite(finite)]
    return bool(finite.size == 0 or np.abs(finite).max() < 2.0**20)


def sum_to_shape(x: Array, shape: tuple[int, ...]) -> Array:
    """Summed over the axes where ``shape`` is 1."""
    axes = tuple(axis for axis, n in enumerate(shape) if n == 1 and x.shape[axis] != 1)
    total: Array = x.sum(axis=axes, keepdims=True)
    return total


def _written_part(part: Array, rows: int, cols: int) -> tuple[slice, ...]:
    return (
        slice(None),
        slice(0, rows if part.shape[1] > 1 else 1),
        slice(0, cols if part.shape[2] > 1 else 1),
    )


def bias_gradient(
    back: BackwardProblem, of_sequence: dict[int, Array], wide: np.dtype[Any]
) -> tuple[Array, Array]:
    """dBias in the shape of the bias from dS [Hq,Sq,Skv] of each sequence, and which elements are
    not past the lengths of every sequence that they belong to.
    """
    bias = back.forward.bias
    assert bias is not None
    total = np.zeros(bias.shape, dtype=wide)
    written = np.zeros(bias.shape, dtype=bool)
    for batch, ds in of_sequence.items():
        b = batch if bias.shape[0] > 1 else 0
        part = _written_part(total[b], ds.shape[1], ds.shape[2])
        total[b][part] += sum_to_shape(ds, total[b][part].shape)
        written[b][part] = True
    return total, written


def expected_gradients(back: BackwardProblem, batch: int) -> dict[str, Expected]:
    """dq [Hq,Sq,D], dk [Hk,Skv,D], dv [Hv,Skv,Dv] of one sequence."""
    oracle, plain = back.gradients_of(batch), back.plain_gradients_of(batch)
    found = {}
    for name in GRADIENTS:
        values: Array = getattr(oracle, name)
        results = [result[name] for result in plain]
        bounds = error_bound(values, results, back.forward.q.dtype, gradient=True)
        if name == "dq":  # a row that sees no key has no error at all
            bounds = np.where(oracle.alive[:, :, None], bounds, 0)
        found[name] = Expected(values, bounds)
    return found


def check_sequence_gradients(back: BackwardProblem, got: dict[str, Array], label: str) -> None:
    """Fail unless dq (Rq,Hq,D), dk (Rk,Hk,D), dv (Rk,Hv,Dv) keep the derived bounds in each
    sequence.
    """
    problem = back.forward
    for batch in range(problem.batch):
        at_q, at_kv = problem.rows_of(batch)
        for name, want in expected_gradients(back, batch).items():
            rows = got[name][at_q if name == "dq" else at_kv].transpose(1, 0, 2)
            axes = ("head", "row", "col")
            text = first_violation(name, axes, rows, want.values, want.bounds)
            if text is not None:
                raise AssertionError(f"[{problem.case.name} {label} sequence {batch}] {text}")


def expected_bias_gradient(back: BackwardProblem) -> tuple[Expected, Array]:
    """dBias in the shape of the bias, its sequences judged together, and which elements a plan
    writes.
    """
    batches = range(back.forward.batch)
    dtype, wide = back.forward.q.dtype, widest(back.forward.q)
    plain = [back.plain_gradients_of(batch) for batch in batches]
    oracle, written = bias_gradient(back, {b: back.gradients_of(b).ds for b in batches}, wide)
    results = []
    for order in range(len(_ROTATIONS)):
        ds = {b: plain[b][order]["ds"].astype(wide) for b in batches}
        results.append(bias_gradient(back, ds, wide)[0].astype(dtype))
    return Expected(oracle, error_bound(oracle, results, dtype, gradient=True)), written


def check_bias_gradient(back: BackwardProblem, got: Array, label: str) -> None:
    """The same of dBias, in the shape of the bias."""
    want, written = expected_bias_gradient(back)
    shown = np.where(written, got.astype(want.values.dtype), want.values)
    axes = ("batch", "head", "row", "key")
    text = first_violation("dBias", axes, shown, want.values, want.bounds)
    if text is not None:
        raise AssertionError(f"[{back.case.name} {label}] {text}")


def finite_differences(
    loss: Any, inputs: tuple[Array, ...], *, step: float = 1e-5
) -> tuple[Array, ...]:
    """Central differences of a scalar function of float64 arrays, element by element."""
    found = []
    for x in inputs:
        slopes = np.zeros(x.shape)
        for at in np.ndindex(*x.shape):
            kept = x[at]
            x[at] = kept + step
            above = loss(*inputs)
            x[at] = kept - step
            below = loss(*inputs)
            x[at] = kept
            slopes[at] = float(above - below) / (2 * step)
        found.append(slopes)
    return tuple(found)
