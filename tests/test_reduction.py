"""Reductions against NumPy: every mode, any set of axes."""

from __future__ import annotations

import numpy as np
import pytest
import raggeddnn as rd
from op_graphs import REAL_TYPES, OpGraph, Ragged, assert_close, random_array
from raggeddnn.testing.checks import assert_same_bits

Mode = rd.ReductionMode
ORACLES = {
    Mode.ADD: np.sum,
    Mode.MUL: np.prod,
    Mode.MIN_OP: np.min,
    Mode.MAX_OP: np.max,
    Mode.AMAX: lambda x, **k: np.max(np.abs(x), **k),
    Mode.AVG: np.mean,
    Mode.NORM1: lambda x, **k: np.sum(np.abs(x), **k),
    Mode.NORM2: lambda x, **k: np.sqrt(np.sum(x * x, **k)),
    Mode.MUL_NO_ZEROS: lambda x, **k: np.prod(np.where(x == 0, 1, x), **k),
}


def reduction_graph(mode, x, axes=None, out=None):
    def make(g, t):
        y = g.reduction(mode, t["x"], is_deterministic=True)
        if axes is not None:
            y.set_dim([1 if i in axes else n for i, n in enumerate(x.shape)])
        return {"y": y}

    return OpGraph(make, {"x": x}, {"y": out} if out else {})


def test_every_mode_is_tested():
    assert {*ORACLES, Mode.NOT_SET} == set(Mode)


@pytest.mark.parametrize("dtype", REAL_TYPES)
@pytest.mark.parametrize("axes", [None, (0,), (1, 3), (2,), ()], ids=str)
@pytest.mark.parametrize("mode", ORACLES, ids=lambda m: m.name)
def test_modes_and_axes(engine, mode, axes, dtype):
    x = random_array(np.random.default_rng(1), (2, 3, 4, 5), dtype)
    x[0, 0, 0, 0] = 0
    op = reduction_graph(mode, x, axes)
    over = tuple(range(4)) if axes is None else axes
    got = op.run(op.build(engine))
    assert got["y"].shape == tuple(1 if i in over else n for i, n in enumerate(x.shape))

    def oracle(x):
        return {"y": ORACLES[mode](x, axis=over, keepdims=True)}

    assert_close(got, oracle, {"x": x})


@pytest.mark.parametrize("mode", [Mode.ADD, Mode.MUL, Mode.MIN_OP, Mode.MAX_OP, Mode.NORM1])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_integers_are_exact(engine, mode, dtype):
    x = np.random.default_rng(2).integers(-3, 4, (3, 9)).astype(dtype)
    op = reduction_graph(mode, x, (1,), out="int64")
    want = ORACLES[mode](x.astype(np.int64), axis=1, keepdims=True)
    np.testing.assert_array_equal(op.run(op.build(engine))["y"], want)


def test_the_order_is_the_same_whatever_the_strides(engine):
    x = random_array(np.random.default_rng(3), (6, 7, 5), "float32")
    results = []
    for array in (x, np.asfortranarray(x)):
        op = reduction_graph(Mode.ADD, array, (0, 2))
        results.append(op.run(op.build(engine))["y"])
    assert_same_bits(results[0], results[1], "y")


@pytest.mark.parametrize(
    ("mode", "want"),
    [(Mode.ADD, 0), (Mode.MUL, 1), (Mode.MIN_OP, np.inf), (Mode.MAX_OP, -np.inf), (Mode.AMAX, 0)],
)
def test_nothing_gives_the_neutral_element(engine, mode, want):
    op = reduction_graph(mode, np.zeros((3, 0), np.float32), (1,))
    assert (op.run(op.build(engine))["y"] == want).all()


def test_what_does_not_fit_is_named():
    x = np.zeros((2, 3), np.float32)
    op = reduction_graph(Mode.ADD, x)
    op.outputs["y"].set_dim([2, 2])
    with pytest.raises(rd.InvalidValueError, match=r"\[reduction\] out .* has dims \[2, 2\]"):
        op.graph.validate()
    with pytest.raises(rd.InvalidValueError, match="mode is 0, expected 1 to 9"):
        reduction_graph(Mode.NOT_SET, x).graph.validate()
    ragged = Ragged(np.zeros((3, 2, 4), np.float32), (1, 2))
    with pytest.raises(rd.InvalidValueError, match="x 'x' is ragged"):
        reduction_graph(Mode.ADD, ragged).graph.validate()
