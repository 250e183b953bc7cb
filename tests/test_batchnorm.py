"""Batch normalization: training, inference and backward against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import raggeddnn as rd
from op_refusals import BAD_OFFSETS, assert_refused
from raggeddnn.testing.batchnorm import (
    EPSILON,
    MOMENTUM,
    backward_graph,
    backward_oracle,
    constant,
    inference_graph,
    inference_oracle,
    inputs_of,
    training_graph,
    training_oracle,
)
from raggeddnn.testing.checks import is_reference
from raggeddnn.testing.op_graphs import (
    REAL_TYPES,
    SLACK,
    Ragged,
    assert_close,
    difference_quotients,
    random_array,
)

SHAPES = [(4, 3), (2, 3, 5), (2, 3, 4, 5), (1, 2, 1, 1), (2, 2, 2, 3, 2)]
RUNNING = ("running_mean", "running_var")


@pytest.mark.parametrize("dtype", REAL_TYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("running", [False, True])
def test_training(build, dtype, shape, running):
    inputs = inputs_of(shape, dtype, running)
    op = training_graph(inputs)
    got = op.run(build(op))
    assert_close(got, training_oracle, inputs)


def test_channels_last(build):
    inputs = inputs_of((2, 3, 4, 5), "float32")
    inputs["x"] = np.ascontiguousarray(inputs["x"].transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    op = training_graph(inputs)
    plan = build(op)
    assert op.outputs["y"].get_stride() == op.tensors["x"].get_stride()
    pack = {op.tensors[n]: a for n, a in inputs.items()}
    y = np.empty_like(inputs["x"])
    pack[op.outputs["y"]] = y
    for name in ("mean", "inverse", "next_mean", "next_var"):
        pack[op.outputs[name]] = np.empty((1, 3, 1, 1), np.float32)
    plan.execute(pack)
    assert_close({"y": y}, training_oracle, inputs)


@pytest.mark.parametrize("dtype", REAL_TYPES)
@pytest.mark.parametrize("form", ["inverse", "variance"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_inference(build, dtype, form, shape):
    inputs = inputs_of(shape, dtype)
    op = inference_graph(inputs, form)
    assert_close(op.run(build(op)), inference_oracle(form), inputs)


@pytest.mark.parametrize("dtype", REAL_TYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_backward(build, dtype, shape):
    inputs = inputs_of(shape, dtype, running=False)
    given = {
        "dy": random_array(np.random.default_rng(2), shape, dtype),
        "x": inputs["x"],
        "scale": inputs["scale"],
    }
    wide = {k: a.astype(np.float64) for k, a in inputs.items()}
    trained = training_oracle(**wide)
    stored = "float64" if dtype == "float64" else "float32"
    saved = {k: trained[k].astype(stored) for k in ("mean", "inverse")}
    op = backward_graph({**given, **saved})
    assert_close(op.run(build(op)), backward_oracle, given, gradient=True)


def test_backward_by_finite_differences(build):
    inputs = inputs_of((3, 2, 2), "float64", running=False)
    dy = np.random.default_rng(3).standard_normal((3, 2, 2))
    forward = training_graph(inputs)
    plan = build(forward)
    saved = forward.run(plan)
    saved.pop("y")
    given = {"dy": dy, "x": inputs["x"], "scale": inputs["scale"], **saved}
    backward = backward_graph(given)
    got = backward.run(build(backward))
    for name in inputs:
        want, bound = difference_quotients(
            lambda v, name=name: float(np.sum(dy * forward.run(plan, {name: v})["y"])),
            inputs[name],
        )
        assert (np.abs(got["d" + name] - want) <= bound).all(), name


# Ragged tensors: one plan, several layouts of three sequences of at most CAPACITY rows. To the
# oracle the rows of all of them are one dense tensor (T, H, D), channels H.
CAPACITY, HEADS, WIDTH = 7, 2, 4
LAYOUTS = [(3, 0, 5), (0, 0, 7), (1, 6, 2), (0, 1, 0)]
OFFSETS = [{}, {"unit": 1, "index": "int32"}]
offset_kinds = pytest.mark.parametrize("offsets", OFFSETS, ids=["elements", "rows"])


def ragged_inputs(lens, dtype, *, seed=1, running=True, **offsets):
    """Of training and inference; per-channel tensors do not depend on the layout."""
    x = Ragged.random(
        np.random.default_rng(seed), lens, (HEADS, WIDTH), dtype, max_rows=CAPACITY, **offsets
    )
    return {**inputs_of((1, HEADS, 1, 1), dtype, running), "x": x}


def as_rows(inputs):
    """What the oracle takes."""
    return {
        name: a.rows[: sum(a.lens)] if isinstance(a, Ragged) else a.reshape(1, HEADS, 1)
        for name, a in inputs.items()
    }


def results_as_rows(got, ragged, lens):
    """The same of results, whose rows past the last must be untouched."""
    total = sum(lens)
    for name in ragged:
        assert got[name].shape == (total + SLACK, HEADS, WIDTH)
        assert (got[name][total:] == got[name].dtype.type(77)).all()
    return {n: a[:total] if n in ragged else a.reshape(1, HEADS, 1) for n, a in got.items()}


@pytest.mark.parametrize("dtype", REAL_TYPES)
@pytest.mark.parametrize("running", [False, True])
@offset_kinds
def test_ragged_training(build, dtype, running, offsets):
    op = training_graph(ragged_inputs(LAYOUTS[0], dtype, running=running, **offsets))
    plan = build(op)
    for seed, lens in enumerate(LAYOUTS):
        inputs = ragged_inputs(lens, dtype, seed=seed, running=running, **offsets)
        got = results_as_rows(op.run(plan, {"x": inputs["x"]}), ["y"], lens)
        assert_close(got, training_oracle, as_rows(inputs))


@pytest.mark.parametrize("dtype", REAL_TYPES)
@pytest.mark.parametrize("form", ["inverse", "variance"])
@offset_kinds
def test_ragged_inference(build, dtype, form, offsets):
    op = inference_graph(ragged_inputs(LAYOUTS[0], dtype, **offsets), form)
    plan = build(op)
    for seed, lens in enumerate([*LAYOUTS, (0, 0, 0)]):
        inputs = ragged_inputs(lens, dtype, seed=seed, **offsets)
        got = results_as_rows(op.run(plan, {"x": inputs["x"]}), ["y"], lens)
        assert_close(got, inference_oracle(form), as_rows(inputs))


def ragged_gradient_inputs(lens, dtype, seed, **offsets):
    inputs = ragged_inputs(lens, dtype, seed=seed, running=False, **offsets)
    rows = {name: a.astype(np.float64) for name, a in as_rows(inputs).items()}
    trained = training_oracle(**rows)
    stored = "float64" if dtype == "float64" else "float32"
    saved = {k: trained[k].astype(stored).reshape(1, HEADS, 1, 1) for k in ("mean", "inverse")}
    dy = ragged_inputs(lens, dtype, seed=seed + 100, **offsets)["x"]
    return {"dy": dy, "x": inputs["x"], "scale": inputs["scale"]}, saved


@pytest.mark.parametrize("dtype", REAL_TYPES)
@offset_kinds
def test_ragged_backward(build, dtype, offsets):
    given, saved = ragged_gradient_inputs(LAYOUTS[0], dtype, 0, **offsets)
    op = backward_graph({**given, **saved})
    plan = build(op)
    for seed, lens in enumerate(LAYOUTS):
        given, saved = ragged_gradient_inputs(lens, dtype, seed, **offsets)
        got = results_as_rows(op.run(plan, {**given, **saved}), ["dx"], lens)
        assert_close(got, backward_oracle, as_rows(given), gradient=True)


def test_ragged_backward_by_finite_differences(build):
    lens = (2, 0, 3)
    inputs = ragged_inputs(lens, "float64", running=False)
    dy = ragged_inputs(lens, "float64", seed=2)["x"]
    forward = training_graph(inputs)
    plan = build(forward)
    saved = forward.run(plan)
    saved.pop("y")
    backward = backward_graph({"dy": dy, "x": inputs["x"], "scale": inputs["scale"], **saved})
    got = backward.run(build(backward))
    for name, value in inputs.items():
        is_ragged = isinstance(value, Ragged)

        def loss(moved, name=name, is_ragged=is_ragged):
            given = Ragged(moved, lens, max_rows=CAPACITY) if is_ragged else moved
            return float(np.sum(dy.rows[:5] * forward.run(plan, {name: given})["y"][:5]))

        at = value.rows[:5] if is_ragged else value
        want, bound = difference_quotients(loss, at)
        gradient = got["d" + name][:5] if is_ragged else got["d" + name]
        assert (np.abs(gradient - want) <= bound).all(), name


def test_a_batch_of_nothing_leaves_running_statistics_alone(build):
    inputs = ragged_inputs((0, 0, 0), "float32")
    op = training_graph(inputs)
    got = op.run(build(op))
    assert (got["y"] == 77).all()
    assert np.isnan(got["mean"]).all() and np.isnan(got["inverse"]).all()
    np.testing.assert_array_equal(got["next_mean"], inputs["running_mean"])
    np.testing.assert_array_equal(got["next_var"], inputs["running_var"])
    dense = training_graph(inputs_of((0, HEADS, 3), "float32"))
    got = dense.run(build(dense))
    np.testing.assert_array_equal(got["next_mean"], dense.inputs["running_mean"])


def test_a_batch_of_nothing_has_no_gradients(build):
    saved = {name: np.full((1, HEADS, 1, 1), np.nan, np.float32) for name in ("mean", "inverse")}
    inputs = ragged_inputs((0, 0, 0), "float32")
    given = {"dy": inputs["x"], "x": inputs["x"], "scale": inputs["scale"], **saved}
    op = backward_graph(given)
    got = op.run(build(op))
    assert (got["dx"] == 77).all() and (got["dscale"] == 0).all() and (got["dbias"] == 0).all()


def graphs_of(x):
    """Every node that takes a ragged x."""
    channels = inputs_of((1, HEADS, 1, 1), "float32")
    gradients = {"dy": x, "x": x, "scale": channels["scale"]}
    gradients |= {"mean": channels["running_mean"], "inverse": channels["running_var"]}
    return {
        "batchnorm": training_graph({**channels, "x": x}),
        "batchnorm_inference": inference_graph({**channels, "x": x}, "inverse"),
        "batchnorm_backward": backward_graph(gradients),
    }


@pytest.mark.parametrize("name", ["batchnorm", "batchnorm_inference", "batchnorm_backward"])
@pytest.mark.parametrize(("offsets", "index"), BAD_OFFSETS)
def test_bad_offsets_are_named_before_any_write(build, name, offsets, index):
    op = graphs_of(Ragged(np.ones((4, HEADS, WIDTH), np.float32), (1, 1)))[name]
    message = rf"\[{name}\] ragged offset of \w+ 'off': index {index} "
    assert_refused(op, build(op), message, {"off": np.array(offsets)})


@pytest.mark.parametrize("name", ["batchnorm", "batchnorm_inference", "batchnorm_backward"])
def test_rows_that_disagree_are_named_before_any_write(build, name):
    op = graphs_of(Ragged(np.ones((4, HEADS, WIDTH), np.float32), (1, 1)))[name]
    own = op.graph.tensor(name="own", dim=[3, 1, 1, 1], data_type=rd.DataType.INT32)
    out = "dx" if name == "batchnorm_backward" else "y"
    op.outputs[out].set_ragged_offset(own).set_ragged_offset_multiplier(HEADS * WIDTH)
    op.tables["own"] = own
    plan = build(op)
    message = (
        rf"\[{name}\] ragged offset of {out} 'own': index 2 ends a block of 0 rows, expected 1"
    )
    assert_refused(op, plan, message, {"own": np.array([0, 1, 1], np.int32)})


def test_all_are_ragged_or_none():
    x = Ragged(np.zeros((4, HEADS, WIDTH), np.float32), (1, 1), max_rows=2)
    dense = np.zeros((2, HEADS, 2, WIDTH), np.float32)
    for name, op in graphs_of(x).items():
        out = "dx" if name == "batchnorm_backward" else "y"
        op.outputs[out].set_dim(list(dense.shape)).set_stride([16, 8, 4, 1])
        message = rf"\[{name}\] {out} '.*' is dense, expected a ragged tensor as x 'x', whose rows"
        with pytest.raises(rd.InvalidValueError, match=message):
            op.graph.validate()
    given = dict(graphs_of(x)["batchnorm_backward"].inputs)
    with pytest.raises(rd.InvalidValueError, match="dy 'dy' is dense, expected a ragged tensor"):
        backward_graph({**given, "dy": dense}).graph.validate()
    with pytest.raises(rd.InvalidValueError, match="dy 'dy' is ragged, expected a dense tensor"):
        backward_graph({**given, "x": dense}).graph.validate()
    given = dict(graphs_of(x)["batchnorm"].inputs)
    scale = Ragged(np.zeros((2, HEADS, 1), np.float32), (1, 1), table="other")
    with pytest.raises(rd.InvalidValueError, match="scale 'scale' is ragged, expected a dense"):
        training_graph({**given, "scale": scale}).graph.validate()


def test_a_constant_epsilon_and_a_runtime_momentum_do_not_mix(build):
    inputs = inputs_of((4, 3, 2), "float64")

    def runtime(g):
        t = rd.TensorAttributes().set_name("momentum").set_data_type(rd.DataType.FLOAT)
        return g.tensor(t.set_as_runtime_parameter())

    op = training_graph(inputs, momentum=runtime)
    plan = build(op)
    assert_close(op.run(plan, values={"momentum": MOMENTUM}), training_oracle, inputs)
    trained = training_oracle(**inputs)
    for momentum in (0.0, 1.0, 4096.0):
        got = op.run(plan, values={"momentum": momentum})
        # Exact: 0 keeps the running statistics, 1 replaces them, and y never looks.
        assert_close({"y": got["y"]}, training_oracle, inputs)
        if momentum == 0.0:
            np.testing.assert_array_equal(got["next_mean"], inputs["running_mean"])
        if momentum == 1.0:
            np.testing.assert_array_equal(got["next_mean"], got["mean"])
        if momentum == 4096.0:
            assert (np.abs(got["next_mean"]) > np.abs(trained["next_mean"])).all()
    with pytest.raises(rd.InvalidValueError, match="momentum"):
        op.run(plan)


def test_what_does_not_fit_is_named():
    inputs = inputs_of((4, 3, 2), "float32")
    wrong = {**inputs, "scale": np.zeros((1, 2, 1), np.float32)}
    message = r"\[batchnorm\] scale 'scale' has dims \[1, 2, 1\], expected \[1, 3, 1\]"
    with pytest.raises(rd.InvalidValueError, match=message):
        training_graph(wrong).graph.validate()
    with pytest.raises(rd.InvalidValueError, match="x 'x' has rank 1, expected at least 2"):
        training_graph(inputs_of((4,), "float32")).graph.validate()


@pytest.mark.parametrize("left_out", ["running_mean", "running_var", "momentum"])
def test_running_statistics_come_together(left_out):
    g = rd.Graph(io_data_type=rd.DataType.FLOAT)
    x = g.tensor(name="x", dim=[2, 3])
    names = ("scale", "bias", *RUNNING)
    t = {name: g.tensor(name=name, dim=[1, 3]) for name in names}
    t["momentum"] = constant(MOMENTUM)(g)
    t[left_out] = None
    g.batchnorm(
        x,
        t["scale"],
        t["bias"],
        t["running_mean"],
        t["running_var"],
        constant(EPSILON)(g),
        t["momentum"],
    )
    with pytest.raises(rd.Error, match="is not set, expected it"):
        g.validate()


def test_peer_statistics_are_refused(engine):
    g = rd.Graph(io_data_type=rd.DataType.FLOAT)
    x = g.tensor(name="x", dim=[2, 3])
    c = g.tensor(name="c", dim=[1, 3])
    results = g.batchnorm(x, c, c, epsilon=constant(EPSILON)(g), peer_stats=[c, c])
    for result in results[:3]:
        result.set_output(True)
    g.validate()
    reason = "peer_stats is set, expected unset" if is_reference(engine) else "BatchnormAttributes"
    with pytest.raises(rd.NotSupportedError, match=reason):
        g.build(engine=engine)
