"""Elementwise operations against NumPy: every mode, every type, dense and ragged."""

from __future__ import annotations

import numpy as np
import pytest
import raggeddnn as rd
from op_refusals import BAD_OFFSETS, assert_refused
from raggeddnn.testing.checks import assert_same_bits
from raggeddnn.testing.op_graphs import (
    REAL_TYPES,
    OpGraph,
    Ragged,
    assert_close,
    difference_quotients,
    random_array,
)
from raggeddnn.testing.pointwise import BINARY, POSITIVE, UNARY, pointwise_graph

Mode = rd.PointwiseMode


ACTIVATIONS = {
    "relu": (
        "RELU",
        {"relu_lower_clip": -0.5, "relu_upper_clip": 0.75, "relu_lower_clip_slope": 0.125},
    ),
    "elu": ("ELU", {"elu_alpha": 0.75}),
    "swish": ("SWISH", {"swish_beta": 1.5}),
    "softplus": ("SOFTPLUS", {"softplus_beta": 2.5}),
    "gelu": ("GELU", {}),
    "gelu-tanh": ("GELU_APPROX_TANH", {}),
    "sigmoid": ("SIGMOID", {}),
    "tanh": ("TANH", {}),
}


def test_every_mode_is_tested():
    tested = {*UNARY, *BINARY, Mode.BINARY_SELECT, Mode.GEN_INDEX, Mode.UNSET}
    assert tested == set(Mode)


@pytest.mark.parametrize("dtype", REAL_TYPES)
@pytest.mark.parametrize("mode", UNARY, ids=lambda m: m.name)
def test_one_input(build, mode, dtype):
    x = random_array(np.random.default_rng(1), (3, 4, 5), dtype)
    if mode in POSITIVE:
        x = (np.abs(x) + x.dtype.type(0.25)).astype(x.dtype)
    x[0, 0, 0] = 1 if mode in POSITIVE or mode == Mode.RECIPROCAL else 0
    op = pointwise_graph(mode, x)
    got = op.run(build(op))
    assert_close(got, lambda a: {"out": UNARY[mode](a)}, {"a": x})


@pytest.mark.parametrize("dtype", REAL_TYPES)
@pytest.mark.parametrize("mode", BINARY, ids=lambda m: m.name)
def test_two_inputs_broadcast(build, mode, dtype):
    rng = np.random.default_rng(2)
    a, b = random_array(rng, (3, 1, 5), dtype), random_array(rng, (4, 1), dtype)
    a[0, 0, 0] = b[0, 0]
    if "BWD" in mode.name:
        b = random_array(rng, (3, 4, 5), dtype)
    op = pointwise_graph(mode, a, b)
    got = op.run(build(op))
    inputs = {"a": a, "b": b}
    gradient = "BWD" in mode.name
    oracle = {"out": BINARY[mode]}
    assert_close(
        got,
        lambda a, b: {"out": oracle["out"](*np.broadcast_arrays(a, b))},
        inputs,
        gradient=gradient,
    )


def test_select_takes_a_where_c_is_not_zero(build):
    rng = np.random.default_rng(3)
    a, b = random_array(rng, (3, 4), "float32"), random_array(rng, (3, 4), "float32")
    c = rng.integers(0, 2, (3, 1)).astype(bool)
    op = pointwise_graph(Mode.BINARY_SELECT, a, b, c)
    np.testing.assert_array_equal(op.run(build(op))["out"], np.where(c, a, b))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("out", ["int32", "int64", "float32"])
def test_index_over_an_axis(build, axis, out):
    x = np.zeros((3, 4, 5), np.float32)
    op = pointwise_graph(Mode.GEN_INDEX, x, out=out, axis=axis)
    np.testing.assert_array_equal(op.run(build(op))["out"], np.indices(x.shape)[axis])


