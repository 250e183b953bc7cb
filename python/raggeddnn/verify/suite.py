"""The names of all cases, in the order in which they run."""

from __future__ import annotations

import fnmatch
import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from ..testing.cases import CASES, Case, Problem, make_problem
from ..testing.gradients import backward_case
from ..testing.reported import REPORTED, REPORTED_BACKWARD, REPORTED_FORWARD, Reported
from .attention import any_position_subject, backward_subject, describe, forward_subject
from .layouts import layout_cases
from .operations import operation_cases
from .subject import Subject, VerifyCase

# Cases of float32 that also run in the half types.
IN_HALF_TYPES = (
    "edges-slack",
    "padded-bhsd",
    "gqa-k-v-differ",
    "tiles-causal-br",
    "mixed-directions",
    "window-br-slack",
    "scale-runtime",
    "bias-bhqk-holes",
    "dropout",
)
# The stored log-sum-exp of these cannot tell probabilities apart, whoever computes it.
NOT_BACKWARD = ("very-loud",)
OPERATION_TYPES = ("float32", "float64", "float16", "bfloat16")


def _attention(reports: Sequence[Reported]) -> Iterator[Reported]:
    for case in CASES:
        yield Reported(case, "")
        if case.name in IN_HALF_TYPES:
            for dtype in ("float16", "bfloat16"):
                yield Reported(replace(case, name=f"{case.name}-{dtype}", dtype=dtype), "")
    yield from reports


def _backward_problem(report: Reported) -> Problem:
    return report.change(make_problem(backward_case(report.case)))


def _forward(report: Reported) -> Subject:
    return forward_subject(report.problem())


def _backward(report: Reported) -> Subject:
    return backward_subject(_backward_problem(report))


def _about(report: Reported) -> str:
    return f"{report.about}: {describe(report.case)}" if report.about else describe(report.case)


def _has_bfloat16() -> bool:
    return importlib.util.find_spec("ml_dtypes") is not None


def _of_type(case: Case) -> bool:
    return case.dtype != "bfloat16" or _has_bfloat16()


def all_cases() -> list[VerifyCase]:
    """Every case that this Python can run: those of bfloat16 need the package ml_dtypes."""
    found = []
    for report in _attention((*REPORTED, *REPORTED_FORWARD)):
        # The gradient of stats is the backward pass's; without it the case says nothing new.
        if _of_type(report.case) and not report.case.dstats:
            name = f"sdpa/{report.case.name}"
            found.append(VerifyCase(name, _about(report), partial(_forward, report)))
    about = "packed, float32, sums that depend on their order: the same bits in any position"
    found.append(VerifyCase("sdpa/any-position", about, any_position_subject))
    found.extend(layout_cases())
    for report in _attention((*REPORTED, *REPORTED_BACKWARD)):
        if _of_type(report.case) and report.case.name not in NOT_BACKWARD:
            name = f"sdpa_backward/{report.case.name}"
            found.append(VerifyCase(name, _about(report), partial(_backward, report)))
    dtypes = tuple(d for d in OPERATION_TYPES if d != "bfloat16" or _has_bfloat16())
    return [*found, *operation_cases(dtypes)]


def chosen_cases(globs: Sequence[str] | None) -> list[VerifyCase]:
    """The cases whose names match one of the globs, all without any; in the order of the suite.

    Raises ValueError for a glob that matches none.
    """
    cases = all_cases()
    for glob in globs or ():
        if not any(fnmatch.fnmatchcase(case.name, glob) for case in cases):
            raise ValueError(f"no case matches {glob!r}; --list names them")
    if not globs:
        return cases
    return [c for c in cases if any(fnmatch.fnmatchcase(c.name, glob) for glob in globs)]
