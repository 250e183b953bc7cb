"""The GPU engine's kernels without matrix instructions, on emulated waves of 32 and of 64 lanes:
which problems they are for, and what only they read.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import raggeddnn as rd
import test_dropout
import test_sdpa_backward
from plugins.fakes import load, verdicts
from raggeddnn.testing import Case, case_named, make_problem
from raggeddnn.testing.checks import assert_same_bits, run_and_check
from raggeddnn.testing.gradients import GRADIENTS, make_backward
from raggeddnn.testing.graphs import graph_dtype, sdpa_graph
from raggeddnn.testing.graphs_backward import run_and_check_backward, sdpa_backward_graph
from raggeddnn.testing.reported import REPORTED, REPORTED_BACKWARD, REPORTED_FORWARD


@pytest.fixture(params=["nvidia", "cdna"])
def engine(request):
    load(f"emulated_{request.param}")
    return f"EMULATED_{request.param.upper()}_ENGINE"


@pytest.fixture
def build(engine):
    return lambda graph: graph.build(engine)


def forward(build, problem):
    """O and the log-sum-exp of a problem, checked."""
    sdpa = sdpa_graph(problem)
    outputs = run_and_check(sdpa, build(sdpa), problem)
    return sdpa.o_rows(outputs, problem), sdpa.lse_rows(outputs, problem)


def backward(build, back):
    """dq, dk, dv as rows, and dbias, of a backward problem, checked."""
    graph = sdpa_backward_graph(back)
    return run_and_check_backward(graph, build(graph), back)


# ---- which kernel, and why ----

MATRIX = "; without matrix instructions"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dtype": "float32"}, "for operands of type FLOAT"),
        ({"bias": "11qk"}, "for a bias"),
        ({"dropout": 0.5}, "for dropout"),
    ],
)
def test_the_reason_for_kernels_without_matrix_instructions(build, change, words):
    problem = make_problem(replace(case_named("edges"), **{"dtype": "float16", **change}))
    graphs = [sdpa_graph(problem), sdpa_backward_graph(make_backward(problem))]
    for text in (build(graph).explain_kernel() for graph in graphs):
        assert text.endswith(f"{MATRIX}, {words}") and "tiles of 64 rows by 64 keys" in text


def test_a_reason_of_the_backward_pass_alone(build):
    case = replace(case_named("gqa-k-v-differ"), dtype="float16")
    problem = make_problem(case)
    assert MATRIX not in build(sdpa_graph(problem)).explain_kernel()
    text = build(sdpa_backward_graph(make_backward(problem))).explain_kernel()
    assert text.endswith(f"{MATRIX}, for k and v of different head counts")


def test_widths_beyond_the_matrix_kernels_of_the_backward_pass():
    load("emulated_rdna4")
    problem = make_problem(replace(case_named("d-256"), dtype="float16"))
    plan = sdpa_backward_graph(make_backward(problem)).build("EMULATED_RDNA4_ENGINE")
    assert plan.explain_kernel().endswith(f"{MATRIX}, for width 256")


def test_what_is_not_read_is_a_reason(engine):
    half = replace(case_named("bias-11qk"), dtype="bfloat16")
    stats = case_named("edges")
    for source, tensor, data_type, words in (
        (half, "bias", rd.DataType.HALF, "data type HALF, expected FLOAT or BFLOAT16 as q"),
        (half, "dbias", rd.DataType.HALF, "data type HALF, expected FLOAT or BFLOAT16 as q"),
        (stats, "stats", rd.DataType.DOUBLE, "data type DOUBLE, expected FLOAT"),
    ):
        problem = make_problem(source)
        is_backward = tensor.startswith("d")
        graph = sdpa_backward_graph(make_backward(problem)) if is_backward else sdpa_graph(problem)
        graph.tensors[tensor].set_data_type(data_type)
        verdict = verdicts(graph.graph)[engine]
        assert not verdict.applicable and words in verdict.reason


# ---- bias ----


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_bias_in_float_beside_half_operands(build, dtype):
    """Its gradient is in their type."""
    problem = make_problem(replace(case_named("bias-11qk"), dtype=dtype))
    rng = np.random.default_rng(1)
    problem.bias = rng.standard_normal(problem.bias.shape).astype(np.float32)
    back = make_backward(problem)
    sdpa, graph = sdpa_graph(problem), sdpa_backward_graph(back)
    for tensors in (sdpa.tensors, graph.tensors):
        tensors["bias"].set_data_type(rd.DataType.FLOAT)
    graph.tensors["dbias"].set_data_type(graph_dtype(dtype))
    run_and_check(sdpa, build(sdpa), problem)
    run_and_check_backward(graph, build(graph), back)


@pytest.mark.parametrize("axes", ["1111", "b11k", "11q1", "1hq1", "bhqk", "bh11"])
@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_the_gradient_of_a_bias_of_any_shape(build, axes, layout):
    case = Case("dbias", (70, 0, 5), (9, 4, 130), heads=(2, 1, 2), bias=axes, layout=layout)
    backward(build, make_backward(case))


@pytest.mark.parametrize("case", [Case("no-rows", (0, 0), (3, 2)), Case("no-keys", (3,), (0,))])
def test_the_gradient_of_a_bias_that_meets_no_score_is_0(build, case):
    back = make_backward(replace(case, bias="1hqk", capacity=4))
    assert not backward(build, back)["dbias"].any()


def test_a_bias_has_a_gradient_without_batches(engine):
    """0 in each element, as of a sum over none."""
    graph = rd.Graph(io_data_type=rd.DataType.FLOAT)
    operands = [graph.tensor(name=n, dim=[0, 1, 4, 8]) for n in ("q", "k", "v", "o", "do")]
    stats = graph.tensor(name="stats", dim=[0, 1, 4, 1])
    bias = graph.tensor(name="bias", dim=[1, 1, 1, 4])
    *_, dbias = graph.sdpa_backward(*operands, stats, bias=bias, generate_dbias=True)
    dbias.set_output(True)
    got = np.full((1, 1, 1, 4), np.nan, np.float32)
    graph.build(engine=engine).execute({bias: np.zeros_like(got), dbias: got})
    assert_same_bits(got, np.zeros_like(got), "dbias")


def test_what_a_bias_hides_may_be_anything(build):
    """A key that the bias hides from all rows, and its value, NaN or not."""
    problem = make_problem(case_named("bias-11qk"))
    problem.bias[..., 3] = -np.inf
    back = make_backward(problem)
    sdpa, graph = sdpa_graph(problem), sdpa_backward_graph(back)
    plans = build(sdpa), build(graph)

    def run():
        return sdpa.run(plans[0], problem, 0.0) | graph.run_backward(plans[1], back, 0.0)

    expected = run()
    for batch in range(problem.batch):
        key = problem.rows_of(batch)[1].start + 3
        problem.k[key], problem.v[key] = np.nan, np.inf
    for name, got in run().items():
        assert np.isfinite(got).all()
        assert_same_bits(got, expected[name], name)


def test_rows_without_keys_may_hold_anything(build):
    back = make_backward(case_named("dead-rows"))
    graph = sdpa_backward_graph(back)
    plan = build(graph)
    expected = graph.run_backward(plan, back, 0.0)
    dead = np.isneginf(back.lse).all(axis=0)
    assert dead.any()
    back.do[dead], back.o[dead], back.forward.q[dead] = np.nan, np.inf, np.nan
    got = graph.run_backward(plan, back, 0.0)
    for name in GRADIENTS:
        assert_same_bits(got[name], expected[name], name)


# ---- dropout ----


@pytest.mark.parametrize("form", test_dropout.FORMS)
@pytest.mark.parametrize("data_type", [rd.DataType.INT32, rd.DataType.INT64])
def test_every_form_of_the_seed_draws_the_same(engine, form, data_type):
    test_dropout.test_every_form_of_the_seed_draws_the_same(engine, form, data_type)


@pytest.mark.parametrize("form", test_dropout.FORMS)
@pytest.mark.parametrize("seed", [-1, -(2**63)])
def test_all_64_bits_of_a_seed_count(engine, seed, form):
    test_dropout.test_all_64_bits_of_a_seed_count(engine, seed, form)


def test_nothing_is_dropped_at_probability_0(engine):
    test_dropout.test_nothing_is_dropped_at_probability_0(engine)


# ---- bits, and what users reported ----


@pytest.mark.parametrize("name", ["tiles-causal-br", "gqa-k-v-differ", "dstats"])
def test_a_sequence_has_the_same_bits_alone_and_in_company(build, name):
    test_sdpa_backward.test_a_sequence_has_the_same_bits_alone_and_in_company(build, name)


def test_layouts_of_the_same_numbers_agree_bitwise(build):
    test_sdpa_backward.test_layouts_of_the_same_numbers_agree_bitwise(build)


@pytest.mark.parametrize("source", [*REPORTED, *REPORTED_FORWARD], ids=lambda r: r.case.name)
def test_reported(build, source):
    forward(build, source.problem())


@pytest.mark.parametrize("source", [*REPORTED, *REPORTED_BACKWARD], ids=lambda r: r.case.name)
def test_reported_backward(build, source):
    backward(build, make_backward(source.problem()))