@pytest.mark.parametrize(("name", "options"), ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_gradients_by_finite_differences(build, name, options):
    rng = np.random.default_rng(4)
    x = rng.standard_normal((3, 5)) + 0.01
    dy = rng.standard_normal((3, 5))
    forward = pointwise_graph(Mode[f"{name}_FWD"], x, **options)
    plan = build(forward)
    backward = pointwise_graph(Mode[f"{name}_BWD"], dy, x, **options)
    got = backward.run(build(backward))["out"]
    want, bound = difference_quotients(
        lambda x: float(np.sum(dy * forward.run(plan, {"a": x})["out"])), x
    )
    assert (np.abs(got - want) <= bound).all(), (got - want, bound)


INTEGER_MODES = {
    Mode.ADD: np.add,
    Mode.SUB: np.subtract,
    Mode.MUL: np.multiply,
    Mode.MAX_OP: np.maximum,
    Mode.MIN_OP: np.minimum,
    Mode.CMP_GT: np.greater,
    Mode.LOGICAL_AND: np.logical_and,
    Mode.DIV: lambda a, b: np.trunc(a / b).astype(int),
    Mode.ADD_SQUARE: lambda a, b: a + b * b,
}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "bool"])
@pytest.mark.parametrize("mode", INTEGER_MODES, ids=lambda m: m.name)
def test_integers_are_exact_and_stay_in_range(build, mode, dtype):
    rng = np.random.default_rng(5)
    low = 0 if dtype in ("uint8", "bool") else -100
    high = 2 if dtype == "bool" else 100
    a = rng.integers(low, high, (4, 5)).astype(dtype)
    b = rng.integers(1, high, (4, 5)).astype(dtype)
    op = pointwise_graph(mode, a, b)
    want = INTEGER_MODES[mode](a.astype(int), b.astype(int)).astype(int)
    if dtype == "bool":
        want = want != 0
    else:
        limits = np.iinfo(dtype)
        want = np.clip(want, limits.min, limits.max)
    np.testing.assert_array_equal(op.run(build(op), fill=1)["out"], want.astype(dtype))


def test_64_bit_integers_keep_every_bit(build):
    a = np.array([[2**62 + 1, -(2**62) - 1, 2**63 - 1]], np.int64)
    b = np.array([[2, 2, 1]], np.int64)
    op = pointwise_graph(Mode.ADD, a, b)
    got = op.run(build(op), fill=1)["out"]
    assert got.tolist() == [[2**62 + 3, -(2**62) + 1, 2**63 - 1]]


@pytest.mark.parametrize("state", ["constant", "default", "runtime"])
@pytest.mark.parametrize("value", [np.float32(3.5), np.float64(3.5), np.int64(2**53 + 1), True])
def test_a_scalar_broadcasts_in_every_state(build, state, value):
    x = np.array([[1, 2, 3]], np.int64 if isinstance(value, np.int64) else np.float64)

    def scalar(g):
        if state == "runtime":
            t = rd.TensorAttributes(value)
            kind = t.get_data_type()
            return g.tensor(rd.TensorAttributes().set_as_runtime_parameter().set_data_type(kind))
        kind = "COMPILE_TIME_CONST" if state == "constant" else "RUNTIME_PARAM"
        return g.tensor(value, rd.ScalarType[kind])

    op = OpGraph(
        lambda g, t: {"out": g.pointwise(Mode.MUL, t["a"], t["s"])}, {"a": x}, scalars={"s": scalar}
    )
    plan = build(op)
    values = {"s": value} if state == "runtime" else {}
    got = op.run(plan, values=values, fill=1)["out"]
    np.testing.assert_array_equal(got, x * value)


@pytest.mark.parametrize("dtype", REAL_TYPES)
@pytest.mark.parametrize("lens", [(3, 0, 5), (0, 0), (1,), (7, 2, 2, 4)])
def test_ragged_visits_the_rows_and_nothing_else(build, dtype, lens):
    rng = np.random.default_rng(6)
    x = Ragged(random_array(rng, (sum(lens), 2, 4), dtype), lens)
    y = Ragged(random_array(rng, (sum(lens), 2, 4), dtype), lens)
    w = random_array(rng, (1, 2, 1, 4), dtype)
    op = OpGraph(
        lambda g, t: {
            "out": g.pointwise(Mode.MUL, t["x"], t["y"]),
            "wide": g.pointwise(Mode.ADD, t["x"], t["w"]),
        },
        {"x": x, "y": y, "w": w},
    )
    got = op.run(build(op))
    total = sum(lens)
    for name in got:
        assert (got[name][total:] == got[name].dtype.type(77.0)).all()
        got[name] = got[name][:total]
    inputs = {"x": x.rows, "y": y.rows, "w": w[0, :, 0]}
    assert_close(got, lambda x, y, w: {"out": x * y, "wide": x + w}, inputs)


def test_ragged_and_padded_agree_bitwise(build):
    rng = np.random.default_rng(7)
    lens = (3, 5)
    rows = random_array(rng, (8, 2, 4), "float32")
    op = pointwise_graph(Mode.SWISH_FWD, Ragged(rows, lens))
    dense = pointwise_graph(Mode.SWISH_FWD, np.ascontiguousarray(rows))
    ragged_out = op.run(build(op))["out"][:8]
    assert_same_bits(ragged_out, dense.run(build(dense))["out"], "out")


