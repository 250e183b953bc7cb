"""Checks that hold for every engine: which rows a plan writes, which bits, and how close."""

from __future__ import annotations

import numpy as np

import raggeddnn as rd

from .cases import Problem, assert_sdpa_close
from .graphs import SdpaGraph
from .oracle import Array

PREFILLS = (float("nan"), 1e30)


def is_reference(engine_name: str) -> bool:
    """Is this the reference engine, by its full or its short name?"""
    return "reference" in engine_name.lower()


def is_named(engine_name: str, name: str) -> bool:
    """Does ``name``, full or short, mean the engine of this full name?"""
    return engine_name in (name, f"RAGGEDDNN_{name.upper()}_ENGINE")


def bits(x: Array) -> Array:
    """The bytes of an array in C order, so that NaN equals itself and 0 differs from -0."""
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)


def assert_same_bits(got: Array, expected: Array, label: str) -> None:
    """Fail unless both arrays have the same shape, data type and bits."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        raise AssertionError(
            f"[{label}] got {got.shape} {got.dtype}, expected {expected.shape} {expected.dtype}"
        )
    if got.size == 0 or np.array_equal(bits(got), bits(expected)):
        return
    per_element = bits(got).reshape(-1, got.itemsize) != bits(expected).reshape(-1, got.itemsize)
    flat = np.flatnonzero(per_element.any(axis=1))
    at = tuple(int(i) for i in np.unravel_index(int(flat[0]), got.shape))
    raise AssertionError(
        f"[{label}] {flat.size} of {got.size} elements differ, first at {at}: "
        f"got {got[at]!r}, expected {expected[at]!r}"
    )


def _owned(problem: Problem) -> Array:
    """A boolean per row: is it inside some sequence's block, valid or not?"""
    mask = np.zeros(problem.side_q.rows, dtype=bool)
    mask[: problem.side_q.offsets[-1]] = True
    return mask


def check_written_rows(
    sdpa: SdpaGraph, problem: Problem, outputs: dict[str, Array], fill: float, *, reference: bool
) -> None:
    """Check rule 7 of the contract on outputs that were filled with ``fill`` before the run.

    Rows past the last block keep their fill. Slack and padding rows keep it under the reference
    engine and hold exactly 0 (LSE -inf) under every other.
    """
    untouched = sdpa.new_outputs(problem, fill)
    owned, valid = _owned(problem), problem.side_q.written
    name = problem.case.name
    o, before = sdpa.o_rows(outputs, problem), sdpa.o_rows(untouched, problem)
    lse, lse_before = sdpa.lse_rows(outputs, problem), sdpa.lse_rows(untouched, problem)
    tail, slack = ~owned, owned & ~valid
    assert_same_bits(o[tail], before[tail], f"{name}: O past the last block")
    cleared = before[slack] if reference else np.zeros_like(before[slack])
    assert_same_bits(o[slack], cleared, f"{name}: O in slack")
    if lse is None or lse_before is None:
        return
    if problem.case.has_ragged_stats:
        assert_same_bits(lse[:, tail], lse_before[:, tail], f"{name}: LSE past the last block")
    hidden = lse_before[:, slack]
    cleared = hidden if reference else np.full_like(hidden, -np.inf)
    assert_same_bits(lse[:, slack], cleared, f"{name}: LSE in slack")
    if problem.case.has_ragged_stats:
        return
    for batch, block in enumerate(problem.side_q.blocks):
        rest = outputs["stats"][batch, :, block:]
        kept = untouched["stats"][batch, :, block:]
        cleared = kept if reference else np.full_like(kept, -np.inf)
        assert_same_bits(rest, cleared, f"{name}: dense LSE past the block of sequence {batch}")


def run_and_check(sdpa: SdpaGraph, plan: rd.ExecutionPlan, problem: Problem) -> dict[str, Array]:
    """Run twice with different pre-fills; check bits, written rows and closeness to the oracle.

    Returns the outputs of the first run.
    """
    engine = plan.engine_name
    first, second = (sdpa.run(plan, problem, fill) for fill in PREFILLS)
    valid = problem.side_q.written
    o, lse = sdpa.o_rows(first, problem), sdpa.lse_rows(first, problem)
    label = f"{problem.case.name} {engine}"
    assert_same_bits(o[valid], sdpa.o_rows(second, problem)[valid], f"{label}: O of two runs")
    again = sdpa.lse_rows(second, problem)
    if lse is not None and again is not None:
        assert_same_bits(lse[:, valid], again[:, valid], f"{label}: LSE of two runs")
    for outputs, fill in zip((first, second), PREFILLS, strict=True):
        check_written_rows(sdpa, problem, outputs, fill, reference=is_reference(engine))
    assert_sdpa_close(o, lse, problem, label=engine)
    return first
