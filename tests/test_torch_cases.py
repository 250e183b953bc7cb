"""The torch ops, forward and backward by autograd: every named case, and the inputs that users of
attention libraries reported as broken.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import raggeddnn.torch as rt
import torch
from raggeddnn.testing import CASES, Case, make_problem
from raggeddnn.testing.checks import assert_same_bits
from raggeddnn.testing.gradients import GRADIENTS, backward_case, make_backward
from raggeddnn.testing.reported import longer, pads_between, reported, spoilt_sequence
from torch_calls import (
    check_results,
    is_dense,
    is_varlen,
    run_and_check,
    run_dense,
    run_varlen,
)

BOTTOM_RIGHT = {"causal": True, "alignment": "bottom_right"}
# The slowest of the reference engine; other suites run it.
SLOW = ("tile-128",)


@pytest.fixture(autouse=True)
def _new_memory_holds_nan():
    """What an op leaves unwritten shows: PyTorch fills new memory with NaN."""
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory and torch.empty(1).isnan()
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if (is_varlen(c) or is_dense(c)) and c.name not in SLOW],
    ids=lambda case: case.name,
)
def test_case(case):
    run_and_check(case)


@pytest.mark.parametrize("layout", ["packed", "slack", "padded"])
@pytest.mark.parametrize("lens_q", [(0, 5, 33, 7, 0), (0, 1, 0, 1, 0)])
def test_t01_sequences_without_queries_or_keys(layout, lens_q):
    case = replace(reported("t01"), lens_q=lens_q, layout=layout)
    back, got = run_and_check(case)
    at_q, _ = back.forward.rows_of(1)
    assert not got.gradients["dq"][at_q].any() and not got.o[at_q].any()
    _, at_kv = back.forward.rows_of(0)
    assert not got.gradients["dk"][at_kv].any() and not got.gradients["dv"][at_kv].any()


def test_t02_rows_above_the_bottom_right_diagonal():
    _, got = run_and_check(reported("t02"))
    assert not got.o[:33].any() and np.isneginf(got.lse[:, :33]).all()
    assert not got.gradients["dq"][:33].any()
    assert all(np.isfinite(x).all() for x in got.gradients.values())


def test_t03_both_directions_in_one_batch():
    run_and_check(Case("t03", (5, 37, 2), (37, 5, 2), heads=(2, 2, 2), d=64, **BOTTOM_RIGHT))


@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize("causal", [False, True])
def test_t04_garbage_past_the_last_sequence(poison, causal):
    case = replace(reported("t04"), causal=causal)
    clean = make_backward(case)
    exact = run_varlen(clean)
    back = make_backward(longer(make_problem(case), 64, poison))
    back.do[:25] = clean.do
    assert not np.isfinite(back.do[25:]).any()
    got = run_varlen(back)
    check_results(back, got)
    assert_same_bits(got.o[:25], exact.o, "O")
    for name in GRADIENTS:
        assert_same_bits(got.gradients[name][:25], exact.gradients[name], name)


@pytest.mark.parametrize("layout", ["packed", "slack", "padded"])
def test_t05_one_sequence_is_nan(layout):
    back = make_backward(replace(reported("t05"), layout=layout))
    run = run_varlen if back.case.is_ragged else run_dense
    clean = run(back)
    spoilt_sequence(back.forward)
    mixed = run(back)
    for batch in (0, 2):
        at_q, at_kv = back.forward.rows_of(batch)
        assert_same_bits(mixed.o[at_q], clean.o[at_q], f"sequence {batch} O")
        for name in GRADIENTS:
            at = at_q if name == "dq" else at_kv
            assert_same_bits(mixed.gradients[name][at], clean.gradients[name][at], name)
    assert np.isnan(mixed.o[back.forward.rows_of(1)[0]]).all()


def test_t06_rows_past_the_last_offset_are_zero():
    back, got = run_and_check(longer(make_problem(reported("t06")), 16, np.nan))
    assert back.forward.side_q.rows == 16 and not got.o[14:].any()


def test_t07_pads_between_sequences():
    _, got = run_and_check(pads_between(make_problem(reported("t07"))))
    assert not got.o[[3, 6, 7, 12]].any()


@pytest.mark.parametrize("layout", ["packed", "slack", "padded"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_t16_the_loss_depends_on_the_log_sum_exp(layout, dtype):
    case = Case(
        "t16", (9, 0, 14), (14, 7, 9), heads=(4, 2, 2), dstats=True, layout=layout, dtype=dtype
    )
    back, got = run_and_check(case)
    back.dstats = None
    run = run_varlen if back.case.is_ragged else run_dense
    without = run(back)
    assert not np.array_equal(without.gradients["dq"], got.gradients["dq"])
    assert_same_bits(without.gradients["dv"], got.gradients["dv"], "dV does not depend on it")


def test_a_case_without_stats_has_a_backward_pass():
    case = next(c for c in CASES if c.stats == "none")
    assert backward_case(case).stats == "dense"
    run_and_check(case)


def test_seventy_thousand_sequences():
    rows = 70_001
    q, v = torch.randn(rows, 1, 4), torch.randn(rows, 1, 4)
    cu = torch.arange(rows + 1, dtype=torch.int32)
    o = rt.flash_attn_varlen_func(q, q, v, cu, cu, 1, 1)
    assert torch.equal(o, v)
