"""The verification harness beyond the document: further calls of a plan, threads, guards round the
outputs, and arguments that do not fit.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest
import raggeddnn as rd
from harness_graphs import (
    CAPACITY,
    HEADS,
    LENS,
    OFFSETS,
    ROW,
    WIDTH,
    Attention,
    batchnorm,
    normalized,
    runtime_scalar,
)
from plugins.fakes import load
from raggeddnn.tensor import RaggedTensor, Tensor
from raggeddnn.testing import (
    Case,
    IntegrationGraphVerificationHarness,
    Tolerance,
    make_problem,
)
from raggeddnn.testing.graphs import sdpa_graph
from tensor_fixtures import aux_of

# ---- further calls, threads, guards ----


def padded(**options):
    """A harness of padded attention: dense outputs, of one sequence too short for its block."""
    problem = make_problem(Case("padded", (3, 1), (3, 2), layout="padded", memory="bhsd"))
    sdpa = sdpa_graph(problem)
    pack = sdpa.pack(problem, {})
    return sdpa, IntegrationGraphVerificationHarness(
        sdpa.graph, pack, **{"engine": "reference", **options}
    )


def test_other_inputs_go_to_the_same_plan_in_other_memory():
    attention = Attention(lengths=True)
    lengths = np.array([3, 0, 9], np.int32)
    harness = attention.harness({attention.aux: OFFSETS, attention.lengths: lengths})
    (first,) = harness.verify_graph().outputs
    before = {t: harness.engine_tensor(t).numpy() for t in (attention.q, attention.o)}
    fewer = np.array([0, 2, 6, 6], np.int32) * ROW
    lengths = np.array([1, 4, 0], np.int32)
    harness.change_inputs({attention.aux: fewer, attention.lengths: lengths})
    (second,) = harness.verify_graph().outputs
    assert first.passed and second.passed
    assert (first.comparison.compared, second.comparison.compared) == (12 * ROW, 5 * ROW)
    for tensor, array in before.items():
        assert not np.shares_memory(harness.engine_tensor(tensor).numpy(), array)
    with pytest.raises(rd.InvalidValueError, match=r"'off' .* was not supplied"):
        harness.change_inputs({})
    assert harness.verify_graph().outputs[0].comparison.compared == 5 * ROW


def test_another_value_of_a_runtime_scalar_goes_to_the_same_plan():
    momentum = rd.TensorAttributes(np.float32(0.25), rd.ScalarType.RUNTIME_PARAM)
    g, x, y = batchnorm(runtime_scalar("epsilon"), momentum)
    by_name = {t.get_name(): t for t in g.tensors}
    scalar = by_name["epsilon"]
    harness = IntegrationGraphVerificationHarness(g, engine="reference", scalars={scalar: 0.5})
    assert harness.verify_graph().passed
    harness.change_inputs(scalars={scalar: 2.0})
    assert harness.verify_graph().passed
    expected = normalized(harness, x, (by_name["scale"], by_name["bias"]), 2.0)
    np.testing.assert_allclose(harness.engine_tensor(y).numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("threads", [1, 4])
def test_threads_at_once_have_outputs_of_their_own(threads):
    attention = Attention()
    harness = attention.harness()
    report = harness.verify_concurrently(threads)
    assert report.passed and report.outputs[0].comparison.compared == 14 * ROW
    strict = harness.verify_concurrently(threads, {attention.o: Tolerance()})
    assert strict.passed
    for wrong in (0, 1025, 1.5):
        with pytest.raises(rd.InvalidValueError, match="threads got"):
            harness.verify_concurrently(wrong)


def test_a_wrong_result_is_found_in_every_thread():
    load("veneer_folds")
    attention = Attention("fold", scale=0.75)
    space = len(LENS) * HEADS * CAPACITY * WIDTH
    harness = attention.harness(engine="FOLDS_SCALAR_ENGINE", guard_elements=space)
    (output,) = harness.verify_concurrently(3).outputs
    assert output.comparison.worst_other == 0.75 and output.overwritten == space - OFFSETS[-1]


def test_threads_that_use_one_harness_take_turns():
    attention = Attention()
    reports = []
    for _ in range(5):
        harness = attention.harness()  # so that they meet in building the plans, too
        workers = [
            threading.Thread(target=lambda h=harness: reports.append(h.verify_graph()))
            for _ in range(4)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert len(reports) == 20 and all(reports)


def test_outputs_lie_between_guards_dense_ones_too():
    load("attention_faults")
    at = {"WRITES_PAST_DENSE": 2 * 2 * 4 * 16, "WRITES_BEFORE": -1, "WRITES_PAST": 14 * ROW}
    for fault, position in at.items():
        engine = {"engine": f"ATTENTION_{fault}_ENGINE", "guard_elements": 3}
        if fault == "WRITES_PAST_DENSE":
            _, harness = padded(**engine)
        else:
            harness = Attention().harness(**engine)
        report = harness.verify_graph()
        output = report.outputs[0]
        assert (output.overwritten, output.first_overwritten) == (1, position), fault
        assert output.comparison.passed and report.faults == [str(output)]


def test_a_changed_floating_point_environment_is_reported_and_undone():
    load("attention_faults")
    problem = make_problem(Case("br", (3,), (5,), causal=True, alignment="bottom_right"))
    sdpa = sdpa_graph(problem)
    harness = IntegrationGraphVerificationHarness(
        sdpa.graph, sdpa.pack(problem, {}), engine="ATTENTION_LEAVES_ROUNDING_ENGINE"
    )
    for verify in (harness.verify_graph, lambda: harness.verify_concurrently(2)):
        report = verify()
        assert report.changed_fp_environment and not report and "floating-point" in str(report)
        tiny = float(np.float64(2.0**-60))
        assert 1.0 - tiny == 1.0 and tiny - 1.0 == -1.0  # rounding to nearest


# ---- what does not fit ----


def dense(dims, strides=None, data_type=rd.DataType.FLOAT):
    return Tensor(dims, strides, data_type)


def test_supplied_tensors_have_the_graph_s_geometry():
    attention = Attention()
    dims, strides = attention.q.get_dim(), attention.q.get_stride()
    other = RaggedTensor(dims, strides, 2, aux_of([0, 5 * ROW, 6 * ROW, 14 * ROW]))
    turned = RaggedTensor(dims, [strides[0], strides[3], ROW, HEADS], 2, aux_of(OFFSETS))
    for tensor, words in (
        (dense(dims, strides), "'q' .* was supplied dense, expected ragged with offsets"),
        (other, r"'q' .* ragged with offsets \[0, 80, 96, 224\], expected ragged .*\[0, 80, 80"),
        (turned, "'q' .* was supplied with dims .* and strides .* expected"),
        (dense([1, 1, 1, 1]), r"'q' .* dims \[1, 1, 1, 1\] .*, expected"),
    ):
        with pytest.raises(rd.InvalidValueError, match=words):
            attention.harness({attention.aux: OFFSETS, attention.q: tensor})
    g = rd.Graph(io_data_type=rd.DataType.FLOAT)
    a, b = g.tensor(name="a", dim=[4, 8]), g.tensor(name="b", dim=[8, 4])
    g.matmul(a, b).set_output(True)
    with pytest.raises(rd.InvalidValueError, match=r"'b' .*strides \[1, 8\], expected .*\[4, 1\]"):
        IntegrationGraphVerificationHarness(g, {b: dense([8, 4], [1, 8])}, engine="reference")
    fits = {b: dense([8, 4])}
    assert IntegrationGraphVerificationHarness(g, fits, engine="reference").verify_graph()


def test_inputs_may_be_lists_keys_whole_numbers_and_graphs_any_bytes():
    attention = Attention()
    data = attention.graph.serialize()
    uids = {name: getattr(attention, name).get_uid() for name in ("aux", "q")}
    inputs = {np.int64(uids["aux"]): OFFSETS.tolist(), uids["q"]: [0.5] * (14 * ROW)}
    for graph in (data, bytearray(data), memoryview(data)):
        harness = IntegrationGraphVerificationHarness(graph, inputs, engine="reference")
        assert harness.verify_graph()
        assert (harness.engine_tensor(np.int64(uids["q"])).numpy() == 0.5).all()


@pytest.mark.parametrize("value", [None, [0.5, [1.0]], [0.5] * 3, "text"])
def test_an_input_that_is_no_array_of_its_size_is_named(value):
    attention = Attention()
    with pytest.raises(rd.InvalidValueError, match=r"tensor 'q' \(uid \d+\): .* expected"):
        attention.harness({attention.aux: OFFSETS, attention.q: value})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"engine": ""}, "engine got '', expected the name"),
        ({"reference_engine": ""}, "reference_engine got ''"),
        ({"guard_elements": -1}, "guard_elements got -1, expected 0 to"),
        ({"guard_elements": 2**64 - 1}, "guard_elements got"),
        ({"guard_elements": 1.5}, "guard_elements got 1.5, expected a whole number"),
        ({"seed": -1}, "seed got -1"),
        ({"seed": 2**64}, "seed got"),
        ({"inputs": {True: OFFSETS}}, "the key of a tensor got True, expected a whole number"),
        ({"inputs": {"off": OFFSETS}}, "the key of a tensor got 'off'"),
        ({"inputs": {2**70: OFFSETS}}, "the key of a tensor got"),
        ({"scalars": {None: 1.0}}, "the key of a tensor got None"),
    ],
)
def test_arguments_out_of_range_are_named(options, words):
    with pytest.raises(rd.InvalidValueError, match=words):
        Attention().harness(**options)


def test_what_is_no_graph_is_named():
    with pytest.raises(rd.InvalidValueError, match="graph got str, expected a Graph or its bytes"):
        IntegrationGraphVerificationHarness("graph", engine="reference")


@pytest.mark.parametrize(
    "tolerance",
    [
        Tolerance(absolute=-1),
        Tolerance(relative=np.nan),
        Tolerance(of_row=-np.inf),
        Tolerance(limits=np.full(14 * ROW, -1.0)),
        Tolerance(limits=np.full(14 * ROW, np.nan)),
    ],
)
def test_a_tolerance_is_at_least_zero(tolerance):
    attention = Attention()
    with pytest.raises(rd.InvalidValueError, match=r"the tolerance of tensor 'o' .* at least 0"):
        attention.harness().verify_graph({attention.o: tolerance})
