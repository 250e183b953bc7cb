"""Inputs that users of attention libraries reported as broken: the forward pass, one test per
report.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import raggeddnn as rd
import raggeddnn.varlen
from raggeddnn.testing import (
    SdpaOptions,
    assert_sdpa_close,
    assert_sequence_close,
    make_problem,
    ragged_oracle,
    sdpa_oracle,
)
from raggeddnn.testing.checks import assert_same_bits, is_reference, run_and_check
from raggeddnn.testing.graphs import sdpa_graph
from raggeddnn.testing.reported import (
    HEAD_DIMS,
    LAYOUTS,
    SCALES,
    WINDOWS,
    hidden_by_bias,
    longer,
    reported,
    spoilt_sequence,
    zero_scores,
)


def cu(*lens):
    return np.cumsum([0, *lens]).astype(np.int32)


def draw(*shape, seed=0, amplitude=1.0):
    rng = np.random.default_rng(seed)
    return (amplitude * rng.standard_normal(shape)).astype(np.float32)


def check(build, case):
    problem = make_problem(case)
    sdpa = sdpa_graph(problem)
    outputs = run_and_check(sdpa, build(sdpa), problem)
    return sdpa.o_rows(outputs, problem), sdpa.lse_rows(outputs, problem)


def check_varlen(varlen, qkv, offsets, options=None, **arguments):
    """Run ``varlen.sdpa`` and compare each sequence with the oracle; returns (o, lse)."""
    o, lse = varlen(*qkv, *offsets, return_lse=True, **arguments)
    for batch in range(len(offsets[0]) - 1):
        at_q = slice(offsets[0][batch], offsets[0][batch + 1])
        at_k = slice(offsets[1][batch], offsets[1][batch + 1])
        inputs = [x[at].transpose(1, 0, 2) for x, at in zip(qkv, (at_q, at_k, at_k), strict=True)]
        assert_sequence_close(
            o[at_q].transpose(1, 0, 2), lse[:, at_q], tuple(inputs), options, label=f"seq {batch}"
        )
    return o, lse


@pytest.mark.parametrize("layout", LAYOUTS)
def test_t01_sequences_without_queries_or_keys(build, layout):
    case = replace(reported("t01"), layout=layout)
    problem = make_problem(case)
    o, lse = check(build, case)
    rows = problem.rows_of(1)[0]
    assert not o[rows].any() and np.isneginf(lse[:, rows]).all()


def test_t01_one_query_at_most(varlen):
    qkv = draw(2, 4, 40), draw(31, 2, 40, seed=1), draw(31, 2, 40, seed=2)
    offsets = cu(0, 1, 0, 1), cu(4, 20, 7, 0)
    o, lse = check_varlen(varlen, qkv, offsets, max_seqlen_q=1, max_seqlen_k=20)
    assert o[0].any() and not o[1].any() and np.isneginf(lse[:, 1]).all()


def test_t02_rows_above_the_bottom_right_diagonal(build):
    o, lse = check(build, reported("t02"))
    assert not o[:33].any() and np.isneginf(lse[:, :33]).all()
    assert np.isfinite(o).all() and np.isfinite(lse[:, 33:]).all()


def test_t03_both_directions_in_one_batch(build):
    check(build, reported("t03"))


@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize("causal", [False, True])
def test_t04_garbage_past_the_last_sequence(varlen, poison, causal):
    full = [draw(64, 2, 32, seed=n) for n in range(3)]
    for x in full:
        x[25:] = poison
    offsets = cu(5, 20), cu(5, 20)
    options = SdpaOptions(causal=causal, diagonal_alignment="bottom_right")
    o, lse = check_varlen(varlen, full, offsets, options, causal=causal)
    exact = [np.ascontiguousarray(x[:25]) for x in full]
    exact_o, exact_lse = varlen(*exact, *offsets, return_lse=True, causal=causal)
    assert_same_bits(o[:25], exact_o, "O")
    assert_same_bits(lse[:, :25], exact_lse, "LSE")
    assert not o[25:].any() and np.isneginf(lse[:, 25:]).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_t05_one_sequence_is_nan(build, layout):
    case = replace(reported("t05"), layout=layout)
    problem, spoilt = make_problem(case), spoilt_sequence(make_problem(case))
    sdpa = sdpa_graph(problem)
    plan = build(sdpa)
    clean, mixed = sdpa.run(plan, problem, 0.0), sdpa.run(plan, spoilt, 0.0)
    for batch in (0, 2):
        at = problem.rows_of(batch)[0]
        for name, rows in (("O", sdpa.o_rows), ("LSE", sdpa.lse_rows)):
            got, expected = rows(mixed, problem), rows(clean, problem)
            got, expected = (
                (got[at], expected[at]) if name == "O" else (got[:, at], expected[:, at])
            )
            assert_same_bits(got, expected, f"sequence {batch} {name}")


def test_t06_rows_past_the_last_offset_are_zero(varlen):
    qkv = [draw(434, 2, 16, seed=n) for n in range(3)]
    out = np.full_like(qkv[0], np.nan)
    offsets = cu(100, 1, 200, 131)
    _, lse = check_varlen(varlen, qkv, (offsets, offsets), out=out)
    assert not out[432:].any() and np.isneginf(lse[:, 432:]).all()
    assert out[:432].any(axis=(1, 2)).all()


def test_t06_a_plan_leaves_them_alone(build):
    problem = longer(make_problem(reported("t06")), 16, np.nan)
    sdpa = sdpa_graph(problem)
    run_and_check(sdpa, build(sdpa), problem)


def test_t07_pads_between_sequences(varlen):
    lens, starts, pads = [3, 2, 4], np.array([0, 4, 8, 13], np.int32), [3, 6, 7, 12]
    qkv = [draw(13, 2, 16, seed=n) for n in range(3)]
    for x in qkv:
        x[pads] = np.nan
    used = np.array(lens, np.int32)
    out = np.full((13, 2, 16), np.nan, np.float32)
    o, lse = varlen(
        *qkv, starts, starts, seqused_q=used, seqused_k=used, causal=True, out=out, return_lse=True
    )
    for start, length in zip(starts, lens, strict=False):
        rows = slice(start, start + length)
        inputs = tuple(x[rows].transpose(1, 0, 2) for x in qkv)
        options = SdpaOptions(causal=True, diagonal_alignment="bottom_right")
        assert_sequence_close(o[rows].transpose(1, 0, 2), lse[:, rows], inputs, options)
    assert o is out and not o[pads].any() and np.isneginf(lse[:, pads]).all()


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_t11_a_bias_far_below_zero(build, layout):
    case = replace(reported("t11"), layout=layout)
    problem = make_problem(case)
    _, lse = check(build, case)
    assert (np.round(lse[:, problem.side_q.written]) == -117).all()


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("state", ["baked", "baked_tensor", "runtime_default", "runtime"])
@pytest.mark.parametrize("swapped", [False, True], ids=["all-rows-live", "dead-rows"])
def test_t12_scales_of_any_sign(build, scale, state, swapped):
    lens = ((30, 20), (9, 20)) if swapped else ((9, 20), (30, 20))
    options = {"scale": scale, "scale_state": state}
    case = replace(reported("t12"), lens_q=lens[0], lens_kv=lens[1], **options)
    problem = make_problem(case)
    o, lse = check(build, case)
    if swapped:
        assert not o[:21].any() and np.isneginf(lse[:, :21]).all()
    if scale != 0.0:
        return
    for batch, (_, k, v, _) in problem.sequences():
        for row in range(lens[0][batch]):
            count = k.shape[1] - lens[0][batch] + row + 1
            if count > 0:
                one_q = np.zeros((2, 1, 16), np.float32)
                at = problem.rows_of(batch)[0].start + row
                assert_sequence_close(
                    o[at][:, None], lse[:, at : at + 1], (one_q, k[:, :count], v[:, :count])
                )


@pytest.mark.parametrize("d", HEAD_DIMS)
@pytest.mark.parametrize("d_v", [None, 24, 136])
def test_t14_head_sizes_with_guard_bands(build, d, d_v):
    problem = make_problem(replace(reported("t14"), d=d, d_v=d_v))
    sdpa = sdpa_graph(problem)
    plan = build(sdpa)
    shapes = {name: x.shape for name, x in sdpa.new_outputs(problem, 0.0).items()}
    guarded = {n: np.full(np.prod(s) + 128, np.nan, np.float32) for n, s in shapes.items()}
    outputs = {name: flat[64:-64].reshape(shapes[name]) for name, flat in guarded.items()}
    plan.execute(sdpa.pack(problem, outputs))
    assert_sdpa_close(sdpa.o_rows(outputs, problem), sdpa.lse_rows(outputs, problem), problem)
    for flat in guarded.values():
        assert np.isnan(flat[:64]).all() and np.isnan(flat[-64:]).all()


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("alignment", ["top_left", "bottom_right"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_t15_windows(build, window, alignment, layout):
    case = replace(reported("t15"), alignment=alignment, layout=layout)
    windowed = replace(case, left_bound=window[0], right_bound=window[1])
    o, lse = check(build, windowed)
    if window == (100, 100):
        open_o, open_lse = check(build, case)
        written = make_problem(case).side_q.written
        assert_same_bits(o[written], open_o[written], "O")
        assert_same_bits(lse[:, written], open_lse[:, written], "LSE")


@pytest.mark.parametrize("alignment", ["top_left", "bottom_right"])
def test_t15_a_window_of_three_counts_four(build, alignment):
    problem = zero_scores(make_problem(replace(reported("t15-probe"), alignment=alignment)))
    sdpa = sdpa_graph(problem)
    lse = sdpa.lse_rows(run_and_check(sdpa, build(sdpa), problem), problem)
    assert (lse[:, 3:9] == np.float32(np.log(4.0))).all()
    assert (lse[:, 12:] == np.float32(np.log(4.0))).all()


def test_t15_windows_in_one_call_are_bottom_right(varlen):
    qkv = draw(46, 2, 8), draw(46, 2, 8, seed=1), draw(46, 2, 8, seed=2)
    offsets = cu(10, 30, 6), cu(30, 10, 6)
    for window in [(0, 0), (3, 0), (4, 2), (-1, 2), (2, -1), (100, 100)]:
        options = SdpaOptions(
            left_bound=window[0], right_bound=window[1], diagonal_alignment="bottom_right"
        )
        check_varlen(varlen, qkv, offsets, options, window_size=window)


def test_t17_more_sequences_than_a_grid_axis(varlen):
    count = 65_537
    qkv = [draw(count, 1, 4, seed=n) for n in range(3)]
    offsets = np.arange(count + 1, dtype=np.int32)
    o = varlen(*qkv, offsets, offsets, max_seqlen_q=1, max_seqlen_k=1)
    assert_same_bits(o, qkv[2], "O is V")


def test_t17_more_heads_than_a_grid_axis(varlen):
    qkv = [draw(1, 65_537, 4, seed=n) for n in range(3)]
    offsets = np.array([0, 1], dtype=np.int32)
    assert_same_bits(varlen(*qkv, offsets, offsets), qkv[2], "O is V")


@pytest.mark.parametrize("names", [("q",), ("k",), ("v",), ("q", "k", "v")])
def test_t19_inputs_are_broadcast_over_heads(engine, names):
    arrays = {name: draw(2, 4, 6, 8, seed=seed) for seed, name in enumerate("qkv")}
    shared = {
        name: np.broadcast_to(x[:, :1], x.shape) if name in names else x
        for name, x in arrays.items()
    }
    results = []
    for inputs in (shared, {name: np.ascontiguousarray(x) for name, x in shared.items()}):
        graph = rd.Graph(io_data_type=rd.DataType.FLOAT)
        tensors = {
            name: graph.tensor(name=name, dim=list(x.shape), stride=[n // 4 for n in x.strides])
            for name, x in inputs.items()
        }
        o, stats = graph.sdpa(*tensors.values(), generate_stats=True)
        outputs = {
            o.set_output(True): np.full((2, 4, 6, 8), np.nan, np.float32),
            stats.set_output(True): np.full((2, 4, 6, 1), np.nan, np.float32),
        }
        try:
            plan = graph.build(engine=engine)
        except rd.NotSupportedError as refusal:
            if is_reference(engine):
                raise
            pytest.skip(f"{engine} refuses: {refusal}")
        plan.execute({**{tensors[name]: x for name, x in inputs.items()}, **outputs})
        results.append(list(outputs.values()))
    for one, other in zip(*results, strict=True):
        assert not np.isnan(one).any()
        assert_same_bits(one, other, "broadcast over heads")


def test_t20_same_shapes_other_strides_scale_type_window(varlen):
    offsets = cu(9, 14), cu(12, 11)
    q, wide_k, v = draw(23, 2, 16), draw(23, 4, 16, seed=1), draw(23, 2, 16, seed=2)
    contiguous, interleaved = np.ascontiguousarray(wide_k[:, :2]), wide_k[:, ::2]
    for _ in range(2):
        check_varlen(varlen, (q, contiguous, v), offsets)
        check_varlen(varlen, (q, interleaved, v), offsets)
        check_varlen(varlen, (q, interleaved, v), offsets, SdpaOptions(scale=0.5), scale=0.5)
        halves = tuple(x.astype(np.float16) for x in (q, contiguous, v))
        check_varlen(varlen, halves, offsets)
        window = SdpaOptions(left_bound=2, right_bound=1, diagonal_alignment="bottom_right")
        check_varlen(varlen, (q, contiguous, v), offsets, window, window_size=(2, 1))
        same = varlen(q, interleaved, v, *offsets)
        copied = varlen(q, np.ascontiguousarray(interleaved), v, *offsets)
        assert_same_bits(same, copied, "interleaved K")


def test_t21_one_plan_four_sets_of_lengths(build):
    base = reported("t21")
    sdpa = sdpa_graph(make_problem(base))
    plan = build(sdpa)
    for lens in [(10, 22, 0, 0), (1, 1, 1, 29), (32, 0, 0, 0), (0, 0, 31, 1)]:
        run_and_check(sdpa, plan, make_problem(replace(base, lens_q=lens, lens_kv=lens)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_t22_bias_of_each_sequence_with_hidden_columns_and_rows(build, layout):
    problem = hidden_by_bias(make_problem(replace(reported("t22"), layout=layout)))
    sdpa = sdpa_graph(problem)
    outputs = run_and_check(sdpa, build(sdpa), problem)
    row = problem.rows_of(1)[0].start + 5
    assert not sdpa.o_rows(outputs, problem)[row, 3].any()
    assert np.isneginf(sdpa.lse_rows(outputs, problem)[3, row])


def test_t25_repeated_offsets_are_valid(varlen):
    qkv = [draw(20, 2, 72, seed=n) for n in range(3)]
    offsets = np.array([0, 7, 20, 20, 20, 20], dtype=np.int32)
    o, lse = check_varlen(varlen, qkv, (offsets, offsets))
    expected, expected_lse, written = ragged_oracle(*qkv, offsets, offsets)
    assert written.all() and o.shape == expected.shape and lse.shape == expected_lse.shape


T25_INVALID = [
    ([1, 7, 20], {}, r"cu_seqlens_{s}\[0\] is 1, expected 0"),
    ([0, 12, 8, 16], {}, r"cu_seqlens_{s}\[2\] is 8, expected at least 12"),
    ([0, 7, 21], {}, r"cu_seqlens_{s}\[2\] is 21, expected at most 20"),
    ([0, 13, 20], {"max_seqlen_{s}": 12}, r"max_seqlen_{s} is 12, expected at least 13.*index 0"),
    ([0, 20, 40, 60], {}, r"cu_seqlens_{s}\[2\] is 40, expected at most 20"),
    ([0, -7, 20], {}, r"cu_seqlens_{s}\[1\] is -7, expected at least 0"),
    ([0, 7, 20], {"seqused_{s}": [7, -1]}, r"seqused_{s}\[1\] is -1, expected 0 to 13"),
    ([0, 7, 20], {"seqused_{s}": [8, 1]}, r"seqused_{s}\[0\] is 8, expected 0 to 7"),
]


@pytest.mark.parametrize("side", ["q", "k"])
@pytest.mark.parametrize(("values", "extra", "message"), T25_INVALID)
@pytest.mark.parametrize("integers", [np.int32, np.int64])
def test_t25_bad_metadata_is_named_before_any_write(side, values, extra, message, integers):
    qkv = [draw(20, 2, 72, seed=n) for n in range(3)]
    bad = np.array(values, dtype=integers)
    good = np.linspace(0, 20, bad.size).astype(integers)
    options = {
        name.format(s=side): np.array(x, integers) if isinstance(x, list) else x
        for name, x in extra.items()
    }
    out = np.full_like(qkv[0], np.nan)
    offsets = (bad, good) if side == "q" else (good, bad)
    with pytest.raises(rd.InvalidValueError, match=message.format(s=side)) as caught:
        rd.varlen.sdpa(*qkv, *offsets, out=out, **options)
    assert isinstance(caught.value, ValueError)
    assert np.isnan(out).all()


def test_the_expected_values_of_these_reports_hold_for_the_oracle():
    q, k, v = (draw(1, n, 8, seed=n) for n in (24, 25, 26))
    _, lse = sdpa_oracle(0.1 * q, 0.1 * k[:, :24], v[:, :24], bias=np.full((1, 1, 1), -120.0))
    assert (np.round(lse) == -117).all()
