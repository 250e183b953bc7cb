"""Inputs that users of attention libraries reported as broken: the backward pass, one test per
report.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import raggeddnn as rd
from raggeddnn.testing import Case, make_problem
from raggeddnn.testing.checks import assert_same_bits, is_reference
from raggeddnn.testing.gradients import GRADIENTS, make_backward
from raggeddnn.testing.graphs_backward import run_and_check_backward, sdpa_backward_graph
from raggeddnn.testing.reported import (
    HEAD_DIMS,
    LAYOUTS,
    SCALES,
    WINDOWS,
    hidden_by_bias,
    longer,
    pads_between,
    reported,
)


def check(build, source):
    """Run the backward pass of a case or a changed problem and check it; (back, gradients)."""
    back = make_backward(source)
    graph = sdpa_backward_graph(back)
    return back, run_and_check_backward(graph, build(graph), back)


def rows_of(back, batch, name):
    return back.forward.rows_of(batch)[0 if name == "dq" else 1]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("lens_q", [(0, 5, 33, 7, 0), (0, 1, 0, 1, 0)])
def test_t01_sequences_without_queries_or_keys(build, layout, lens_q):
    case = replace(reported("t01"), lens_q=lens_q, layout=layout)
    back, got = check(build, case)
    assert not got["dq"][rows_of(back, 1, "dq")].any()
    for name in ("dk", "dv"):
        zero = got[name][rows_of(back, 0, name)]
        assert zero.shape[0] == 4 and not zero.any()


def test_t02_rows_above_the_bottom_right_diagonal(build):
    _, got = check(build, reported("t02"))
    assert not got["dq"][:33].any()
    assert all(np.isfinite(got[name]).all() for name in GRADIENTS)


def test_t03_both_directions_in_one_batch(build):
    check(build, reported("t03"))


@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize("causal", [False, True])
def test_t04_garbage_past_the_last_sequence(build, poison, causal):
    case = replace(reported("t04"), causal=causal)
    _, exact = check(build, case)
    clean = make_backward(case)
    back = make_backward(longer(make_problem(case), 64, poison))
    back.do[:25], back.o[:25], back.lse[:, :25] = clean.do, clean.o, clean.lse
    assert np.isnan(back.do[25:]).all() or np.isinf(back.do[25:]).all()
    graph = sdpa_backward_graph(back)
    got = run_and_check_backward(graph, build(graph), back)
    for name in GRADIENTS:
        assert_same_bits(got[name][:25], exact[name], name)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_t05_one_sequence_is_nan(build, layout):
    case = replace(reported("t05"), layout=layout)
    back = make_backward(case)
    graph = sdpa_backward_graph(back)
    plan = build(graph)
    clean = graph.gradient_rows(graph.run_backward(plan, back, 0.0), back)
    middle_q, middle = back.forward.rows_of(1)
    back.forward.k[middle], back.forward.v[middle] = np.nan, np.nan
    back.o[middle_q], back.lse[:, middle_q] = np.nan, np.nan
    mixed = graph.gradient_rows(graph.run_backward(plan, back, 0.0), back)
    for batch in (0, 2):
        for name in GRADIENTS:
            at = rows_of(back, batch, name)
            assert_same_bits(mixed[name][at], clean[name][at], f"sequence {batch} {name}")
    assert np.isnan(mixed["dq"][middle_q]).any()


def test_t06_rows_past_the_last_offset_are_left_alone(build):
    check(build, longer(make_problem(reported("t06")), 16, np.nan))


def test_t07_pads_between_sequences(build):
    check(build, pads_between(make_problem(reported("t07"))))


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_t11_a_bias_far_below_zero(build, layout):
    case = replace(reported("t11"), layout=layout)
    back, got = check(build, case)
    assert (np.round(back.lse[:, back.forward.side_q.written]) == -117).all()
    for name in GRADIENTS:
        side = back.forward.side_q if name == "dq" else back.forward.side_kv
        assert np.isfinite(got[name][side.written]).all() and got[name][side.written].any()


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("state", ["baked", "baked_tensor", "runtime_default", "runtime"])
@pytest.mark.parametrize("swapped", [False, True], ids=["all-rows-live", "dead-rows"])
def test_t12_scales_of_any_sign(build, scale, state, swapped):
    lens = ((30, 20), (9, 20)) if swapped else ((9, 20), (30, 20))
    options = {"scale": scale, "scale_state": state}
    case = replace(reported("t12"), lens_q=lens[0], lens_kv=lens[1], **options)
    _, got = check(build, case)
    if swapped:
        assert not got["dq"][:21].any()
    if scale == 0.0:
        assert not got["dq"].any() and not got["dk"].any() and got["dv"].any()


@pytest.mark.parametrize("d", HEAD_DIMS)
@pytest.mark.parametrize("d_v", [None, 24, 136])
def test_t14_head_sizes_with_guard_bands(build, d, d_v):
    check(build, replace(reported("t14"), d=d, d_v=d_v))


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("alignment", ["top_left", "bottom_right"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_t15_windows(build, window, alignment, layout):
    case = replace(reported("t15"), alignment=alignment, layout=layout)
    back, got = check(build, replace(case, left_bound=window[0], right_bound=window[1]))
    if window == (100, 100):
        _, unbounded = check(build, case)
        for name in GRADIENTS:
            at = (back.forward.side_q if name == "dq" else back.forward.side_kv).written
            assert_same_bits(got[name][at], unbounded[name][at], name)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_t16_a_loss_of_the_log_sum_exp(build, layout):
    case = replace(reported("t16"), layout=layout)
    back, got = check(build, replace(case, dstats=True))
    graph = sdpa_backward_graph(back).graph
    assert graph.min_required_engine_api_version == (1, 1000, 0)
    assert graph.min_reader_version == 2
    plain = sdpa_backward_graph(make_backward(case)).graph
    assert plain.min_required_engine_api_version < (1, 1000, 0) and plain.min_reader_version < 2
    back.dstats[:] = 0
    again = sdpa_backward_graph(back)
    without = run_and_check_backward(again, build(again), back)
    written = back.forward.side_q.written
    assert (got["dq"][written] != without["dq"][written]).any()


@pytest.mark.parametrize(("batches", "heads"), [(65_537, 1), (1, 65_537)])
def test_t17_more_sequences_or_heads_than_a_grid_axis(engine, batches, heads):
    graph = rd.Graph(io_data_type=rd.DataType.FLOAT)
    aux = graph.tensor(name="off", dim=[batches + 1, 1, 1, 1], data_type=rd.DataType.INT64)
    ragged = {"ragged_offset": aux, "ragged_offset_multiplier": 4 * heads}
    tensors = [
        graph.tensor(name=name, dim=[batches, heads, 1, 4], **ragged)
        for name in ("q", "k", "v", "o", "do")
    ]
    stats = graph.tensor(name="stats", dim=[batches, heads, 1, 1])
    gradients = graph.sdpa_backward(*tensors, stats)
    zeros = np.zeros((batches, heads, 4), np.float32)
    v, do = np.random.default_rng(0).standard_normal((2, *zeros.shape)).astype(np.float32)
    # One key, score 0: probability 1, so that o is v and dv is do; q and k are 0.
    pack = dict(zip(tensors, (zeros, zeros, v, v, do), strict=True))
    pack |= {aux: np.arange(batches + 1), stats: np.zeros((batches, heads, 1, 1), np.float32)}
    got = [np.full(zeros.shape, np.nan, np.float32) for _ in gradients[:3]]
    for tensor, array in zip(gradients, got, strict=False):
        pack[tensor.set_output(True)] = array
    try:
        plan = graph.build(engine=engine)
    except rd.NotSupportedError as refusal:
        if is_reference(engine):
            raise
        pytest.skip(f"{engine} refuses: {refusal}")
    plan.execute(pack)
    assert not got[0].any() and not got[1].any()
    assert_same_bits(got[2], do, "dv is do")


class Strided:
    """A dense problem whose inputs lie as the arrays do: any strides, 0 among them."""

    def __init__(self, engine, arrays, **options):
        self.arrays = arrays
        graph = rd.Graph(io_data_type=rd.DataType.FLOAT)
        tensors = {
            name: graph.tensor(
                name=name, dim=list(x.shape), stride=[n // x.itemsize for n in x.strides]
            )
            for name, x in arrays.items()
        }
        results = graph.sdpa_backward(*tensors.values(), **options)
        self.outputs = {}
        for name, result in zip(("q", "k", "v"), results, strict=True):
            result.set_output(True).set_stride(list(strides_of(arrays[name].shape)))
            self.outputs[result] = np.full(arrays[name].shape, np.nan, np.float32)
        try:
            self.plan = graph.build(engine=engine)
        except rd.NotSupportedError as refusal:
            if is_reference(engine):
                raise
            pytest.skip(f"{engine} refuses: {refusal}")
        self.pack = {tensors[name]: x for name, x in arrays.items()} | self.outputs

    def run(self):
        self.plan.execute(self.pack)
        return [x.copy() for x in self.outputs.values()]


def strides_of(shape):
    return [int(n) // 4 for n in np.zeros(shape, np.float32).strides]


def dense_arrays(seed=0, heads=4):
    case = Case("strided", (6, 6), (5, 5), heads=(heads, heads, heads), d=8, layout="dense")
    back = make_backward(replace(case, memory="bhsd", stats="dense", seed=seed))

    def bhsd(rows):
        return np.ascontiguousarray(rows.reshape(2, -1, *rows.shape[1:]).transpose(0, 2, 1, 3))

    problem = back.forward
    arrays = {"q": problem.q, "k": problem.k, "v": problem.v, "o": back.o, "do": back.do}
    found = {name: bhsd(rows) for name, rows in arrays.items()}
    found["stats"] = bhsd(back.lse.T[:, :, None])
    return found


def assert_like_contiguous(engine, arrays, **options):
    got = Strided(engine, arrays, **options).run()
    copies = {name: np.ascontiguousarray(x) for name, x in arrays.items()}
    for name, one, other in zip(
        GRADIENTS, got, Strided(engine, copies, **options).run(), strict=True
    ):
        assert not np.isnan(one).any()
        assert_same_bits(one, other, name)


def test_t19_do_is_a_slice_of_a_wider_tensor(engine):
    arrays = dense_arrays()
    wide = np.full((*arrays["do"].shape[:3], 24), np.nan, np.float32)
    wide[..., 8:16] = arrays["do"]
    assert_like_contiguous(engine, {**arrays, "do": wide[..., 8:16]})


def test_t19_do_is_one_number(engine):
    arrays = dense_arrays()
    ones = np.broadcast_to(np.float32(1), arrays["do"].shape)
    assert ones.strides == (0, 0, 0, 0)
    assert_like_contiguous(engine, {**arrays, "do": ones})


@pytest.mark.parametrize("names", [("q",), ("k",), ("v",), ("q", "k", "v")])
def test_t19_inputs_are_broadcast_over_heads(engine, names):
    arrays = dense_arrays()
    shared = {n: np.broadcast_to(arrays[n][:, :1], arrays[n].shape) for n in names}
    assert all(x.strides[1] == 0 for x in shared.values())
    assert_like_contiguous(engine, {**arrays, **shared})


def test_t20_same_shapes_other_strides_scale_type_window(engine, build):
    arrays = dense_arrays()
    interleaved = np.repeat(arrays["k"], 2, axis=1)[:, ::2]
    expected = Strided(engine, arrays).run()
    for _ in range(2):
        for name, one, other in zip(
            GRADIENTS, Strided(engine, {**arrays, "k": interleaved}).run(), expected, strict=True
        ):
            assert_same_bits(one, other, name)
        for change in (
            {},
            {"scale": 0.5, "scale_state": "baked"},
            {"dtype": "float16"},
            {"left_bound": 2, "right_bound": 1},
        ):
            check(build, Case("t20", (9, 14), (12, 11), **change))


def test_t21_one_plan_four_sets_of_lengths(build):
    base = reported("t21")
    graph = sdpa_backward_graph(make_backward(base))
    plan = build(graph)
    for lens in [(10, 22, 0, 0), (1, 1, 1, 29), (32, 0, 0, 0), (0, 0, 31, 1)]:
        back = make_backward(replace(base, lens_q=lens, lens_kv=lens))
        run_and_check_backward(graph, plan, back)


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_t22_bias_of_each_sequence_with_its_gradient(build, layout):
    problem = hidden_by_bias(make_problem(replace(reported("t22"), layout=layout)))
    back, got = check(build, problem)
    assert not got["dq"][rows_of(back, 1, "dq")][5, 3].any()
    assert not got["dbias"][1, 3, 5, :7].any()
    assert not got["dbias"][0, :, :9, 2].any()
    assert got["dbias"][0, :, :9, 3].all()


def test_t25_repeated_offsets_are_valid(build):
    check(build, reported("t25"))


T25_INVALID = [
    ([1, 7, 20], "0"),
    ([0, 12, 8], "[12]"),
    ([0, 7, 25], "[12]"),
    ([0, 2, 20], "[12]"),
    ([0, -3, 13], "[01]"),
]


@pytest.mark.parametrize(("values", "index"), T25_INVALID)
@pytest.mark.parametrize("side", ["q", "k"])
@pytest.mark.parametrize("integers", ["int32", "int64"])
def test_t25_bad_offsets_are_named_before_any_write(build, values, index, side, integers):
    back = make_backward(Case("t25", (7, 13), (7, 13), index_dtype=integers))
    graph = sdpa_backward_graph(back)
    plan = build(graph)
    gradients = graph.new_gradients(back, np.nan)
    aux, _ = graph.offsets[side]
    pack = {**graph.inputs(back), **{graph.tensors[n]: x for n, x in gradients.items()}}
    name = "offset_q" if side == "q" else "offset_kv"
    with pytest.raises(rd.InvalidValueError, match=rf"{name}.*\b{index}\b"):
        plan.execute({**pack, aux: np.array(values, dtype=integers)})
    assert all(np.isnan(x).all() for x in gradients.values())


@pytest.mark.parametrize("side", ["q", "kv"])
def test_t25_a_negative_length_is_named_before_any_write(build, side):
    back = make_backward(Case("t25", (7, 13), (7, 13), layout="slack"))
    graph = sdpa_backward_graph(back)
    plan = build(graph)
    gradients = graph.new_gradients(back, np.nan)
    pack = {**graph.inputs(back), **{graph.tensors[n]: x for n, x in gradients.items()}}
    bad = {graph.tensors[f"seq_{side}"]: np.array([7, -1], np.int32)}
    with pytest.raises(rd.InvalidValueError, match=rf"seq_{side}.*\b1\b"):
        plan.execute({**pack, **bad})
    assert all(np.isnan(x).all() for x in gradients.values())


@pytest.mark.parametrize(
    "name", ["q", "o", "do", "stats", "dstats", "dq", "k", "v", "dk", "dv"], ids=str
)
def test_boundaries_of_one_side_agree_between_its_tensors(build, name):
    case = Case("boundaries", (7, 13), (7, 13), offset_unit="element", dstats=True)
    back = make_backward(case)
    graph = sdpa_backward_graph(back)
    plan = build(graph)
    gradients = graph.new_gradients(back, np.nan)
    aux, unit = graph.offsets[name]
    pack = {**graph.inputs(back), **{graph.tensors[n]: x for n, x in gradients.items()}}
    moved = np.array([0, 8, 20], np.int32) * np.int32(unit)
    with pytest.raises(rd.InvalidValueError, match=r"offset_\w+.*index [12].* rows, expected \d+"):
        plan.execute({**pack, aux: moved})
    assert all(np.isnan(x).all() for x in gradients.values())
