"""The verification harness: what both paths share, what is filled with what, and what it finds.

The statements are those of sections 4.9 to 4.11 of the ragged-tensor document, and of the
pass-by-value document's section 8, step 6.
"""

from __future__ import annotations

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
from raggeddnn.tensor import RaggedTensor, Tensor, all_close_skip_sentinel
from raggeddnn.testing import (
    Case,
    IntegrationGraphVerificationHarness,
    Tolerance,
    make_problem,
)
from raggeddnn.testing.graphs import sdpa_graph
from tensor_fixtures import aux_of


def test_a_missing_ragged_offset_fails_setup():
    with pytest.raises(
        rd.InvalidValueError,
        match=r"'off' \(uid \d+\), the ragged offset of tensor 'q' .* was not supplied",
    ):
        Attention().harness({})


def test_the_offsets_of_a_virtual_tensor_are_required_too():
    g = rd.Graph(io_data_type=rd.DataType.FLOAT, intermediate_data_type=rd.DataType.FLOAT)
    auxes = [
        g.tensor(name=name, dim=[2, 1, 1, 1], data_type=rd.DataType.INT64) for name in ("a", "b")
    ]
    x = g.tensor(name="x", dim=[1, 2, 3, 4], ragged_offset=auxes[0])
    between = g.pointwise(rd.PointwiseMode.RELU_FWD, x).set_name("between")
    between.set_ragged_offset(auxes[1])
    y = g.pointwise(rd.PointwiseMode.NEG, between).set_ragged_offset(auxes[0]).set_output(True)
    offsets = np.array([0, 16])
    with pytest.raises(rd.InvalidValueError, match=r"'b' .* the ragged offset of tensor 'between'"):
        IntegrationGraphVerificationHarness(g, {auxes[0]: offsets}, engine="reference")
    both = {aux: offsets for aux in auxes}
    harness = IntegrationGraphVerificationHarness(g, both, engine="reference")
    assert harness.verify_graph().passed
    x_rows, y_rows = (harness.engine_tensor(t).numpy() for t in (x, y))
    np.testing.assert_array_equal(y_rows, -np.maximum(x_rows, 0))


def test_both_paths_see_the_tensor_that_was_supplied():
    attention = Attention()
    aux = aux_of(OFFSETS)
    harness = attention.harness({attention.aux: aux})
    assert harness.verify_graph().passed
    memory = aux.numpy()
    for tensor in (harness.engine_tensor, harness.reference_tensor):
        assert np.shares_memory(tensor(attention.aux).numpy(), memory)


def test_a_supplied_input_is_not_random():
    attention = Attention()
    q = np.full((14, HEADS, WIDTH), 0.5, np.float32)
    harness = attention.harness({attention.aux: OFFSETS, attention.q: q})
    assert harness.verify_graph().passed
    assert (harness.engine_tensor(attention.q).numpy() == 0.5).all()


def test_a_ragged_tensor_is_as_large_as_its_last_offset():
    attention = Attention()
    harness = attention.harness(guard_elements=3)
    for name in ("q", "k", "v"):
        tensor = harness.engine_tensor(getattr(attention, name))
        assert tensor.element_count() == tensor.element_space() == OFFSETS[-1]
        assert not tensor.has_regular_dims()
    o = harness.engine_tensor(attention.o)
    assert o.element_count() == o.element_space() == OFFSETS[-1]  # its guards apart


def test_random_inputs_are_the_same_on_both_paths_and_follow_the_seed():
    attention = Attention()
    one, other = attention.harness(seed=1), attention.harness(seed=2)
    for tensor in (attention.q, attention.k):
        both = one.engine_tensor(tensor), one.reference_tensor(tensor)
        assert not np.shares_memory(both[0].numpy(), both[1].numpy())
        np.testing.assert_array_equal(both[0].numpy(), both[1].numpy())
        assert (both[0].numpy() != other.engine_tensor(tensor).numpy()).any()
    q, k = (one.engine_tensor(t).numpy() for t in (attention.q, attention.k))
    assert (q != k).any() and np.abs(q).max() <= 1