def test_index_over_the_rows_of_each_sequence(build):
    lens = (3, 0, 2)
    x = Ragged(np.zeros((5, 1, 2), np.float32), lens)
    got = {}
    for axis in (0, 2):
        op = pointwise_graph(Mode.GEN_INDEX, x, axis=axis)
        got[axis] = op.run(build(op))["out"][:5, 0, 0].tolist()
    assert got[2] == [0, 1, 2, 0, 1]
    assert got[0] == [0, 0, 0, 2, 2]


@pytest.mark.parametrize(("offsets", "index"), BAD_OFFSETS)
def test_bad_offsets_are_named_before_any_write(build, offsets, index):
    op = pointwise_graph(Mode.NEG, Ragged(np.ones((4, 2, 4), np.float32), (1, 1)))
    message = rf"\[pointwise\] ragged offset of out 'off': index {index} "
    assert_refused(op, build(op), message, {"off": np.array(offsets)})


F = np.float32
BAD = [
    (
        "broadcast",
        Mode.ADD,
        [np.zeros((3, 4), F), np.zeros((5,), F)],
        {},
        r"\[pointwise\] b 'b' has dims \[5\], expected to broadcast to",
    ),
    ("missing", Mode.ADD, [np.zeros((3, 4), F)], {}, r"b is not set.*ADD takes 2"),
    ("too many", Mode.NEG, [np.zeros(3, F), np.zeros(3, F)], {}, r"b is set for mode NEG"),
    ("alien", Mode.NEG, [np.zeros(3, F)], {"elu_alpha": 1.0}, r"elu_alpha is set for mode NEG"),
    ("clip", Mode.TANH_FWD, [np.zeros(3, F)], {"relu_upper_clip": 6.0}, r"relu_upper_clip is set"),
    ("axis", Mode.NEG, [np.zeros(3, F)], {"axis": 0}, r"axis is set for mode NEG"),
    ("no axis", Mode.GEN_INDEX, [np.zeros(3, F)], {}, r"axis is not set"),
    ("far axis", Mode.GEN_INDEX, [np.zeros(3, F)], {"axis": 1}, r"axis is 1, expected 0 to 0"),
    ("unset", Mode.UNSET, [np.zeros(3, F)], {}, r"mode is 0, expected 1 to 47"),
]


@pytest.mark.parametrize(
    ("what", "mode", "arrays", "options", "message"), BAD, ids=lambda v: str(v)[:12]
)
def test_what_does_not_fit_is_named(what, mode, arrays, options, message):
    op = pointwise_graph(mode, *arrays, **options)
    with pytest.raises(rd.Error, match=message):
        op.graph.validate()
    assert what


def test_a_dense_output_of_a_ragged_input_is_refused():
    op = pointwise_graph(Mode.NEG, Ragged(np.zeros((3, 2, 4), F), (1, 2)))
    op.outputs["out"].set_dim([2, 2, 2, 4]).set_stride([16, 8, 4, 1])
    with pytest.raises(rd.InvalidValueError, match="is dense, expected a ragged tensor as a"):
        op.graph.validate()


def test_a_result_with_offsets_of_its_own_lies_as_ragged_memory_must():
    g = rd.Graph(io_data_type=rd.DataType.FLOAT)
    aux = g.tensor(name="aux", dim=[3, 1, 1, 1], data_type=rd.DataType.INT32)
    y = g.pointwise(rd.PointwiseMode.NEG, g.tensor(name="x", dim=[2, 2, 3, 4]))
    y.set_output(True).set_ragged_offset(aux)
    g.validate()
    assert y.get_stride() == [24, 4, 8, 1]


@pytest.mark.parametrize("look", ["validate", "explain"])
def test_an_inferred_ragged_offset_is_shown_and_follows_later_changes(look):
    g = rd.Graph(io_data_type=rd.DataType.FLOAT)
    aux, other = (
        g.tensor(name=name, dim=[3, 1, 1, 1], data_type=rd.DataType.INT32) for name in ("a", "b")
    )
    x = g.tensor(name="x", dim=[2, 2, 3, 4], ragged_offset=aux, ragged_offset_multiplier=2)
    y = g.pointwise(rd.PointwiseMode.NEG, x).set_output(True)
    getattr(g, look)()
    assert (y.get_ragged_offset(), y.get_ragged_offset_multiplier()) == (aux, 2)
    x.set_ragged_offset(other).set_ragged_offset_multiplier(8)
    g.validate()
    assert (y.get_ragged_offset(), y.get_ragged_offset_multiplier()) == (other, 8)
    y.set_ragged_offset(aux).set_ragged_offset_multiplier(4)  # stated: not inferred over
    g.validate()
    assert (y.get_ragged_offset(), y.get_ragged_offset_multiplier()) == (aux, 4)
