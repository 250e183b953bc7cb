"""RMS and layer normalization, forward and backward, dense and ragged, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import raggeddnn as rd
from raggeddnn.testing.checks import assert_same_bits
from raggeddnn.testing.norms import (
    TRAINING,
    backward_graph,
    backward_oracle,
    constant_epsilon,
    forward_graph,
    forward_oracle,
    inputs_of,
    statistics,
)
from raggeddnn.testing.op_graphs import (
    REAL_TYPES,
    SLACK,
    OpGraph,
    Ragged,
    assert_close,
    difference_quotients,
    random_array,
)

# Dims of x, and those of scale.
SHAPES = [((6, 8), (1, 8)), ((2, 3, 4, 5), (1, 1, 1, 5)), ((2, 3, 4), (1, 3, 4)), ((5, 4), (4,))]


both = pytest.mark.parametrize("layer", [False, True], ids=["rms", "layer"])


@both
@pytest.mark.parametrize("dtype", REAL_TYPES)
@pytest.mark.parametrize(("x_shape", "scale_shape"), SHAPES, ids=str)
def test_forward(build, layer, dtype, x_shape, scale_shape):
    inputs = inputs_of(x_shape, scale_shape, dtype)
    op = forward_graph(inputs, layer=layer)
    got = op.run(build(op))
    assert_close(got, lambda **a: forward_oracle(**a, layer=layer), inputs)


@both
@pytest.mark.parametrize("dtype", REAL_TYPES)
def test_inference_gives_the_same_bits_and_no_statistics(build, layer, dtype):
    inputs = inputs_of((3, 8), (1, 8), dtype)
    results = []
    for phase in (TRAINING, rd.NormFwdPhase.INFERENCE):
        op = forward_graph(inputs, layer=layer, phase=phase)
        results.append(op.run(build(op)))
    assert set(results[1]) == {"y"}
    assert_same_bits(results[0]["y"], results[1]["y"], "y")


@both
@pytest.mark.parametrize("dtype", REAL_TYPES)
@pytest.mark.parametrize(("x_shape", "scale_shape"), SHAPES, ids=str)
def test_backward(build, layer, dtype, x_shape, scale_shape):
    inputs = inputs_of(x_shape, scale_shape, dtype)
    dy = random_array(np.random.default_rng(2), x_shape, dtype)
    wide = {name: a.astype(np.float64) for name, a in inputs.items()}
    stored = "float64" if dtype == "float64" else "float32"
    saved = forward_oracle(**wide, layer=layer)
    saved = {k: saved[k].astype(stored) for k in ("mean", "inverse") if k in saved}
    given = {"dy": dy, "x": inputs["x"], "scale": inputs["scale"]}
    op = backward_graph({**given, **saved}, layer=layer)
    got = op.run(build(op))
    assert_close(got, lambda **a: backward_oracle(**a, layer=layer), given, gradient=True)


@both
def test_backward_by_finite_differences(build, layer):
    inputs = inputs_of((3, 5), (1, 5), "float64")
    dy = np.random.default_rng(3).standard_normal((3, 5))
    forward = forward_graph(inputs, layer=layer)
    plan = build(forward)
    saved = forward.run(plan)
    saved.pop("y")
    given = {"dy": dy, "x": inputs["x"], "scale": inputs["scale"]}
    backward = backward_graph({**given, **saved}, layer=layer)
    got = backward.run(build(backward))
    for name in inputs:
        want, bound = difference_quotients(
            lambda v, name=name: float(np.sum(dy * forward.run(plan, {name: v})["y"])),
            inputs[name],
        )
        assert (np.abs(got["d" + name] - want) <= bound).all(), name


def test_layernorm_backward_makes_the_statistics_again(build):
    inputs = inputs_of((4, 6), (1, 6), "float64")
    given = {
        "dy": np.random.default_rng(4).standard_normal((4, 6)),
        "x": inputs["x"],
        "scale": inputs["scale"],
    }
    op = backward_graph(given, layer=True)
    got = op.run(build(op))
    assert_close(got, lambda **a: backward_oracle(**a, layer=True), given, gradient=True)


LENS = [(3, 0, 5), (0, 0), (1,), (7, 2, 2, 4)]


# Layer normalization takes trailing dims only, and the rows stand before the width.
@pytest.mark.parametrize(
    ("layer", "heads"), [(False, False), (False, True), (True, False)], ids=str
)
@pytest.mark.parametrize("lens", LENS, ids=str)
def test_ragged_forward(build, layer, lens, heads):
    inputs = inputs_of((sum(lens), 2, 4), (1, 2 if heads else 1, 1, 4), "float32")
    x = Ragged(inputs["x"], lens)
    op = forward_graph({**inputs, "x": x}, layer=layer)
    got = op.run(build(op))
    total = sum(lens)
    assert (got["y"][total:] == 77).all() and len(got["y"]) == total + SLACK
    rows = {**inputs, "scale": inputs["scale"][:, :, 0], "bias": inputs["bias"][:, :, 0]}
    assert_close({"y": got["y"][:total]}, lambda **a: forward_oracle(**a, layer=layer), rows)
    # Dense statistics hold the rows of each sequence; the others are left alone.
    want = forward_oracle(**{k: a.astype(np.float64) for k, a in rows.items()}, layer=layer)
    starts = np.cumsum([0, *lens])
    for name in set(got) - {"y"}:
        for b, n in enumerate(lens):
            rows_of_b = np.swapaxes(want[name][starts[b] : starts[b] + n], 0, 1)
            np.testing.assert_array_equal(
                got[name][b, :, :n] == 77, np.zeros_like(got[name][b, :, :n], bool)
            )
            assert got[name][b, :, :n].shape == rows_of_b.shape
            assert (got[name][b, :, n:] == 77).all()


@both
@pytest.mark.parametrize("lens", LENS, ids=str)
def test_ragged_backward(build, layer, lens):
    if layer:
        inputs = inputs_of((sum(lens), 2, 4), (1, 1, 1, 4), "float32")
    else:
        inputs = inputs_of((sum(lens), 2, 4), (1, 1, 1, 4), "float64")
    x = inputs["x"]
    dy = random_array(np.random.default_rng(5), x.shape, x.dtype.name)
    given = {"dy": Ragged(dy, lens), "x": Ragged(x, lens), "scale": inputs["scale"]}
    if not layer:
        rows = statistics(x, inputs["scale"][0, :, 0], layer=False)[2]
        dense = np.full((len(lens), 2, max(*lens, 1), 1), np.nan)
        for b, (start, n) in enumerate(zip(np.cumsum([0, *lens]), lens, strict=False)):
            dense[b, :, :n] = np.swapaxes(rows[start : start + n], 0, 1)
        given["inverse"] = dense
    op = backward_graph(given, layer=layer)
    got = op.run(build(op))
    total = sum(lens)
    assert (got["dx"][total:] == 77).all()
    got = {
        "dx": got["dx"][:total],
        "dscale": got["dscale"].reshape(1, 4),
        "dbias": got["dbias"].reshape(1, 4),
    }
    rows = {"dy": dy, "x": x, "scale": inputs["scale"].reshape(1, 4)}

    def oracle(dy, x, scale):
        result = backward_oracle(dy, x, scale[0], layer=layer)
        return {name: a.reshape(got[name].shape) for name, a in result.items()}

    assert_close(got, oracle, rows, gradient=True)


@both
def test_a_sequence_has_the_same_bits_alone_and_in_company(build, layer):
    inputs = inputs_of((8, 2, 4), (1, 1, 1, 4), "float32")
    together = forward_graph({**inputs, "x": Ragged(inputs["x"], (3, 5))}, layer=layer)
    y = together.run(build(together))["y"]
    alone = forward_graph({**inputs, "x": Ragged(inputs["x"][3:], (5,))}, layer=layer)
    assert_same_bits(alone.run(build(alone))["y"][:5], y[3:8], "y")


F = np.float32


def bad_graph(x, scale, **options):
    inputs = {"x": x, "scale": scale, "bias": np.zeros_like(scale)}
    return forward_graph(inputs, **options)


@both
def test_what_does_not_fit_is_named(layer):
    name = "layernorm" if layer else "rmsnorm"
    with pytest.raises(rd.InvalidValueError, match=rf"\[{name}\] scale 'scale' has dims \[1, 7\]"):
        bad_graph(np.zeros((3, 8), F), np.zeros((1, 7), F), layer=layer).graph.validate()
    ragged = Ragged(np.zeros((3, 2, 4), F), (1, 2))
    with pytest.raises(rd.InvalidValueError, match="expected 1 over axis 2: x 'x' is ragged"):
        bad_graph(ragged, np.zeros((1, 2, 2, 4), F), layer=layer).graph.validate()
    with pytest.raises(rd.InvalidValueError, match="x 'x' has data type INT32"):
        bad_graph(np.zeros((3, 8), np.int32), np.zeros((1, 8), F), layer=layer).graph.validate()

    def in_memory(g):
        return g.tensor(name="eps", dim=[1], data_type=rd.DataType.FLOAT)

    op = bad_graph(np.zeros((3, 8), F), np.zeros((1, 8), F), layer=layer, epsilon=in_memory)
    with pytest.raises(rd.InvalidValueError, match="epsilon 'eps' is a tensor in device memory"):
        op.graph.validate()


def test_layernorm_counts_its_dims():
    inputs = {n: np.zeros(s, F) for n, s in (("x", (2, 3, 4)), ("s", (1, 1, 4)), ("b", (1, 1, 4)))}

    def graph_with(count):
        def make(g, t):
            y, _, _ = g.layernorm(t["x"], t["s"], t["b"], t["epsilon"], normalized_dim_count=count)
            return {"y": y}

        return OpGraph(make, inputs, scalars={"epsilon": constant_epsilon}).graph

    graph_with(1).validate()
    with pytest.raises(rd.InvalidValueError, match=r"scale 's' has dims \[1, 1, 4\], expected"):
        graph_with(2).validate()
    with pytest.raises(rd.InvalidValueError, match="normalized_dim_count is 4, expected 1 to 3"):
        graph_with(4).validate()


def test_layernorm_backward_takes_epsilon_or_statistics():
    def graph_with(**options):
        g = rd.Graph(io_data_type=rd.DataType.FLOAT)
        x = g.tensor(name="x", dim=[2, 4])
        scale = g.tensor(name="scale", dim=[1, 4])
        made = {k: g.tensor(name=k, dim=[2, 1]) for k in ("mean", "inv_variance") if k in options}
        if "epsilon" in options:
            made["epsilon"] = constant_epsilon(g)
        for result in g.layernorm_backward(x, x, scale, **made):
            result.set_output(True)
        return g

    graph_with(epsilon=1).validate()
    graph_with(mean=1, inv_variance=1).validate()
    with pytest.raises(rd.Error, match="epsilon is not set"):
        graph_with().validate()
    with pytest.raises(rd.Error, match="inv_variance is not set, expected both"):
        graph_with(mean=1).validate()
    with pytest.raises(rd.Error, match="is set and so are mean and inv_variance"):
        graph_with(mean=1, inv_variance=1, epsilon=1).validate()