def test_padding_of_a_random_input_is_filled_and_of_an_output_skipped():
    attention = Attention(lengths=True)
    lengths = np.array([3, 0, 9], np.int32)  # two rows of padding in the first sequence
    harness = attention.harness({attention.aux: OFFSETS, attention.lengths: lengths})
    (output,) = harness.verify_graph().outputs
    assert (harness.engine_tensor(attention.q).numpy() != 0).all()
    assert (output.comparison.skipped, output.comparison.compared) == (2 * ROW, 12 * ROW)
    assert output.passed
    # The reference wrote valid rows only, over sentinels.
    fresh = RaggedTensor(attention.o.get_dim(), attention.o.get_stride(), 2, aux_of(OFFSETS))
    fresh.fill_with_sentinel_value()
    left = harness.reference_tensor(attention.o).numpy()[3 * ROW : 5 * ROW]
    assert left.tobytes() == fresh.numpy()[3 * ROW : 5 * ROW].tobytes()


def test_lengths_are_an_ordinary_input():
    attention = Attention(lengths=True)
    harness = attention.harness(low=0, high=0)  # so all zero: no sequence has a valid row
    (output,) = harness.verify_graph().outputs
    assert output.passed and output.comparison.compared == 0


def test_dense_outputs_start_as_sentinels_too():
    case = Case("padded", (3, 1), (3, 2), layout="padded", stats="none", memory="bhsd")
    problem = make_problem(case)
    sdpa = sdpa_graph(problem)
    pack = sdpa.pack(problem, {})
    harness = IntegrationGraphVerificationHarness(sdpa.graph, pack, engine="reference")
    (output,) = harness.verify_graph().outputs
    rows = case.heads[0] * case.d
    assert output.comparison.compared == 4 * rows
    assert output.comparison.skipped == (2 * sdpa.capacity_q - 4) * rows


def test_a_wrong_result_is_shown_with_index_got_and_expected():
    load("veneer_folds")  # fills o with the scale
    attention = Attention("fold", scale=0.75)
    space = len(LENS) * HEADS * CAPACITY * WIDTH  # that provider writes all padded dims
    harness = attention.harness(engine="FOLDS_SCALAR_ENGINE", guard_elements=space)
    report = harness.verify_graph()
    (output,) = report.outputs
    assert not report and not output.passed
    comparison = output.comparison
    assert comparison.mismatched > 13 * ROW and len(comparison.worst_index) == 4
    assert comparison.worst_other == 0.75
    reference = harness.reference_tensor(attention.o)
    assert reference.get_host_value(comparison.worst_index) == comparison.worst_reference
    # What was written past the last offset is found as well.
    assert output.overwritten == space - OFFSETS[-1]
    assert (output.first_overwritten, output.overwritten_value) == (OFFSETS[-1], 0.75)
    for words in ("output 'o'", "the worst at [", "got 0.75, expected", "belong to no row"):
        assert words in str(report)


def test_limits_decide_element_by_element():
    load("veneer_folds")
    attention = Attention("fold", scale=0.75)
    space = len(LENS) * HEADS * CAPACITY * WIDTH
    harness = attention.harness(engine="FOLDS_SCALAR_ENGINE", guard_elements=space)
    harness.verify_graph()
    o = harness.reference_tensor(attention.o).numpy().astype(np.float64)
    off = np.nan_to_num(np.abs(o - 0.75))
    exact = harness.verify_graph({attention.o: Tolerance(limits=off)})
    assert exact.outputs[0].comparison.passed
    off[OFFSETS[1] + 1] *= 0.999  # batch 2, its first row
    (output,) = harness.verify_graph({attention.o: Tolerance(limits=off)}).outputs
    assert output.comparison.mismatched == 1
    assert output.comparison.worst_index == (2, 0, 0, 1)
    assert harness.verify_graph({attention.o: Tolerance(absolute=2)}).outputs[0].comparison.passed
    with pytest.raises(rd.InvalidValueError, match="limits got 3 numbers, expected"):
        harness.verify_graph({attention.o: Tolerance(limits=np.zeros(3))})
    with pytest.raises(rd.InvalidValueError, match="got a tolerance, but is no output"):
        harness.verify_graph({attention.q: Tolerance()})


