"""Inputs that users of attention libraries reported as broken, as named cases.

``REPORTED`` holds them in the variants that a verification runs; the tests of the same reports
start from :func:`reported` and check more than closeness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .cases import Case, Problem, Side, make_problem

SCALES = (-1.0, 0.0, -0.125, 30.0)
HEAD_DIMS = (40, 72, 80, 96, 160, 192, 256)
WINDOWS = ((0, 0), (3, 0), (4, 2), (-1, 2), (100, 100))
LAYOUTS = ("packed", "slack", "padded")

_BASES = (
    Case("t01", (0, 5, 33, 7, 0), (4, 0, 20, 7, 0), heads=(4, 2, 2), d=40),
    Case("t02", (40, 9), (7, 9), heads=(4, 4, 4), d=64, causal=True, alignment="bottom_right"),
    Case(
        "t03", (5, 37, 2), (37, 5, 2), heads=(4, 4, 4), d=64, causal=True, alignment="bottom_right"
    ),
    Case("t04", (5, 20), (5, 20), d=32, alignment="bottom_right"),
    Case("t05", (6, 10, 3), (6, 10, 3), heads=(2, 1, 1), d=32),
    Case("t06", (10, 4), (7, 7)),
    Case(
        "t07",
        (3, 2, 4),
        (3, 2, 4),
        layout="slack",
        poison="nan",
        causal=True,
        alignment="bottom_right",
    ),
    Case("t11", (24, 24), (24, 24), bias="11qk", bias_fill="-120", amplitude=0.1),
    Case("t12", (9, 20), (30, 20), amplitude=3.0, causal=True, alignment="bottom_right"),
    Case("t14", (5, 18), (18, 3), heads=(14, 2, 2)),
    Case("t15", (10, 30, 6), (30, 10, 6)),
    Case("t15-probe", (9, 6), (9, 6), left_bound=3, right_bound=0),
    Case("t16", (10, 30, 6), (30, 10, 6), heads=(4, 2, 2), causal=True, alignment="bottom_right"),
    Case("t21", (10, 22, 0, 0), (10, 22, 0, 0), capacity=32),
    Case("t22", (9, 12), (12, 7), heads=(4, 2, 2), bias="bhqk"),
    Case("t25", (7, 13, 0, 0, 0), (7, 13, 0, 0, 0), d=72),
)


def reported(name: str) -> Case:
    """The case of a report; KeyError when there is none."""
    return {case.name: case for case in _BASES}[name]


def longer(problem: Problem, rows: int, poison: float) -> Problem:
    """The problem in buffers of ``rows`` rows, what follows the last sequence being poison."""
    for name in ("q", "k", "v"):
        x = getattr(problem, name)
        rest = np.full((rows - x.shape[0], *x.shape[1:]), poison, x.dtype)
        setattr(problem, name, np.concatenate([x, rest]))
    problem.side_q = replace(problem.side_q, rows=rows)
    problem.side_kv = replace(problem.side_kv, rows=rows)
    problem.case = replace(problem.case, poison=str(poison))
    return problem


def pads_between(problem: Problem) -> Problem:
    """Lengths 3, 2, 4 at rows 0, 4, 8 of 13, the rows between them being NaN."""
    side = Side((3, 2, 4), (4, 4, 5), (0, 4, 8), 13, 5)
    for name in ("q", "k", "v"):
        tight = getattr(problem, name)
        x = np.full((13, *tight.shape[1:]), np.nan, tight.dtype)
        for batch in range(3):
            x[side.starts[batch] : side.starts[batch] + side.lens[batch]] = tight[
                problem.rows_of(batch)[0]
            ]
        setattr(problem, name, x)
    problem.side_q = problem.side_kv = side
    return problem


def spoilt_sequence(problem: Problem) -> Problem:
    """The keys and values of the second sequence are NaN."""
    middle = problem.rows_of(1)[1]
    problem.k[middle], problem.v[middle] = np.nan, np.nan
    return problem


def zero_scores(problem: Problem) -> Problem:
    """All queries and keys 0, so that the log-sum-exp counts the visible keys."""
    problem.q[:], problem.k[:] = 0, 0
    return problem


def hidden_by_bias(problem: Problem) -> Problem:
    """The bias hides one key from all, and all keys from one row of one head."""
    assert problem.bias is not None
    problem.bias[:, :, :, 2] = -np.inf
    problem.bias[1, 3, 5, :] = -np.inf
    return problem


def _as_it_is(problem: Problem) -> Problem:
    return problem


@dataclass(frozen=True)
class Reported:
    """A variant of a report: its case, what of it broke, and what is done to the case's problem."""

    case: Case
    about: str
    change: Callable[[Problem], Problem] = _as_it_is

    def problem(self) -> Problem:
        return self.change(make_problem(self.case))


