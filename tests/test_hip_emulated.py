"""The GPU engine's kernels, compiled for the host: lanes are fibers, matrix instructions follow the
vendors' register layouts, waves run in shuffled order. Every named case but those in double, in all
types, both passes, on the tiles of NVIDIA, Hopper, CDNA, RDNA 3 and RDNA 4.
"""

from __future__ import annotations

from dataclasses import replace

import hidden_pairs
import numpy as np
import pytest
import raggeddnn as rd
from growing_scores import growing_scores
from plugins.fakes import load, verdicts
from raggeddnn.testing import CASES, Case, make_problem
from raggeddnn.testing.checks import run_and_check
from raggeddnn.testing.gradients import make_backward
from raggeddnn.testing.graphs import sdpa_graph
from raggeddnn.testing.graphs_backward import run_and_check_backward, sdpa_backward_graph

ARCHITECTURES = ("nvidia", "hopper", "cdna", "rdna3", "rdna4")
SOURCES = {case.name: case for case in CASES}
READ = [case for case in SOURCES.values() if case.dtype == "float32"]
DTYPES = ["float32", "bfloat16", "float16"]


def skip_too_loud(case, dtype):
    if case.name == "very-loud" and dtype != "float32":
        pytest.skip("its products exceed float, in which the kernels sum")


@pytest.fixture(params=ARCHITECTURES)
def engine(request):
    load(f"emulated_{request.param}")
    return f"EMULATED_{request.param.upper()}_ENGINE"


@pytest.mark.parametrize("case", READ, ids=lambda case: case.name)
@pytest.mark.parametrize("dtype", DTYPES)
def test_case(engine, case, dtype):
    skip_too_loud(case, dtype)
    problem = make_problem(replace(case, dtype=dtype))
    sdpa = sdpa_graph(problem)
    run_and_check(sdpa, sdpa.build(engine), problem)


@pytest.mark.parametrize("case", READ, ids=lambda case: case.name)
@pytest.mark.parametrize("dtype", DTYPES)
def test_backward_case(engine, case, dtype):
    skip_too_loud(case, dtype)
    back = make_backward(replace(case, dtype=dtype))
    graph = sdpa_backward_graph(back)
    run_and_check_backward(graph, graph.build(engine), back)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_scores_that_are_large_and_finite(engine, dtype):
    """Their product with the softmax's factor is rounded by far more than 1."""
    problem = make_problem(Case("large", (3, 70), (1, 130), heads=(2, 1, 1), d=64, dtype=dtype))
    rng = np.random.default_rng(0)
    for x in (problem.q, problem.k):
        x[:] = rng.uniform(-3e4, 3e4, x.shape)
    sdpa = sdpa_graph(problem)
    run_and_check(sdpa, sdpa.build(engine), problem)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("width", [64, 96, 128])
def test_largest_scores_grow_by_little_and_by_much(engine, width, dtype):
    """What was summed is scaled only where they grow by much."""
    problem = growing_scores(width, dtype)
    sdpa = sdpa_graph(problem)
    run_and_check(sdpa, sdpa.build(engine), problem)


@pytest.mark.parametrize("scale", [-0.125, 0.0])
@pytest.mark.parametrize("widths", [(100, 77), (77, 96), (96, 65)])
def test_windows_that_begin_late_and_widths_that_end_within_a_chunk(engine, scale, widths):
    d, d_v = widths
    case = Case("late", (200, 3), (300, 90), heads=(4, 2, 2), d=d, d_v=d_v,
                scale_state="runtime", scale=scale, left_bound=20, right_bound=30,
                alignment="bottom_right", layout="slack",
                poison="nan", dtype="bfloat16")  # fmt: skip
    back = make_backward(case)
    sdpa, graph = sdpa_graph(back.forward), sdpa_backward_graph(back)
    run_and_check(sdpa, sdpa.build(engine), back.forward)
    run_and_check_backward(graph, graph.build(engine), back)


def test_batches_are_more_than_the_threads_that_order_them(engine):
    lens_q = [*(i % 3 for i in range(200)), 130, *(i % 2 for i in range(70))]
    lens_k = [*(3 * i % 5 for i in range(200)), 70, *(i % 3 for i in range(70))]
    case = Case("many", lens_q, lens_k, heads=(2, 1, 1), d=128, dtype="bfloat16")
    back = make_backward(case)
    sdpa, graph = sdpa_graph(back.forward), sdpa_backward_graph(back)
    run_and_check(sdpa, sdpa.build(engine), back.forward)
    run_and_check_backward(graph, graph.build(engine), back)