def test_an_engine_that_refuses_says_why():
    load("veneer_folds")
    harness = Attention("not for it").harness(engine="FOLDS_SCALAR_ENGINE")
    with pytest.raises(rd.NotSupportedError, match="does not begin with 'fold'"):
        harness.verify_graph()


@pytest.mark.parametrize("value", [0.5, 2.0])
def test_a_host_value_reaches_both_paths_as_the_runtime_scalar(value):
    momentum = rd.TensorAttributes(np.float32(0.25), rd.ScalarType.RUNTIME_PARAM)
    g, x, y = batchnorm(runtime_scalar("epsilon"), momentum)
    by_name = {t.get_name(): t for t in g.tensors}
    harness = IntegrationGraphVerificationHarness(
        g, engine="reference", scalars={by_name["epsilon"]: value}
    )
    assert harness.verify_graph().passed
    expected = normalized(harness, x, (by_name["scale"], by_name["bias"]), value)
    for tensor in (harness.engine_tensor(y), harness.reference_tensor(y)):
        np.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("state", list(rd.ScalarType.__members__.values()))
def test_a_baked_value_and_a_default_are_the_graph_s(state):
    momentum = rd.TensorAttributes(np.float32(0.25))
    g, x, y = batchnorm(rd.TensorAttributes(np.float32(0.125), state), momentum)
    by_name = {t.get_name(): t for t in g.tensors}
    harness = IntegrationGraphVerificationHarness(g, engine="reference")
    assert harness.verify_graph().passed
    expected = normalized(harness, x, (by_name["scale"], by_name["bias"]), 0.125)
    np.testing.assert_allclose(harness.engine_tensor(y).numpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_runtime_scalar_without_any_value_fails_setup():
    g, *_ = batchnorm(runtime_scalar("epsilon"), runtime_scalar("momentum"))
    by_name = {t.get_name(): t for t in g.tensors}
    with pytest.raises(rd.InvalidValueError, match=r"'momentum' .* without a default"):
        IntegrationGraphVerificationHarness(
            g, engine="reference", scalars={by_name["epsilon"]: 0.5}
        )
    with pytest.raises(rd.InvalidValueError, match=r"'x' .* is no runtime scalar"):
        scalars = {by_name["epsilon"]: 0.5, by_name["momentum"]: 0.5, by_name["x"]: 1.0}
        IntegrationGraphVerificationHarness(g, engine="reference", scalars=scalars)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros(4, np.float64), "expected FLOAT"),
        (np.zeros(5, np.float32), "expected"),
    ],
)
def test_a_supplied_array_must_fit(value, words):
    g, x, _ = batchnorm(rd.TensorAttributes(np.float32(0.5)), rd.TensorAttributes(np.float32(0.5)))
    with pytest.raises(rd.InvalidValueError, match=words):
        IntegrationGraphVerificationHarness(g, {x: value}, engine="reference")


def test_what_is_no_input_cannot_be_supplied():
    attention = Attention()
    o = np.zeros(int(OFFSETS[-1]), np.float32)
    with pytest.raises(rd.InvalidValueError, match=r"'o' .* is an output"):
        attention.harness({attention.aux: OFFSETS, attention.o: o})
    with pytest.raises(rd.InvalidValueError, match="uid 123456 was supplied"):
        attention.harness({attention.aux: OFFSETS, 123456: o})


def test_without_a_tolerance_the_condition_of_the_graph_decides():
    attention = Attention()
    harness = attention.harness()
    assert harness.verify_graph().passed
    (output,) = harness.verify_graph().outputs
    # Some units in the last place of numbers below 1, and no more.
    assert 0 < output.comparison.worst_limit < 64 * np.finfo(np.float32).eps


def test_dense_and_ragged_tensors_of_the_data_sdk_compare():
    tensors = [Tensor([2, 2]), Tensor([2, 2])]
    tensors[0].fill_with_data([1.0, 100.0, 2.0, 3.0])
    tensors[1].fill_with_data([1.5, 100.0, 2.5, 3.0])
    assert not all_close_skip_sentinel(*tensors, absolute=0.4)
    assert all_close_skip_sentinel(*tensors, absolute=0.5)
