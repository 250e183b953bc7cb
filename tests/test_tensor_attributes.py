"""TensorAttributes: the by-value states, scalars and their ranges, validation, after a build."""

from __future__ import annotations

import json
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import raggeddnn as rd
from plugins.fakes import constant, load, runtime, small, with_default
from raggeddnn import DataType, ScalarType, TensorAttributes

CONST, PARAM = ScalarType.COMPILE_TIME_CONST, ScalarType.RUNTIME_PARAM


# ---- the three states (runtime pass-by-value document, 4.2) ----

MAKERS: dict[str, list[Any]] = {
    "runtime": [
        lambda: TensorAttributes().set_as_runtime_parameter(),
        lambda: TensorAttributes().set_is_pass_by_value(True),
        lambda: TensorAttributes(0.5).set_as_runtime_parameter(),
        lambda: TensorAttributes(0.5, PARAM).set_as_runtime_parameter(),
    ],
    "default": [
        lambda: TensorAttributes(0.5, PARAM),
        lambda: TensorAttributes(0.5).set_is_pass_by_value(True),
        lambda: TensorAttributes().set_value(0.5).set_is_pass_by_value(True),
    ],
    "constant": [
        lambda: TensorAttributes(0.5),
        lambda: TensorAttributes(0.5, CONST),
        lambda: TensorAttributes().set_value(0.5),
        lambda: TensorAttributes().set_compile_time_constant(0.5),
        lambda: TensorAttributes(0.5, PARAM).set_value(0.5),
        lambda: TensorAttributes(0.5, PARAM).set_is_pass_by_value(False),
        lambda: TensorAttributes().set_as_runtime_parameter().set_value(0.5),
    ],
    "ordinary": [
        TensorAttributes,
        lambda: TensorAttributes().set_dim([1]).set_stride([1]),
        lambda: TensorAttributes().set_compile_time_constant(None),
        lambda: TensorAttributes().set_as_runtime_parameter().set_is_pass_by_value(False),
    ],
}

# get_is_pass_by_value, get_pass_by_value, get_compile_time_constant,
# get_has_compile_time_constant, get_is_runtime_pass_by_value, get_value_variant
GETTERS = {
    "runtime": (True, None, None, False, True, None),
    "default": (True, 0.5, None, False, True, 0.5),
    "constant": (True, None, 0.5, True, False, 0.5),
    "ordinary": (False, None, None, False, False, None),
}


@pytest.mark.parametrize(
    ("state", "make"), [(state, make) for state, all_ in MAKERS.items() for make in all_]
)
def test_what_every_getter_says_of_a_state(state, make):
    t = make()
    got = (
        t.get_is_pass_by_value(),
        t.get_pass_by_value(),
        t.get_compile_time_constant(),
        t.get_has_compile_time_constant(),
        t.get_is_runtime_pass_by_value(),
        t.get_value_variant(),
    )
    assert got == GETTERS[state]


@pytest.mark.parametrize("state", ["runtime", "default", "constant"])
def test_every_by_value_state_validates(state):
    for make in MAKERS[state]:
        t = make().set_data_type(DataType.FLOAT)
        if not t.get_dim():
            t.set_dim([1]).set_stride([1])
        t.validate()


def test_setters_chain_on_the_same_object():
    t, aux = TensorAttributes(), TensorAttributes()
    chained = (
        t.set_name("q")
        .set_uid(3)
        .set_dim([2, 3])
        .set_stride([3, 1])
        .set_data_type(DataType.HALF)
        .set_alignment(64)
        .set_output(False)
        .set_ragged_offset(aux)
        .set_ragged_offset_multiplier(8)
    )
    assert chained is t
    assert (t.get_name(), t.get_uid(), t.get_dim(), t.get_stride()) == ("q", 3, [2, 3], [3, 1])
    assert (t.get_data_type(), t.get_alignment()) == (DataType.HALF, 64)
    assert t.get_is_virtual() and not t.set_output(True).get_is_virtual()
    assert t.set_is_virtual(True).get_is_virtual()
    assert t.get_ragged_offset() is aux and t.has_ragged_offset()
    assert t.get_ragged_offset_multiplier() == 8 and t.get_volume() == 6
    assert t.set_ragged_offset(None).get_ragged_offset() is None
    for part in ("'q'", "uid=3", "[2, 3]", "HALF", "virtual"):
        assert part in repr(t)


def test_defaults():
    t = TensorAttributes()
    assert (t.get_alignment(), t.get_ragged_offset_multiplier()) == (16, 1)
    assert (t.get_name(), t.get_dim(), t.get_data_type()) == ("", [], DataType.NOT_SET)
    assert not t.get_is_virtual() and not t.has_uid()
    with pytest.raises(rd.InvalidValueError, match="no uid"):
        t.get_uid()


