"""The oracle against loops written from the definition, and against identities of softmax."""

from __future__ import annotations

import math

import numpy as np
import pytest
from raggeddnn.testing import (
    CASES,
    Case,
    SdpaOptions,
    assert_sdpa_close,
    case_named,
    error_bound,
    first_violation,
    make_problem,
    padded_oracle,
    plain_sdpa,
    ragged_oracle,
    sdpa_oracle,
    visible_keys,
)


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def slow_row(query, keys, values, *, scale, bias, seen):
    """One output row and its LSE from Python numbers, exactly summed."""
    scores = [
        scale * math.fsum(float(a) * float(b) for a, b in zip(query, key, strict=True))
        + float(extra)
        for key, extra in zip(keys, bias, strict=True)
    ]
    chosen = [c for c in range(len(scores)) if seen[c] and scores[c] > -math.inf]
    if not chosen:
        return [0.0] * values.shape[1], -math.inf
    peak = max(scores[c] for c in chosen)
    weights = {c: math.exp(scores[c] - peak) for c in chosen}
    total = math.fsum(weights.values())
    row = [
        math.fsum(w * float(values[c, d]) for c, w in weights.items()) / total
        for d in range(values.shape[1])
    ]
    return row, peak + math.log(total)


def sees(row, col, rows, cols, options):
    """The definition of visibility, one pair at a time."""
    offset = cols - rows if options.diagonal_alignment == "bottom_right" else 0
    right = 0 if options.causal else options.right_bound
    if right is not None and right >= 0 and col > row + offset + right:
        return False
    left = options.left_bound
    return not (left is not None and left >= 0 and col < row + offset - left)


OPTIONS = [
    SdpaOptions(),
    SdpaOptions(scale=-0.7),
    SdpaOptions(causal=True),
    SdpaOptions(causal=True, diagonal_alignment="bottom_right"),
    SdpaOptions(left_bound=1, right_bound=2),
    SdpaOptions(left_bound=3, right_bound=0, diagonal_alignment="bottom_right"),
    SdpaOptions(left_bound=0, right_bound=-1),
    SdpaOptions(left_bound=2**63 - 1, right_bound=2**63 - 1, diagonal_alignment="bottom_right"),
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("rows", "cols"), [(5, 7), (7, 3), (1, 1), (3, 0), (0, 4)])
def test_equals_loops_from_the_definition(options, rows, cols):
    q, k, v = draw(4, rows, 6, seed=1), draw(2, cols, 6, seed=2), draw(4, cols, 3, seed=3)
    bias = draw(4, rows, cols, seed=4)
    bias[np.random.default_rng(5).random(bias.shape) < 0.2] = -np.inf
    o, lse = sdpa_oracle(
        q.astype(np.float32), k.astype(np.float32), v.astype(np.float32), options, bias=bias
    )
    q, k, v = (x.astype(np.float32).astype(np.float64) for x in (q, k, v))
    for head in range(4):
        for row in range(rows):
            seen = [sees(row, col, rows, cols, options) for col in range(cols)]
            slow_o, slow_lse = slow_row(
                q[head, row],
                k[head // 2],
                v[head],
                scale=options.scale_for(6),
                bias=bias[head, row],
                seen=seen,
            )
            bound = 64 * np.finfo(np.float64).eps
            np.testing.assert_allclose(o[head, row], slow_o, rtol=bound, atol=bound)
            np.testing.assert_allclose(lse[head, row], slow_lse, rtol=bound, atol=bound)


def test_uniform_scores_give_the_mean_and_the_log_of_the_count():
    v = draw(2, 9, 4)
    o, lse = sdpa_oracle(np.zeros((2, 3, 5)), draw(2, 9, 5), v)
    assert np.allclose(o.astype(float), v.mean(axis=1)[:, None, :], rtol=1e-15, atol=1e-15)
    assert np.all(lse.astype(float) == math.log(9))


def test_scale_zero_counts_visible_keys():
    options = SdpaOptions(scale=0.0, causal=True)
    q, k, v = (draw(1, 6, 4, seed=n) for n in range(3))
    o, lse = sdpa_oracle(q, k, v, options)
    for row in range(6):
        assert float(lse[0, row]) == pytest.approx(math.log(row + 1), rel=1e-15)
        assert np.allclose(o[0, row].astype(float), v[0, : row + 1].mean(axis=0), rtol=1e-14)


def test_window_probe_counts_self_and_three_before():
    options = SdpaOptions(left_bound=3, right_bound=0)
    _, lse = sdpa_oracle(np.zeros((1, 8, 2)), np.zeros((1, 8, 2)), draw(1, 8, 2), options)
    counts = np.exp(lse[0].astype(float))
    np.testing.assert_allclose(counts, [1, 2, 3, 4, 4, 4, 4, 4], rtol=1e-14)


def test_visibility_by_hand():
    bottom = SdpaOptions(causal=True, diagonal_alignment="bottom_right")
    assert visible_keys(2, 4, bottom).tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert visible_keys(4, 2, bottom).tolist() == [[0, 0], [0, 0], [1, 0], [1, 1]]
    assert visible_keys(2, 3, SdpaOptions(causal=True)).tolist() == [[1, 0, 0], [1, 1, 0]]
    band = SdpaOptions(left_bound=1, right_bound=1)
    assert visible_keys(3, 4, band).tolist() == [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1]]


