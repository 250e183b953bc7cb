"""The gradients of attention through the graph API, on every engine that does not refuse them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import raggeddnn as rd
from raggeddnn.testing import CASES, Case, case_named, make_problem
from raggeddnn.testing.checks import assert_same_bits
from raggeddnn.testing.gradients import GRADIENTS, check_sequence_gradients, make_backward
from raggeddnn.testing.graphs_backward import run_and_check_backward, sdpa_backward_graph


def checked(build, source):
    back = make_backward(source)
    graph = sdpa_backward_graph(back)
    return back, run_and_check_backward(graph, build(graph), back)


def valid_rows(back, got):
    """dq, dk, dv at valid rows only."""
    sides = {"dq": back.forward.side_q, "dk": back.forward.side_kv, "dv": back.forward.side_kv}
    return {name: got[name][side.written] for name, side in sides.items()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(build, case):
    checked(build, case)


@pytest.mark.parametrize("name", ["edges", "gqa-k-v-differ", "bias-bhqk-holes", "dstats"])
@pytest.mark.parametrize("gradient", GRADIENTS)
def test_the_check_sees_one_wrong_element(build, name, gradient):
    back, got = checked(build, case_named(name))
    side = back.forward.side_q if gradient == "dq" else back.forward.side_kv
    rows = np.flatnonzero(side.written & got[gradient].any(axis=(1, 2)))
    wrong = {**got, gradient: got[gradient].copy()}
    wrong[gradient][rows[-1], -1, -1] += 1e-4 * np.abs(got[gradient][side.written]).max()
    with pytest.raises(AssertionError, match=gradient):
        check_sequence_gradients(back, wrong, "one wrong element")


@pytest.mark.parametrize(
    "name", ["edges", "tiles-causal-br", "gqa-k-v-differ", "window", "bfloat16", "dstats"]
)
def test_a_sequence_has_the_same_bits_alone_and_in_company(build, name):
    case = case_named(name)
    back, together = checked(build, case)
    for batch in range(back.forward.batch):
        at_q, at_kv = back.forward.rows_of(batch)
        lens = {"lens_q": (case.lens_q[batch],), "lens_kv": (case.lens_kv[batch],)}
        lone = make_problem(replace(back.case, **lens))
        for array, at in (("q", at_q), ("k", at_kv), ("v", at_kv)):
            getattr(lone, array)[:] = getattr(back.forward, array)[at]
        alone = make_backward(lone)
        alone.do[:] = back.do[at_q]
        if back.dstats is not None:
            alone.dstats[:] = back.dstats[:, at_q]
        assert_same_bits(alone.lse, np.ascontiguousarray(back.lse[:, at_q]), "LSE")
        graph = sdpa_backward_graph(alone)
        got = run_and_check_backward(graph, build(graph), alone)
        for gradient, at in zip(GRADIENTS, (at_q, at_kv, at_kv), strict=True):
            assert_same_bits(got[gradient], together[gradient][at], f"{batch} {gradient}")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("hidden_by", ["mask", "bias"])
@pytest.mark.parametrize("garbage", ["q", "o", "do", "dstats"])
def test_rows_that_see_no_key_add_nothing_whatever_they_hold(build, dtype, hidden_by, garbage):
    case = Case("dead", (40, 9), (7, 9), heads=(4, 2, 2), d=17, dtype=dtype, dstats=True)
    if hidden_by == "mask":
        case = replace(case, causal=True, alignment="bottom_right")
    else:
        case = replace(case, bias="11qk")
    problem = make_problem(case)
    if problem.bias is not None:
        problem.bias[..., :7, :] = -np.inf
    back = make_backward(problem)
    dead = np.isneginf(back.lse).all(axis=0)
    assert dead.any() and not dead.all()
    graph = sdpa_backward_graph(back)
    plan = build(graph)
    expected = graph.run_backward(plan, back, 0.0)
    arrays = {"q": problem.q, "o": back.o, "do": back.do, "dstats": back.dstats.T}
    arrays[garbage][dead] = np.nan
    got = graph.run_backward(plan, back, 0.0)
    assert not got["dq"][dead].any()
    for name, array in expected.items():
        assert_same_bits(got[name], array, name)


def test_layouts_of_the_same_numbers_agree_bitwise(build):
    case = Case("layouts", (5, 0, 17), (9, 4, 8), heads=(4, 2, 2), causal=True)
    packed, expected = checked(build, case)
    expected = valid_rows(packed, expected)
    for layout, memory in (("slack", "bshd"), ("padded", "bshd"), ("padded", "bhsd")):
        problem = make_problem(replace(case, layout=layout, memory=memory, poison="nan"))
        for name in ("q", "k", "v"):
            side = problem.side_q if name == "q" else problem.side_kv
            getattr(problem, name)[side.written] = getattr(packed.forward, name)
        back = make_backward(problem)
        back.do[problem.side_q.written] = packed.do
        graph = sdpa_backward_graph(back)
        got = valid_rows(back, run_and_check_backward(graph, build(graph), back))
        for name in GRADIENTS:
            assert_same_bits(got[name], expected[name], f"{layout} {memory} {name}")


def test_an_attention_bias_of_one_batch_gets_the_sum_over_batches(build):
    case = Case("shared-bias", (6, 3), (4, 7), bias="1hqk", layout="padded")
    back, got = checked(build, case)
    lone = []
    for batch in range(2):
        problem = make_problem(replace(case, bias="bhqk"))
        for name in ("q", "k", "v"):
            getattr(problem, name)[:] = getattr(back.forward, name)
        problem.bias[:] = back.forward.bias
        apart = make_backward(problem)
        apart.do[:] = back.do
        graph = sdpa_backward_graph(apart)
        lone.append(run_and_check_backward(graph, build(graph), apart)["dbias"][batch])
    both = (slice(None), slice(0, 3), slice(0, 4))
    np.testing.assert_allclose(got["dbias"][0][both], lone[0][both] + lone[1][both], atol=1e-5)


# ---- both passes in one graph ----


def test_forward_and_backward_in_one_graph(engine):
    arrays = {
        name: np.random.default_rng(n).standard_normal((2, 3, rows, 8)).astype(np.float32)
        for n, (name, rows) in enumerate({"q": 5, "k": 6, "v": 6, "do": 5}.items())
    }
    graph = rd.Graph(io_data_type=rd.DataType.FLOAT)
    t = {name: graph.tensor(name=name, dim=list(x.shape)) for name, x in arrays.items()}
    o, stats = graph.sdpa(t["q"], t["k"], t["v"], generate_stats=True)
    results = graph.sdpa_backward(t["q"], t["k"], t["v"], o, t["do"], stats)
    outputs = [np.full_like(arrays[name], np.nan) for name in ("q", "k", "v")]
    pack = {t[name]: x for name, x in arrays.items()}
    pack.update({r.set_output(True): x for r, x in zip(results, outputs, strict=True)})
    try:
        plan = graph.build(engine=engine)
    except rd.NotSupportedError as refusal:
        pytest.skip(str(refusal))
    plan.execute(pack)
    assert all(np.isfinite(x).all() and x.any() for x in outputs)


# ---- what the frontend infers ----


def small_graph(**shapes):
    """A graph and the six operands of a backward node; keywords change their dims."""
    dims = {
        "q": [2, 4, 5, 8],
        "k": [2, 2, 6, 8],
        "v": [2, 4, 6, 3],
        "o": [2, 4, 5, 3],
        "do": [2, 4, 5, 3],
        "stats": [2, 4, 5, 1],
    }
    graph = rd.Graph(io_data_type=rd.DataType.FLOAT)
    tensors = [graph.tensor(name=name, dim=shapes.get(name, d)) for name, d in dims.items()]
    return graph, tensors


def test_gradients_take_dims_strides_and_type_of_their_operands():
    graph, t = small_graph()
    t[0].set_data_type(rd.DataType.HALF)
    t[1].set_stride([200, 50, 8, 1])
    bias = graph.tensor(name="bias", dim=[1, 4, 1, 6], data_type=rd.DataType.BFLOAT16)
    results = graph.sdpa_backward(*t, bias=bias, generate_dbias=True)
    assert len(results) == 4
    graph.validate()
    for result, operand in zip(results, (*t[:3], bias), strict=True):
        assert result.get_dim() == operand.get_dim()
        assert result.get_stride() == operand.get_stride()
        assert result.get_data_type() == operand.get_data_type()
    assert results[0].get_name() == "sdpa_backward::dq"


def test_a_gradient_of_a_broadcast_operand_is_no_broadcast():
    graph, t = small_graph()
    t[0].set_stride([40, 0, 8, 1])
    dq, _, _ = graph.sdpa_backward(*t)
    graph.validate()
    assert dq.get_stride() == [160, 40, 8, 1]


def test_gradients_lie_where_ragged_operands_lie(build):
    back = make_backward(Case("inherit", (3, 5), (4, 2), heads=(4, 2, 2)))
    stated = sdpa_backward_graph(back)
    expected = run_and_check_backward(stated, build(stated), back)
    inherited = sdpa_backward_graph(back)
    for name in GRADIENTS:
        inherited.tensors[name].set_dim([]).set_stride([]).set_ragged_offset(None)
        inherited.tensors[name].set_ragged_offset_multiplier(1)
    got = run_and_check_backward(inherited, build(inherited), back)
    for name in GRADIENTS:
        assert_same_bits(got[name], expected[name], name)


def test_the_node_survives_bytes_and_json():
    back = make_backward(case_named("dstats"))
    graph = sdpa_backward_graph(back).graph
    data = graph.serialize()
    assert rd.Graph.deserialize(data).serialize() == data
    text = graph.to_json()
    assert "SdpaBackwardAttributes" in text or "sdpa_backward" in text.lower()
    assert rd.Graph.from_json(text).to_json() == text


# ---- what the frontend refuses ----

WRONG = {
    "do": ([2, 4, 5, 4], r"do 'do' has dims \[2, 4, 5, 4\], expected \[2, 4, 5, 3\]"),
    "o": ([2, 4, 5, 4], r"o 'o' has dims \[2, 4, 5, 4\], expected \[2, 4, 5, 3\]"),
    "stats": ([2, 4, 5, 2], r"stats 'stats' has dims .*, expected \[2, 4, 5, 1\]"),
    "k": ([2, 3, 6, 8], r"k 'k' has 3 heads, expected a divisor of the 4 of q"),
    "v": ([2, 4, 7, 3], r"v 'v' has sequence length 7, expected 6"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_dims_are_named(name):
    dims, message = WRONG[name]
    graph, t = small_graph(**{name: dims})
    graph.sdpa_backward(*t)
    with pytest.raises(rd.InvalidValueError, match=r"\[sdpa_backward\] " + message):
        graph.validate()


@pytest.mark.parametrize("index", range(3))
def test_wrong_dims_of_a_gradient_are_named(index):
    graph, t = small_graph()
    gradient = graph.sdpa_backward(*t)[index]
    gradient.set_dim([2, 2, 2, 2]).set_stride([8, 4, 2, 1])
    with pytest.raises(rd.InvalidValueError, match=f"{GRADIENTS[index]} .*has dims"):
        graph.validate()


def test_other_mistakes_are_named():
    graph, t = small_graph()
    with pytest.raises(rd.Error, match="generate_dbias is true and bias is not set"):
        graph.sdpa_backward(*t, generate_dbias=True)
    with pytest.raises(rd.InvalidValueError, match="causal_mask with right_bound 3"):
        graph.sdpa_backward(*t, causal_mask=True, right_bound=3)
    graph, t = small_graph()
    t[5].set_data_type(rd.DataType.HALF)
    graph.sdpa_backward(*t)
    with pytest.raises(rd.InvalidValueError, match=r"stats .* HALF, expected FLOAT or DOUBLE"):
        graph.validate()
    graph, t = small_graph()
    dstats = graph.tensor(name="dstats", dim=[2, 4, 5, 3])
    graph.sdpa_backward(*t, dstats=dstats)
    with pytest.raises(rd.InvalidValueError, match="dstats 'dstats' has dims"):
        graph.validate()
    graph, t = small_graph()
    lens = graph.tensor(name="lens", dim=[2, 1, 1, 1], data_type=rd.DataType.INT32)
    graph.sdpa_backward(*t, seq_len_q=lens)
    with pytest.raises(rd.Error, match="seq_len_q is set and seq_len_kv is not"):
        graph.validate()