@pytest.mark.parametrize("batches", [255, 256, 257])
def test_batches_are_about_as_many_as_the_threads_that_order_them(engine, batches):
    lens = [1 + i % 3 for i in range(batches)]
    problem = make_problem(Case("many", lens, lens[::-1], heads=(1, 1, 1), d=8, dtype="float16"))
    rng = np.random.default_rng(0)
    for x in (problem.q, problem.k):  # scores of one key are exact but for their scale
        x[:] = rng.integers(-1, 2, x.shape)
    sdpa = sdpa_graph(problem)
    run_and_check(sdpa, sdpa.build(engine), problem)


@pytest.mark.parametrize("name", hidden_pairs.CASES)
def test_what_meets_nothing_may_be_large(engine, name):
    hidden_pairs.check_unseen_rows(name, lambda graph: graph.build(engine))


def test_a_hidden_pair_may_overflow(engine):
    hidden_pairs.check_early_rows_and_late_keys(lambda graph: graph.build(engine))


def test_what_is_not_read_is_a_reason(engine):
    for change, words in [
        ({"dtype": "float64"}, "data type DOUBLE, expected FLOAT, HALF or BFLOAT16"),
        ({"dtype": "float16", "d": 257}, "has width 257, expected at most 256"),
        ({"d_v": 300}, "has width 300, expected at most 256"),
    ]:
        graph = sdpa_graph(make_problem(replace(SOURCES["edges"], **change))).graph
        verdict = verdicts(graph)[engine]
        assert not verdict.applicable and words in verdict.reason


@pytest.mark.parametrize("dims", [(2**31, 1, 1), (1, 2**30, 1), (1, 1, 2**31)])
def test_an_extent_too_large_to_count_is_a_reason(engine, dims):
    _, heads, rows = dims
    graph = rd.Graph(io_data_type=rd.DataType.BFLOAT16, compute_data_type=rd.DataType.FLOAT)
    stride = [heads * rows, rows, 1, 1]
    operands = [graph.tensor(dim=[*dims, 1], stride=stride) for _ in range(3)]
    graph.sdpa(*operands)[0].set_output(True).set_dim([*dims, 1]).set_stride(stride)
    assert f"an extent is {max(dims)}, expected at most" in verdicts(graph)[engine].reason


def test_a_workspace_too_large_to_count_is_a_reason(engine):
    dims = batches, heads, rows, _ = [2**30, 2**11, 2**21, 1]
    graph = rd.Graph(io_data_type=rd.DataType.BFLOAT16)
    offsets = graph.tensor(dim=[batches + 1, 1, 1, 1], data_type=rd.DataType.INT64)
    stride = [heads * rows, 1, heads, 1]
    ragged = {"ragged_offset": offsets, "ragged_offset_multiplier": heads}
    operands = [graph.tensor(dim=dims, stride=stride, **ragged) for _ in range(5)]
    stats = graph.tensor(dim=dims, stride=stride, data_type=rd.DataType.FLOAT, **ragged)
    for gradient in graph.sdpa_backward(*operands, stats):
        gradient.set_output(True).set_dim(dims).set_stride(stride)
        gradient.set_ragged_offset(offsets).set_ragged_offset_multiplier(heads)
    words = f"each of {batches} batches x {heads} heads x {rows} rows, expected fewer than 2^60"
    assert words in verdicts(graph)[engine].reason


@pytest.mark.parametrize("d", [1, 64, 65, 96, 97, 128, 129, 192, 193, 256])
def test_the_narrowest_tiles_are_taken(engine, d):
    widths = (64, 128, 192, 256) if engine == "EMULATED_HOPPER_ENGINE" else (64, 96, 128, 192, 256)
    width = next(width for width in widths if d <= width)
    problem = make_problem(replace(SOURCES["edges"], dtype="bfloat16", d=d))
    assert f", width up to {width} (" in sdpa_graph(problem).build(engine).explain_kernel()
    if engine not in ("EMULATED_RDNA3_ENGINE", "EMULATED_RDNA4_ENGINE") or d <= 128:
        plan = sdpa_backward_graph(make_backward(problem)).build(engine)
        assert f", width up to {width} (" in plan.explain_kernel()