def test_adding_a_constant_to_the_bias_moves_only_the_log_sum_exp():
    q, k, v = (draw(2, 5, 4, seed=n) for n in range(3))
    o, lse = sdpa_oracle(q, k, v)
    moved_o, moved_lse = sdpa_oracle(q, k, v, bias=np.full((1, 1, 1), 8.0))
    assert np.allclose(moved_o.astype(float), o.astype(float), rtol=1e-15, atol=1e-15)
    assert np.allclose((moved_lse - 8).astype(float), lse.astype(float), rtol=1e-14)


def test_rows_without_keys_are_zero_and_minus_infinity():
    options = SdpaOptions(causal=True, diagonal_alignment="bottom_right")
    o, lse = sdpa_oracle(draw(1, 6, 3), draw(1, 2, 3), draw(1, 2, 3), options)
    assert not o[0, :4].any() and o[0, 4:].all()
    assert np.isneginf(lse[0, :4]).all() and np.isfinite(lse[0, 4:]).all()


@pytest.mark.parametrize("amplitude", [1e-300, 1e-160, 1e150, 1e300])
def test_magnitudes_up_to_the_range_of_double(amplitude):
    q = np.array([[[amplitude, 0.0]]])
    k = np.array([[[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0]]]) * amplitude
    v = np.array([[[1.5], [2.5], [4.0]]]) * 1e307
    o, lse = sdpa_oracle(q, k, v, SdpaOptions(scale=1.0))
    expected = 2.5e307 if amplitude > 1 else 8e307 / 3
    assert float(o[0, 0, 0]) == pytest.approx(expected, rel=1e-15)
    if amplitude < 1:
        assert float(lse[0, 0]) == pytest.approx(math.log(3), rel=1e-15)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_takes_every_data_type(dtype):
    problem = make_problem(Case(f"dtype-{dtype}", (4, 3), (5, 2), dtype=dtype))
    wide = make_problem(Case(f"dtype-{dtype}", (4, 3), (5, 2), dtype=dtype))
    wide.q, wide.k, wide.v = (x.astype(np.float64) for x in (wide.q, wide.k, wide.v))
    o, lse, _ = problem.expected()
    wide_o, wide_lse, _ = wide.expected()
    assert o.dtype == np.float64
    assert np.allclose(o, wide_o.astype(float), rtol=1e-13, atol=1e-14)
    assert np.allclose(lse, wide_lse.astype(float), rtol=1e-13)