def test_set_value_resets_dims_strides_and_flag():
    t = TensorAttributes().set_dim([2, 3]).set_stride([3, 1]).set_is_pass_by_value(True)
    t.set_value(7)
    assert (t.get_dim(), t.get_stride()) == ([1], [1])
    assert t.get_data_type() == DataType.INT32 and t.get_has_compile_time_constant()


def test_set_is_pass_by_value_touches_only_the_flag():
    t = TensorAttributes().set_dim([2, 3]).set_stride([3, 1]).set_data_type(DataType.HALF)
    t.set_is_pass_by_value(True)
    assert (t.get_dim(), t.get_stride(), t.get_data_type()) == ([2, 3], [3, 1], DataType.HALF)
    t = TensorAttributes(np.float64(0.1))
    for flag in (True, False, True):
        t.set_is_pass_by_value(flag)
        assert t.get_value_variant() == 0.1 and t.get_data_type() == DataType.DOUBLE


def test_set_as_runtime_parameter_keeps_the_type_and_clears_the_value():
    t = TensorAttributes(np.float64(0.1)).set_as_runtime_parameter()
    assert t.get_value_variant() is None and t.get_data_type() == DataType.DOUBLE
    assert (t.get_dim(), t.get_stride()) == ([1], [1])


# ---- scalars ----


@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        (0.5, DataType.FLOAT),
        (True, DataType.BOOLEAN),
        (7, DataType.INT32),
        (-(2**31), DataType.INT32),
        (2**31, DataType.INT64),
        (np.float64(0.1), DataType.DOUBLE),
        (np.float32(0.5), DataType.FLOAT),
        (np.float16(0.5), DataType.HALF),
        (ml_dtypes.bfloat16(0.5), DataType.BFLOAT16),
        (np.uint8(255), DataType.UINT8),
        (np.int32(-7), DataType.INT32),
        (np.int64(7), DataType.INT64),
        (np.bool_(True), DataType.BOOLEAN),
    ],
    ids=lambda x: f"{type(x).__name__}",
)
def test_the_type_that_a_scalar_brings(value, data_type):
    for t in (TensorAttributes(value), TensorAttributes(value, PARAM)):
        assert t.get_data_type() == data_type
        assert t.get_value_variant() == (value.item() if hasattr(value, "item") else value)
    # A type stated before the value stays.
    if data_type != DataType.BOOLEAN:
        t = TensorAttributes().set_data_type(DataType.DOUBLE).set_value(value)
        assert t.get_data_type() == DataType.DOUBLE and t.get_value_variant() == float(value)


LIMITS = [
    (DataType.UINT8, [0, 255], [-1, 256]),
    (DataType.INT32, [-(2**31), 2**31 - 1], [-(2**31) - 1, 2**31]),
    (DataType.INT64, [-(2**63), 2**63 - 1], [-(2**63) - 1, 2**63]),
    (DataType.HALF, [65504.0, -65504.0], [65520.0, -1e6]),
    (DataType.BFLOAT16, [3.38e38], [3.4e38, -1e39]),
    (DataType.FLOAT, [3.4e38], [3.5e38, -1e300]),
    (DataType.DOUBLE, [1.7e308, -1e-320], []),
]


@pytest.mark.parametrize(("data_type", "fit", "burst"), LIMITS, ids=[x[0].name for x in LIMITS])
def test_scalars_are_checked_for_range(data_type, fit, burst):
    for value in fit:
        t = TensorAttributes().set_value(value, data_type)
        assert t.get_value_variant() == pytest.approx(value, rel=2**-7)
    for value in burst:
        t = TensorAttributes().set_name("alpha")
        with pytest.raises(rd.InvalidValueError) as caught:
            t.set_value(value, data_type)
        text = str(caught.value)
        assert "'alpha'" in text and "out of range" in text and data_type.name in text
        assert t.get_value_variant() is None and not t.get_is_pass_by_value()


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("data_type", ["HALF", "BFLOAT16", "FLOAT", "DOUBLE"])
def test_infinities_and_nan_are_values(value, data_type):
    stored = TensorAttributes().set_value(value, DataType[data_type]).get_value_variant()
    assert stored == value or (np.isnan(stored) and np.isnan(value))


