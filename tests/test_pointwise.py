"""Elementwise operations against NumPy: every mode, every type, dense and ragged."""

from __future__ import annotations

import math

import numpy as np
import pytest
import raggeddnn as rd
from op_graphs import (
    BAD_OFFSETS,
    REAL_TYPES,
    Array,
    OpGraph,
    Ragged,
    assert_close,
    difference_quotients,
    random_array,
)
from raggeddnn.testing.checks import assert_same_bits

Mode = rd.PointwiseMode


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _normal(x: Array) -> Array:
    return np.exp(-x * x / 2) / np.sqrt(2 * np.pi).astype(x.dtype)


def _gelu_tanh_slope(x: Array) -> Array:
    root = np.sqrt(2 / np.pi).astype(x.dtype)
    cubic = x.dtype.type(0.044715)
    t = np.tanh(root * (x + cubic * x**3))
    return (1 + t) / 2 + x / 2 * (1 - t * t) * root * (1 + 3 * cubic * x * x)


def _phi(x: Array) -> Array:
    return (1 + _erf(x / np.sqrt(2).astype(x.dtype))) / 2


UNARY = {
    Mode.ABS: np.abs,
    Mode.CEIL: np.ceil,
    Mode.ELU_FWD: lambda x: np.where(x > 0, x, np.expm1(x)),
    Mode.ERF: _erf,
    Mode.EXP: np.exp,
    Mode.FLOOR: np.floor,
    Mode.GELU_APPROX_TANH_FWD: lambda x: (
        x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi).astype(x.dtype) * (x + x**3 * 0.044715)))
    ),
    Mode.GELU_FWD: lambda x: x * _phi(x),
    Mode.IDENTITY: lambda x: x,
    Mode.LOG: np.log,
    Mode.LOGICAL_NOT: lambda x: (x == 0).astype(x.dtype),
    Mode.NEG: np.negative,
    Mode.RECIPROCAL: lambda x: 1 / x,
    Mode.RELU_FWD: lambda x: np.maximum(x, 0),
    Mode.RSQRT: lambda x: 1 / np.sqrt(x),
    Mode.SIGMOID_FWD: _sigmoid,
    Mode.SIN: np.sin,
    Mode.SOFTPLUS_FWD: lambda x: np.logaddexp(x, x.dtype.type(0)),
    Mode.SQRT: np.sqrt,
    Mode.SWISH_FWD: lambda x: x * _sigmoid(x),
    Mode.TAN: np.tan,
    Mode.TANH_FWD: np.tanh,
}
BINARY = {
    Mode.ADD: np.add,
    Mode.ADD_SQUARE: lambda a, b: a + b * b,
    Mode.CMP_EQ: lambda a, b: (a == b).astype(a.dtype),
    Mode.CMP_GE: lambda a, b: (a >= b).astype(a.dtype),
    Mode.CMP_GT: lambda a, b: (a > b).astype(a.dtype),
    Mode.CMP_LE: lambda a, b: (a <= b).astype(a.dtype),
    Mode.CMP_LT: lambda a, b: (a < b).astype(a.dtype),
    Mode.CMP_NEQ: lambda a, b: (a != b).astype(a.dtype),
    Mode.DIV: np.divide,
    Mode.LOGICAL_AND: lambda a, b: np.logical_and(a, b).astype(a.dtype),
    Mode.LOGICAL_OR: lambda a, b: np.logical_or(a, b).astype(a.dtype),
    Mode.MAX_OP: np.maximum,
    Mode.MIN_OP: np.minimum,
    Mode.MUL: np.multiply,
    Mode.SUB: np.subtract,
    Mode.ELU_BWD: lambda dy, x: dy * np.where(x > 0, 1, np.exp(x)),
    Mode.GELU_APPROX_TANH_BWD: lambda dy, x: dy * _gelu_tanh_slope(x),
    Mode.GELU_BWD: lambda dy, x: dy * (_phi(x) + x * _normal(x)),
    Mode.RELU_BWD: lambda dy, x: dy * (x > 0),
    Mode.SIGMOID_BWD: lambda dy, x: dy * _sigmoid(x) * (1 - _sigmoid(x)),
    Mode.SOFTPLUS_BWD: lambda dy, x: dy * _sigmoid(x),
    Mode.SWISH_BWD: lambda dy, x: dy * _sigmoid(x) * (1 + x * (1 - _sigmoid(x))),
    Mode.TANH_BWD: lambda dy, x: dy * (1 - np.tanh(x) ** 2),
}
POSITIVE = {Mode.LOG, Mode.RSQRT, Mode.SQRT}
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