@pytest.mark.parametrize("layout", ["packed", "slack", "padded"])
def test_batched_forms_agree_with_single_sequences(layout):
    case = Case(
        f"batched-{layout}",
        (3, 0, 5),
        (4, 2, 0),
        heads=(4, 2, 1),
        layout=layout,
        poison="nan",
        bias="bhqk",
        causal=True,
    )
    problem = make_problem(case)
    o, lse, written = problem.expected()
    side_q, side_kv = problem.side_q, problem.side_kv
    if layout == "padded":
        q, k, v = (
            x.reshape(3, -1, *x.shape[1:]).transpose(0, 2, 1, 3)
            for x in (problem.q, problem.k, problem.v)
        )
        got_o, got_lse, mask = padded_oracle(
            q, k, v, side_q.lens, side_kv.lens, options=case.options, bias=problem.bias
        )
        got_o = got_o.transpose(0, 2, 1, 3).reshape(o.shape)
        got_lse, mask = got_lse.transpose(1, 0, 2).reshape(lse.shape), mask.reshape(-1)
    else:
        got_o, got_lse, mask = ragged_oracle(
            problem.q,
            problem.k,
            problem.v,
            side_q.offsets,
            side_kv.offsets,
            options=case.options,
            seqused_q=side_q.lens,
            seqused_kv=side_kv.lens,
            bias=problem.bias,
        )
    assert np.array_equal(got_o, o) and np.array_equal(got_lse, lse)
    assert np.array_equal(mask, written) and written.sum() == 8


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_plain_computation_keeps_its_own_bounds(case):
    problem = make_problem(case)
    o = np.zeros((problem.side_q.rows, case.heads[0], case.value_dim), dtype=problem.q.dtype)
    lse = np.zeros((case.heads[0], problem.side_q.rows), dtype=np.float32)
    for batch, (q, k, v, bias) in problem.sequences():
        at = problem.rows_of(batch)[0]
        part_o, lse[:, at] = plain_sdpa(
            q, k, v, problem.options, bias=bias, dropout=problem.dropout_of(batch)
        )
        o[at] = part_o.transpose(1, 0, 2)
    assert_sdpa_close(o, lse, problem)


def test_tolerance_catches_one_wrong_element_and_names_it():
    problem = make_problem(case_named("gqa"))
    o, lse, _ = problem.expected()
    good_o, good_lse = o.astype(np.float32), lse.astype(np.float32)
    assert_sdpa_close(good_o, good_lse, problem)
    bad_o, bad_lse = good_o.copy(), good_lse.copy()
    bad_o[9, 3, 5] += 1e-4
    with pytest.raises(
        AssertionError, match=r"sequence 1\] O at head 3, row 2, col 5: got .*expected"
    ):
        assert_sdpa_close(bad_o, good_lse, problem)
    bad_lse[1, 4] = np.nan
    with pytest.raises(AssertionError, match=r"sequence 0\] LSE at head 1, row 4: got nan"):
        assert_sdpa_close(good_o, bad_lse, problem)


def test_dead_rows_allow_no_error_at_all():
    problem = make_problem(case_named("dead-rows"))
    o, lse, _ = problem.expected()
    o, lse = o.astype(np.float32), lse.astype(np.float32)
    assert_sdpa_close(o, lse, problem)
    o[0, 0, 0] = np.finfo(np.float32).tiny
    with pytest.raises(AssertionError, match="O at head 0, row 0, col 0"):
        assert_sdpa_close(o, lse, problem)
    o[0, 0, 0], lse[0, 0] = 0, -1e30
    with pytest.raises(AssertionError, match=r"LSE .* expected -inf"):
        assert_sdpa_close(o, lse, problem)


def test_bounds_follow_the_rule():
    oracle = np.array([[1.0, -4.0], [0.5, -np.inf]])
    plain = [np.array([[1.25, -4.0], [0.5, 3.0]]), np.array([[1.0, -4.0], [0.5, np.nan]])]
    eps = float(np.finfo(np.float32).eps)
    bound = error_bound(oracle, plain, np.dtype(np.float32))
    assert bound.tolist() == [[0.5 + 16 * eps] * 2, [0.5 + 2 * eps, 0]]
    gradient = error_bound(oracle, plain, np.dtype(np.float32), gradient=True)
    assert gradient[0, 0] == 0.75 + 16 * eps
    assert first_violation("x", ("r", "c"), oracle.copy(), oracle, bound) is None


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match="k has 3 heads"):
        sdpa_oracle(draw(4, 2, 2), draw(3, 2, 2), draw(2, 2, 2))
    with pytest.raises(ValueError, match="k has head dim 3, q has 2"):
        sdpa_oracle(draw(4, 2, 2), draw(2, 2, 3), draw(2, 2, 2))
    with pytest.raises(ValueError, match="v has 5 rows, k has 2"):
        sdpa_oracle(draw(4, 2, 2), draw(2, 2, 2), draw(2, 5, 2))
    with pytest.raises(ValueError, match="diagonal_alignment"):
        SdpaOptions(diagonal_alignment="middle")
    with pytest.raises(ValueError, match="right_bound 3"):
        SdpaOptions(causal=True, right_bound=3)
