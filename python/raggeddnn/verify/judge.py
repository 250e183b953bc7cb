"""One subject put to one engine by the verification harness, within derived limits.

The harness compares with the reference engine, the limits are those against the oracle: a result
within its bound of the oracle lies within that bound, plus the reference's own error, of the
reference. So the limit of an element is that sum, and the reference has to keep its bounds too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import raggeddnn as rd

from .. import _core
from ..tensor import Tensor, TensorBase
from ..testing.checks import assert_same_bits, bits
from ..testing.harness import IntegrationGraphVerificationHarness, Tolerance
from ..testing.oracle import Array
from ..testing.tolerance import Expected, first_violation
from .subject import Call, Key, Subject

GUARD_ELEMENTS = 64
THREADS = 3
# How this package tells that a plugin or an engine failed when it was asked about a graph, instead
# of refusing it (selection.cpp, plugin/engine_list.hpp).
FAILED = ("the plugin failed: ", "the engine failed: ")


@dataclass(frozen=True)
class Finding:
    """``kind`` is ``passed``, ``refused`` or ``wrong``; ``detail`` the reason, or what is wrong."""

    kind: str
    detail: str = ""


@dataclass
class _Seen:
    """What an engine wrote in a call: the memory of each output, and where the reference wrote."""

    call: Call
    memory: dict[rd.TensorAttributes, Array]
    written: dict[rd.TensorAttributes, Array]


def judge(subject: Subject, engine: str, device: str = "cpu") -> Finding:
    """Run the calls of a subject on ``engine`` (its full name) by one plan, each twice and the last
    one by several threads at once, and compare. ``device``: where its buffers are; on a GPU inputs
    are copied there, and results back, and each run is on a stream of its own.

    Raises what the harness raises for a subject that makes no sense.
    """
    environment = _core.FpEnvironment()
    handle = rd.Handle(device=device)
    said = next((v for v in subject.graph.explain(handle) if v.engine == engine), None)
    if environment.restore():
        return Finding("wrong", environment.LEFT_CHANGED)
    if said is not None and not said.applicable:
        return Finding("wrong" if said.reason.startswith(FAILED) else "refused", said.reason)
    first = subject.calls[0]
    harness = IntegrationGraphVerificationHarness(
        subject.graph,
        first.inputs,
        engine=engine,
        device=device,
        scalars=first.scalars,
        guard_elements=GUARD_ELEMENTS,
    )
    try:
        faults = _faults(harness, subject)
    except AssertionError as fault:  # of the reference, by which nothing can be judged then
        return Finding("wrong", str(fault))
    except rd.Error as failure:
        return Finding("wrong", f"accepted, then failed: {failure}")
    return Finding("wrong", "; ".join(faults)) if faults else Finding("passed")


def _faults(harness: IntegrationGraphVerificationHarness, subject: Subject) -> list[str]:
    """What is wrong in the first call in which anything is."""
    first: _Seen | None = None
    limits: dict[Key, Tolerance] = {}
    for call in subject.calls:
        if first is not None:
            harness.change_inputs(call.inputs, call.scalars)
        anything: dict[Key, Tolerance] = {t: Tolerance(absolute=np.inf) for t in call.expected}
        before = harness.verify_graph(anything)
        seen = _Seen(
            call,
            {t: _memory(harness.engine_tensor(t)).copy() for t in call.expected},
            {t: _is_written(harness.reference_tensor(t)) for t in call.expected},
        )
        limits = {t: limits_of(harness, t, wanted) for t, wanted in call.expected.items()}
        faults = harness.verify_graph(limits).faults or before.faults
        if before.changed_inputs:  # so the reference then read others
            faults = before.faults
        if not faults:
            faults = [text for t in call.expected if (text := _other_bits(harness, t, seen))]
        if not faults and first is not None:
            faults = [text for t in call.marks if (text := _moved_bits(t, first, seen))]
        if faults:
            prefix = "" if first is None else "in another call of the plan: "
            return [prefix + text for text in faults]
        first = first or seen
    together = harness.verify_concurrently(THREADS, limits)
    return [f"executed by {THREADS} threads at once: {text}" for text in together.faults]


def _memory(tensor: TensorBase) -> Array:
    """All elements in the order of memory, gaps between strides included."""
    array = tensor.numpy()
    step = (array.itemsize,)
    return np.lib.stride_tricks.as_strided(array, (tensor.element_space(),), step)


def _is_written(reference: TensorBase) -> Array:
    """Which elements of its memory hold something else than the sentinel."""
    one = Tensor([1], None, reference.data_type())
    one.fill_with_sentinel_value()
    memory = _memory(reference)
    width = memory.itemsize
    written: Array = (bits(memory).reshape(-1, width) != bits(one.numpy())).any(axis=1)
    return written


def _fitted(values: Array, count: int) -> Array:
    """Cut, or continued with zeros: a problem's rows may end before or past an output's memory."""
    fitted = np.zeros(count, values.dtype)
    fitted[: values.size] = values[:count]
    return fitted


def limits_of(
    harness: IntegrationGraphVerificationHarness, tensor: rd.TensorAttributes, expected: Expected
) -> Tolerance:
    """For each element of an output's memory its bound and the error of the reference."""
    reference = harness.reference_tensor(tensor)
    memory, written = _memory(reference), _is_written(reference)
    values = _fitted(expected.values, memory.size)
    bounds = _fitted(expected.bounds, memory.size)
    got = np.where(written, memory.astype(values.dtype), values)
    label = f"the reference engine's {tensor.get_name()}"
    off = first_violation(label, ("element",), got, values, bounds)
    if off is not None:
        raise AssertionError(off)
    with np.errstate(invalid="ignore"):
        errors = np.abs(got - values)
    errors = np.where(np.isfinite(errors), errors, 0)
    return Tolerance(limits=np.where(written, bounds + errors, 0).astype(np.float64))


def _difference(got: Array, expected: Array, label: str) -> str | None:
    try:
        assert_same_bits(got, expected, label)
    except AssertionError as difference:
        return str(difference)
    return None


def _other_bits(
    harness: IntegrationGraphVerificationHarness, tensor: rd.TensorAttributes, seen: _Seen
) -> str | None:
    """What differs between two runs of a call, where the reference wrote."""
    again, written = _memory(harness.engine_tensor(tensor)), seen.written[tensor]
    label = f"{tensor.get_name()} of two runs"
    return _difference(again[written], seen.memory[tensor][written], label)


def _by_mark(tensor: rd.TensorAttributes, seen: _Seen) -> tuple[Array, Array]:
    """What was written where there are marks, in the order of these, and these."""
    memory = seen.memory[tensor]
    marks = np.full(memory.size, np.nan)
    known = seen.call.marks[tensor][: memory.size]
    marks[: known.size] = known
    is_marked = seen.written[tensor] & ~np.isnan(marks)
    order = np.argsort(marks[is_marked])
    return memory[is_marked][order], marks[is_marked][order]


def _moved_bits(tensor: rd.TensorAttributes, first: _Seen, seen: _Seen) -> str | None:
    """What differs between the sequences of two calls that hold them in other positions."""
    (was, marks_then), (got, marks_now) = _by_mark(tensor, first), _by_mark(tensor, seen)
    assert np.array_equal(marks_then, marks_now)
    is_number = ~(np.isnan(was) & np.isnan(got))  # the bits of a NaN mean nothing
    label = f"{tensor.get_name()} of the same sequences in another order"
    return _difference(got[is_number], was[is_number], label)