def graph_of(mode, *arrays, out=None, **options):
    names = "abc"[: len(arrays)]
    return OpGraph(
        lambda g, t: {"out": g.pointwise(mode, *(t[n] for n in names), **options)},
        dict(zip(names, arrays, strict=True)),
        {"out": out} if out else {},
    )


def test_every_mode_is_tested():
    tested = {*UNARY, *BINARY, Mode.BINARY_SELECT, Mode.GEN_INDEX, Mode.UNSET}
    assert tested == set(Mode)


@pytest.mark.parametrize("dtype", REAL_TYPES)
@pytest.mark.parametrize("mode", UNARY, ids=lambda m: m.name)
def test_one_input(engine, mode, dtype):
    x = random_array(np.random.default_rng(1), (3, 4, 5), dtype)
    if mode in POSITIVE:
        x = (np.abs(x) + x.dtype.type(0.25)).astype(x.dtype)
    x[0, 0, 0] = 1 if mode in POSITIVE or mode == Mode.RECIPROCAL else 0
    op = graph_of(mode, x)
    got = op.run(op.build(engine))
    assert_close(got, lambda a: {"out": UNARY[mode](a)}, {"a": x})


@pytest.mark.parametrize("dtype", REAL_TYPES)
@pytest.mark.parametrize("mode", BINARY, ids=lambda m: m.name)
def test_two_inputs_broadcast(engine, mode, dtype):
    rng = np.random.default_rng(2)
    a, b = random_array(rng, (3, 1, 5), dtype), random_array(rng, (4, 1), dtype)
    a[0, 0, 0] = b[0, 0]
    if "BWD" in mode.name:
        b = random_array(rng, (3, 4, 5), dtype)
    op = graph_of(mode, a, b)
    got = op.run(op.build(engine))
    inputs = {"a": a, "b": b}
    gradient = "BWD" in mode.name
    oracle = {"out": BINARY[mode]}
    assert_close(
        got,
        lambda a, b: {"out": oracle["out"](*np.broadcast_arrays(a, b))},
        inputs,
        gradient=gradient,
    )


def test_select_takes_a_where_c_is_not_zero(engine):
    rng = np.random.default_rng(3)
    a, b = random_array(rng, (3, 4), "float32"), random_array(rng, (3, 4), "float32")
    c = rng.integers(0, 2, (3, 1)).astype(bool)
    op = graph_of(Mode.BINARY_SELECT, a, b, c)
    np.testing.assert_array_equal(op.run(op.build(engine))["out"], np.where(c, a, b))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("out", ["int32", "int64", "float32"])
def test_index_over_an_axis(engine, axis, out):
    x = np.zeros((3, 4, 5), np.float32)
    op = graph_of(Mode.GEN_INDEX, x, out=out, axis=axis)
    np.testing.assert_array_equal(op.run(op.build(engine))["out"], np.indices(x.shape)[axis])