@pytest.mark.parametrize(
    ("value", "data_type", "words"),
    [
        (True, DataType.FLOAT, "expected a number for FLOAT"),
        (False, DataType.INT32, "expected a number for INT32"),
        (1, DataType.BOOLEAN, "expected a bool"),
        (0.5, DataType.INT32, "expected an integer for INT32"),
        ("half", DataType.FLOAT, "expected a number"),
        ("half", None, "expected a number"),
        (None, None, "expected a number"),
        ([0.5], None, "expected a number"),
        (1j, DataType.FLOAT, "expected a number for FLOAT"),
        (np.bool_(True), DataType.FLOAT, "expected a number for FLOAT"),
        (np.complex64(1 + 2j), DataType.FLOAT, "expected a number for FLOAT"),
        (np.float32(0.5), DataType.BOOLEAN, "expected a bool"),
        (0.5, DataType.FP8_E4M3, "expected DOUBLE, FLOAT, HALF, BFLOAT16"),
        (np.int8(1), None, "scalar of type int8"),
        (np.uint64(1), None, "scalar of type uint64"),
    ],
    ids=repr,
)
def test_what_is_no_scalar_of_the_type_is_refused(value, data_type, words):
    t = TensorAttributes().set_name("alpha")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy only warns that a part of a complex number is lost
        with pytest.raises(rd.InvalidValueError) as caught:
            t.set_value(value, data_type)
    assert "'alpha'" in str(caught.value) and words in str(caught.value)
    assert t.get_value_variant() is None


# The member of the union and the number in it: 16-bit types travel widened.
ON_WIRE = [
    (np.float32(0.1), "Float32Value", float(np.float32(0.1)), "float"),
    (np.float16(0.1), "Float16Value", float(np.float16(0.1)), "half"),
    (
        ml_dtypes.bfloat16(0.1),
        "BFloat16Value",
        float(ml_dtypes.bfloat16(0.1)),
        "bfloat16",
    ),
    (np.float64(0.1), "Float64Value", 0.1, "double"),
    (np.uint8(200), "Float8Value", 200, "uint8"),
    (np.int32(-5), "Int32Value", -5, "int32"),
    (np.int64(2**60), "Int64Value", 2**60, "int64"),
    (True, "BoolValue", True, "boolean"),
]


@pytest.mark.parametrize(
    ("value", "member", "number", "name"), ON_WIRE, ids=[w[1] for w in ON_WIRE]
)
def test_scalars_on_the_wire(value, member, number, name):
    sdpa = small()
    sdpa.graph.tensor(TensorAttributes(value).set_name("alpha"))
    data = sdpa.graph.serialize()
    rows = json.loads(rd.Graph.deserialize(data).to_json())["tensors"]
    (row,) = [row for row in rows if row["name"] == "alpha"]
    assert row["data_type"] == name and row["value_type"] == member
    assert row["value"] == pytest.approx(number, rel=1e-7)
    (read,) = [t for t in rd.Graph.deserialize(data).tensors if t.get_name() == "alpha"]
    assert read.get_compile_time_constant() == number


def test_a_16_bit_scalar_is_rounded_before_it_travels():
    t = TensorAttributes().set_value(0.1, DataType.HALF)
    assert t.get_value_variant() == float(np.float16(0.1)) != 0.1
    t = TensorAttributes().set_value(0.1, DataType.BFLOAT16)
    assert t.get_value_variant() == float(ml_dtypes.bfloat16(0.1)) != 0.1


@pytest.mark.parametrize("data_type", ["DOUBLE", "HALF", "INT32"])
@pytest.mark.parametrize("state", [constant, with_default])
def test_a_type_set_after_the_value_is_no_lie(state, data_type):
    # Providers read a value by its tensor's type: the two agree on the wire, or it is refused.
    sdpa = small(scale=state(0.5).set_data_type(DataType[data_type]))
    try:
        rows = json.loads(sdpa.graph.to_json())["tensors"]
    except rd.InvalidValueError as error:
        assert "'scale'" in str(error) and data_type in str(error)
        return
    (row,) = [row for row in rows if row["name"] == "scale"]
    members = {"DOUBLE": "Float64Value", "HALF": "Float16Value", "INT32": "Int32Value"}
    assert row["value_type"] == members[data_type]


@pytest.mark.parametrize("scale", [1e39, -1e300])
def test_a_scale_beyond_float_does_not_become_infinite(scale):
    try:
        graph = json.loads(small(scale=scale).graph.to_json())
    except rd.InvalidValueError as error:
        assert "attn_scale" in str(error) and "out of range" in str(error)
        return
    values = [row["value"] for row in graph["tensors"] if "value" in row]
    values.append(graph["nodes"][0]["attributes"].get("attn_scale_value"))
    assert [value for value in values if value is not None] == [scale]