def _named(base: str, suffix: str, **changes: Any) -> Case:
    return replace(reported(base), name=f"{base}-{suffix}", **changes)


def _layouts() -> Iterator[Reported]:
    for layout in LAYOUTS:
        yield Reported(_named("t01", layout, layout=layout), "sequences without queries or keys")
        one = _named("t01", f"one-query-{layout}", layout=layout, lens_q=(0, 1, 0, 1, 0))
        yield Reported(one, "at most one query")
    yield Reported(reported("t02"), "rows that see no key, above the bottom-right diagonal")
    yield Reported(reported("t03"), "more queries than keys and fewer, in one batch")
    for poison in (np.nan, np.inf):
        for causal in (False, True):
            case = _named("t04", f"{poison}{'-causal' if causal else ''}", causal=causal)
            yield Reported(
                case,
                "garbage in the buffer past the last sequence",
                partial(longer, rows=64, poison=poison),
            )
    for lens in ((10, 22, 0, 0), (1, 1, 1, 29), (32, 0, 0, 0), (0, 0, 31, 1)):
        suffix = "-".join(map(str, lens))
        case = _named("t21", suffix, lens_q=lens, lens_kv=lens)
        yield Reported(case, "few rows of a large capacity")
    yield Reported(
        reported("t06"), "rows past the last offset", partial(longer, rows=16, poison=np.nan)
    )
    yield Reported(reported("t07"), "padding rows between the sequences", pads_between)
    yield Reported(reported("t25"), "offsets that repeat")


def _scores() -> Iterator[Reported]:
    for layout in ("packed", "padded"):
        case = _named("t11", layout, layout=layout)
        yield Reported(case, "a bias far below zero everywhere")
    for scale in SCALES:
        for state in ("baked", "baked_tensor", "runtime_default", "runtime"):
            case = _named("t12", f"scale{scale:g}-{state}", scale=scale, scale_state=state)
            yield Reported(case, "a scale that is zero, negative or large")
        lens = {"lens_q": (30, 20), "lens_kv": (9, 20)}
        case = _named("t12", f"scale{scale:g}-dead", scale=scale, scale_state="runtime", **lens)
        yield Reported(case, "the same with rows that see no key")
    for left, right in WINDOWS:
        for alignment in ("top_left", "bottom_right"):
            bounds = {"left_bound": left, "right_bound": right, "alignment": alignment}
            case = _named("t15", f"{left}-{right}-{alignment}", **bounds)
            yield Reported(case, "windows, both ends inclusive")
    for layout in ("slack", "padded"):
        bounds = {"left_bound": 4, "right_bound": 2, "alignment": "bottom_right"}
        yield Reported(_named("t15", layout, layout=layout, **bounds), "windows by valid rows")
    for alignment in ("top_left", "bottom_right"):
        case = _named("t15-probe", alignment, alignment=alignment)
        yield Reported(case, "a window of three counts four keys", zero_scores)
    for layout in ("packed", "padded"):
        case = _named("t22", layout, layout=layout)
        yield Reported(case, "a bias of its own for each sequence and query head", hidden_by_bias)


def _sizes() -> Iterator[Reported]:
    for d in HEAD_DIMS:
        yield Reported(_named("t14", f"d{d}", d=d), "many query heads on few, of any head size")
    for d, d_v in ((40, 136), (72, 24), (256, 24)):
        yield Reported(_named("t14", f"d{d}-{d_v}", d=d, d_v=d_v), "values of another head size")


REPORTED: tuple[Reported, ...] = (*_layouts(), *_scores(), *_sizes())

REPORTED_FORWARD: tuple[Reported, ...] = tuple(
    Reported(_named("t05", layout, layout=layout), "one sequence is NaN", spoilt_sequence)
    for layout in LAYOUTS
)
"""What only the forward pass shows, and below what only the backward pass does."""
REPORTED_BACKWARD: tuple[Reported, ...] = tuple(
    Reported(_named("t16", layout, layout=layout, dstats=True), "a loss of the log-sum-exp")
    for layout in LAYOUTS
)
