"""Every operation that takes a scalar computes with the value of the pack, or declines.

The pass-by-value document's "constant-operation runtime-value regression": where a constant worked
before, a runtime scalar with an obvious sentinel must show in the result, in every state.
"""

from __future__ import annotations

import numpy as np
import pytest
import raggeddnn as rd
from raggeddnn.testing.checks import assert_same_bits, is_reference
from raggeddnn.testing.op_graphs import OpGraph, graph_type

SENTINEL, USUAL = 4096.0, 0.0078125
_RNG = np.random.default_rng(1)
X = _RNG.standard_normal((3, 4))
ROW = _RNG.standard_normal((1, 4))
HEAD = _RNG.standard_normal((1, 2, 3, 4))
ZERO = np.zeros((1, 4))


def _pointwise(mode, *operands):
    return lambda g, t: {"out": g.pointwise(mode, *(t[name] for name in operands))}


def _sdpa(g, t):
    o, _ = g.sdpa(t["x"], t["x"], t["x"], attn_scale=t["scalar"])
    return {"o": o}


def _sdpa_backward(g, t):
    x = t["x"]
    results = g.sdpa_backward(x, x, x, x, x, t["stats"], attn_scale=t["scalar"])
    return dict(zip(("dq", "dk", "dv"), results, strict=False))


def _batchnorm(epsilon, momentum):
    def make(g, t):
        constant = g.tensor(USUAL, rd.ScalarType.COMPILE_TIME_CONST)
        scalar = {"scalar": t["scalar"], "constant": constant}
        r = t["row"]
        names = ("y", "mean", "inverse", "next_mean", "next_var")
        results = g.batchnorm(t["x"], r, r, r, r, scalar[epsilon], scalar[momentum])
        return dict(zip(names, results, strict=True))

    return make


_NORM = {"x": X, "row": ROW}
_SDPA = {"x": HEAD}
OPERATIONS = {
    "pointwise a": (_pointwise(rd.PointwiseMode.SUB, "scalar", "x"), {"x": X}),
    "pointwise b": (_pointwise(rd.PointwiseMode.ADD, "x", "scalar"), {"x": X}),
    "pointwise c": (
        _pointwise(rd.PointwiseMode.BINARY_SELECT, "x", "row", "scalar"),
        _NORM,
    ),
    "sdpa attn_scale": (_sdpa, _SDPA),
    "sdpa_backward attn_scale": (_sdpa_backward, {**_SDPA, "stats": HEAD[..., :1]}),
    "rmsnorm epsilon": (
        lambda g, t: {"y": g.rmsnorm(t["x"], t["row"], t["scalar"])[0]},
        _NORM,
    ),
    "layernorm epsilon": (
        lambda g, t: {"y": g.layernorm(t["x"], t["row"], t["row"], t["scalar"])[0]},
        _NORM,
    ),
    "layernorm_backward epsilon": (
        lambda g, t: {
            "dx": g.layernorm_backward(t["dy"], t["x"], t["row"], epsilon=t["scalar"])[0]
        },
        {"dy": X[::-1].copy(), **_NORM},
    ),
    "batchnorm epsilon": (_batchnorm("scalar", "constant"), _NORM),
    "batchnorm momentum": (_batchnorm("constant", "scalar"), _NORM),
    "batchnorm_inference_variance_ext epsilon": (
        lambda g, t: {
            "y": g.batchnorm_inference_variance_ext(
                t["x"], t["row"], t["square"], t["row"], t["row"], t["scalar"]
            )
        },
        {**_NORM, "square": ROW**2},
    ),
}


def _scalar(state, value):
    def add(g):
        if state == "runtime":
            t = rd.TensorAttributes().set_name("scalar").set_data_type(rd.DataType.DOUBLE)
            return g.tensor(t.set_as_runtime_parameter())
        kind = "COMPILE_TIME_CONST" if state == "constant" else "RUNTIME_PARAM"
        return g.tensor(np.float64(value), rd.ScalarType[kind])

    return add


def _run(name, engine, state, value, pack_value=None):
    """Every output, or None where the engine declines the graph (the reference engine may not)."""
    make, inputs = OPERATIONS[name]

    def complete(g, t):
        outputs = make(g, t)
        for result in g.tensors:  # outputs that this test does not look at
            if result.get_is_virtual() and result not in outputs.values():
                outputs.setdefault(result.get_name(), result)
        return outputs

    op = OpGraph(complete, inputs, scalars={"scalar": _scalar(state, value)})
    try:
        plan = op.graph.build(engine=engine)
    except rd.NotSupportedError:
        if is_reference(engine):
            raise
        return None
    return op.run(plan, values={} if pack_value is None else {"scalar": pack_value})


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_runtime_sentinel_shows_in_the_result_or_the_graph_is_declined(engine, name):
    usual = 0.0 if name == "pointwise c" else USUAL
    baked = _run(name, engine, "constant", SENTINEL)
    before = _run(name, engine, "constant", usual)
    results = _run(name, engine, "runtime", None, SENTINEL)
    if results is None:
        return
    assert any(not np.array_equal(results[k], before[k]) for k in results)
    for key, values in results.items():
        assert_same_bits(values, baked[key], key)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_default_holds_whatever_the_pack_says(engine, name):
    baked = _run(name, engine, "constant", SENTINEL)
    for pack_value in (None, 3.0):
        results = _run(name, engine, "default", SENTINEL, pack_value)
        if results is None:
            continue
        for key, values in results.items():
            assert_same_bits(values, baked[key], key)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_missing_runtime_scalar_is_named(build, name):
    make, inputs = OPERATIONS[name]
    op = OpGraph(make, inputs, scalars={"scalar": _scalar("runtime", None)})
    plan = build(op)
    with pytest.raises(rd.InvalidValueError, match="scalar"):
        op.run(plan)


def test_the_host_number_and_the_constant_agree_for_every_type(engine, build):
    """The value in the pack is converted to the type that the tensor declares."""
    for dtype in (rd.DataType.DOUBLE, rd.DataType.FLOAT, rd.DataType.HALF, rd.DataType.BFLOAT16):
        make, inputs = OPERATIONS["batchnorm epsilon"]

        def runtime(g, dtype=dtype):
            t = rd.TensorAttributes().set_data_type(dtype)
            return g.tensor(t.set_as_runtime_parameter())

        op = OpGraph(make, inputs, scalars={"scalar": runtime})
        got = op.run(build(op), values={"scalar": USUAL})
        want = _run("batchnorm epsilon", engine, "constant", USUAL)
        for key, values in want.items():
            assert_same_bits(got[key], values, f"{key} {dtype.name}")


def test_a_scalar_where_a_tensor_is_due_is_refused():
    g = rd.Graph(io_data_type=graph_type(X))
    x = g.tensor(name="x", dim=[3, 4])
    scalar = _scalar("runtime", None)(g)
    g.matmul(x, scalar)
    with pytest.raises(rd.InvalidValueError, match="b 'scalar' is a pass-by-value scalar"):
        g.validate()