@pytest.mark.parametrize(("name", "options"), ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_gradients_by_finite_differences(engine, name, options):
    rng = np.random.default_rng(4)
    x = rng.standard_normal((3, 5)) + 0.01
    dy = rng.standard_normal((3, 5))
    forward = graph_of(Mode[f"{name}_FWD"], x, **options)
    plan = forward.build(engine)
    backward = graph_of(Mode[f"{name}_BWD"], dy, x, **options)
    got = backward.run(backward.build(engine))["out"]
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
def test_integers_are_exact_and_stay_in_range(engine, mode, dtype):
    rng = np.random.default_rng(5)
    low = 0 if dtype in ("uint8", "bool") else -100
    high = 2 if dtype == "bool" else 100
    a = rng.integers(low, high, (4, 5)).astype(dtype)
    b = rng.integers(1, high, (4, 5)).astype(dtype)
    op = graph_of(mode, a, b)
    want = INTEGER_MODES[mode](a.astype(int), b.astype(int)).astype(int)
    if dtype == "bool":
        want = want != 0
    else:
        limits = np.iinfo(dtype)
        want = np.clip(want, limits.min, limits.max)
    np.testing.assert_array_equal(op.run(op.build(engine), fill=1)["out"], want.astype(dtype))


def test_64_bit_integers_keep_every_bit(engine):
    a = np.array([[2**62 + 1, -(2**62) - 1, 2**63 - 1]], np.int64)
    b = np.array([[2, 2, 1]], np.int64)
    op = graph_of(Mode.ADD, a, b)
    got = op.run(op.build(engine), fill=1)["out"]
    assert got.tolist() == [[2**62 + 3, -(2**62) + 1, 2**63 - 1]]


@pytest.mark.parametrize("state", ["constant", "default", "runtime"])
@pytest.mark.parametrize("value", [np.float32(3.5), np.float64(3.5), np.int64(2**53 + 1), True])
def test_a_scalar_broadcasts_in_every_state(engine, state, value):
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
    plan = op.build(engine)
    values = {"s": value} if state == "runtime" else {}
    got = op.run(plan, values=values, fill=1)["out"]
    np.testing.assert_array_equal(got, x * value)


@pytest.mark.parametrize("dtype", REAL_TYPES)
@pytest.mark.parametrize("lens", [(3, 0, 5), (0, 0), (1,), (7, 2, 2, 4)])
def test_ragged_visits_the_rows_and_nothing_else(engine, dtype, lens):
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
    got = op.run(op.build(engine))
    total = sum(lens)
    for name in got:
        assert (got[name][total:] == got[name].dtype.type(77.0)).all()
        got[name] = got[name][:total]
    inputs = {"x": x.rows, "y": y.rows, "w": w[0, :, 0]}
    assert_close(got, lambda x, y, w: {"out": x * y, "wide": x + w}, inputs)


def test_ragged_and_padded_agree_bitwise(engine):
    rng = np.random.default_rng(7)
    lens = (3, 5)
    rows = random_array(rng, (8, 2, 4), "float32")
    op = graph_of(Mode.SWISH_FWD, Ragged(rows, lens))
    dense = graph_of(Mode.SWISH_FWD, np.ascontiguousarray(rows))
    ragged_out = op.run(op.build(engine))["out"][:8]
    assert_same_bits(ragged_out, dense.run(dense.build(engine))["out"], "out")


def test_index_over_the_rows_of_each_sequence(engine):
    lens = (3, 0, 2)
    x = Ragged(np.zeros((5, 1, 2), np.float32), lens)
    got = {}
    for axis in (0, 2):
        op = graph_of(Mode.GEN_INDEX, x, axis=axis)
        got[axis] = op.run(op.build(engine))["out"][:5, 0, 0].tolist()
    assert got[2] == [0, 1, 2, 0, 1]
    assert got[0] == [0, 0, 0, 2, 2]


@pytest.mark.parametrize(("offsets", "index"), BAD_OFFSETS)
def test_bad_offsets_are_named_before_any_write(engine, offsets, index):
    op = graph_of(Mode.NEG, Ragged(np.ones((4, 2, 4), np.float32), (1, 1)))
    message = rf"\[pointwise\] ragged offset of out 'off': index {index} "
    op.assert_refused(op.build(engine), message, {"off": np.array(offsets)})


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
    op = graph_of(mode, *arrays, **options)
    with pytest.raises(rd.Error, match=message):
        op.graph.validate()
    assert what


def test_a_dense_output_of_a_ragged_input_is_refused():
    op = graph_of(Mode.NEG, Ragged(np.zeros((3, 2, 4), F), (1, 2)))
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