@pytest.mark.parametrize("scale", [True, np.bool_(True), np.complex64(1), "1", [1.0]], ids=repr)
def test_what_is_no_number_is_no_scale(scale):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(rd.InvalidValueError, match=r"\[sdpa\] attn_scale got"):
            small(scale=scale)


# ---- validation ----


def ordinary() -> TensorAttributes:
    t = TensorAttributes().set_name("x").set_uid(9).set_dim([2, 3]).set_stride([3, 1])
    return t.set_data_type(DataType.FLOAT)


WRONG = [
    (lambda t: t.set_value(0.5).set_is_virtual(True), "is virtual and carries a value"),
    (
        lambda t: t.set_is_pass_by_value(True).set_is_virtual(True),
        "is virtual and runtime pass-by-value",
    ),
    (lambda t: t.set_alignment(0), "has alignment 0, expected >= 1"),
    (lambda t: t.set_alignment(-16), "has alignment -16, expected >= 1"),
    (lambda t: t.set_dim([]).set_stride([]), "has no dims"),
    (lambda t: t.set_stride([1]), "has dims [2, 3] and strides [1]"),
    (lambda t: t.set_dim([2, -3]), "has dims [2, -3], expected each >= 0"),
    (lambda t: t.set_dim([2**40, 2**40]), "more elements than 2^63"),
    (lambda t: t.set_is_pass_by_value(True), "is pass-by-value with dims [2, 3], expected one"),
    (lambda t: t.set_data_type(DataType.NOT_SET), "has no data type"),
    (
        lambda t: t.set_value(1, DataType.UINT8).set_is_pass_by_value(True),
        "is a runtime scalar of type UINT8, expected DOUBLE",
    ),
    (lambda t: t.set_ragged_offset_multiplier(0), "has ragged_offset_multiplier 0, expected >= 1"),
    (lambda t: t.set_ragged_offset_multiplier(-1), "has ragged_offset_multiplier -1"),
    (lambda t: t.set_ragged_offset_multiplier(2), "multiplier 2 and no ragged offset"),
]


@pytest.mark.parametrize(("change", "words"), WRONG, ids=[w[1] for w in WRONG])
def test_validate_says_what_is_wrong(change, words):
    ordinary().validate()
    t = change(ordinary())
    with pytest.raises(rd.InvalidValueError) as caught:
        t.validate()
    assert "tensor 'x' (uid 9)" in str(caught.value) and words in str(caught.value)


@pytest.mark.parametrize("data_type", ["UINT8", "INT8", "FP8_E4M3"])
def test_a_runtime_scalar_has_one_of_seven_types(data_type):
    t = runtime(DataType[data_type]).set_name("x")
    with pytest.raises(rd.InvalidValueError, match=rf"'x'.* {data_type}, expected DOUBLE"):
        t.validate()


# ---- after the build ----

SETTERS = [
    ("set_value", (9.0,)),
    ("set_compile_time_constant", (9.0,)),
    ("set_as_runtime_parameter", ()),
    ("set_is_pass_by_value", (True,)),
    ("set_dim", ([4],)),
    ("set_data_type", (DataType.HALF,)),
    ("set_name", ("other",)),
    ("set_uid", (77,)),
]


@pytest.mark.parametrize(("setter", "args"), SETTERS, ids=[s[0] for s in SETTERS])
def test_a_setter_after_the_build_warns_and_changes_no_plan(setter, args):
    load("fake_1_2_0")
    sdpa = small(scale=constant(0.25))
    scale = sdpa.tensors["scale"]
    plan = sdpa.graph.build(engine="FAKE_1_2_0_ENGINE")
    data = sdpa.graph.serialize()
    with pytest.warns(
        UserWarning, match=rf"{setter} on tensor 'scale' .* after its graph was built"
    ):
        getattr(scale, setter)(*args)
    assert (sdpa.run(plan) == 0.25).all()
    assert sdpa.graph.serialize() == data
    assert (sdpa.run(sdpa.graph.build(engine="FAKE_1_2_0_ENGINE")) == 0.25).all()


def test_setters_before_the_build_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sdpa = small(scale=with_default(0.25))
        sdpa.graph.validate()
        sdpa.tensors["scale"].set_value(0.5)
        sdpa.graph.explain()
        sdpa.tensors["scale"].set_value(0.75)
    load("fake_1_0_0")
    assert (sdpa.run(sdpa.graph.build(engine="FAKE_1_0_0_ENGINE")) == 0.75).all()


def test_tensors_of_a_deserialized_graph_are_built():
    graph = rd.Graph.deserialize(small(scale=constant()).graph.serialize())
    with pytest.warns(UserWarning, match="set_value on tensor 'scale'"):
        next(t for t in graph.tensors if t.get_name() == "scale").set_value(9.0)
