"""One subject put to one engine by the verification harness, within derived limits.

The harness compares with the reference engine, the limits are those against the oracle: a result
within its bound of the oracle lies within that bound, plus the reference's own error, of the
reference. So the limit of an element is that sum, and the reference has to keep its bounds too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import raggeddnn as rd

from ..tensor import Tensor, TensorBase
from ..testing.checks import assert_same_bits, bits
from ..testing.harness import IntegrationGraphVerificationHarness, Tolerance
from ..testing.oracle import Array
from ..testing.tolerance import Expected, first_violation
from .subject import Key, Subject

GUARD_ELEMENTS = 64


@dataclass(frozen=True)
class Finding:
    """``kind`` is ``passed``, ``refused`` or ``wrong``; ``detail`` the reason, or what is wrong."""

    kind: str
    detail: str = ""


def judge(subject: Subject, engine: str) -> Finding:
    """Run a subject twice on ``engine`` (its full name) and compare.

    Raises what the harness raises for a subject that makes no sense.
    """
    said = next((v for v in subject.graph.explain() if v.engine == engine), None)
    if said is not None and not said.applicable:
        return Finding("refused", said.reason)
    harness = IntegrationGraphVerificationHarness(
        subject.graph,
        subject.inputs,
        engine=engine,
        scalars=subject.scalars,
        guard_elements=GUARD_ELEMENTS,
    )
    try:
        harness.verify_graph({t: Tolerance(absolute=np.inf) for t in subject.expected})
        first = {t: _memory(harness.engine_tensor(t)).copy() for t in subject.expected}
        limits: dict[Key, Tolerance] = {
            t: limits_of(harness, t, wanted) for t, wanted in subject.expected.items()
        }
        report = harness.verify_graph(limits)
    except AssertionError as fault:  # of the reference, by which nothing can be judged then
        return Finding("wrong", str(fault))
    except rd.NotSupportedError as refusal:
        return Finding("refused", str(refusal))
    except rd.Error as failure:
        return Finding("wrong", f"accepted, then failed: {failure}")
    faults = [str(output) for output in report.outputs if not output.passed]
    faults += [f"{label} is an input, and was written" for label in report.changed_inputs]
    if not faults:
        faults = [text for t in first if (text := _other_bits(harness, t, first[t]))]
    return Finding("wrong", "; ".join(faults)) if faults else Finding("passed")


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
    return Tolerance(limits=(bounds + errors).astype(np.float64))


def _other_bits(
    harness: IntegrationGraphVerificationHarness, tensor: rd.TensorAttributes, first: Array
) -> str | None:
    """What differs between the first run and the last, where the reference wrote."""
    written = _is_written(harness.reference_tensor(tensor))
    again = _memory(harness.engine_tensor(tensor))[written]
    try:
        assert_same_bits(again, first[written], f"{tensor.get_name()} of two runs")
    except AssertionError as difference:
        return str(difference)
    return None
