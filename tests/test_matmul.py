"""Matrix products against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import raggeddnn as rd
from op_graphs import REAL_TYPES, OpGraph, Ragged, assert_close, difference_quotients, random_array

SHAPES = [
    ((3, 5), (5, 4)),
    ((1, 1), (1, 1)),
    ((2, 3, 5), (2, 5, 4)),
    ((2, 1, 3, 5), (3, 5, 4)),
    ((2, 3, 4, 0), (2, 3, 0, 2)),
    ((2, 0, 5), (2, 5, 3)),
    ((4, 7, 17), (1, 17, 6)),
]


def matmul_graph(a, b, **types):
    return OpGraph(lambda g, t: {"c": g.matmul(t["a"], t["b"])}, {"a": a, "b": b}, types)


@pytest.mark.parametrize("dtype", REAL_TYPES)
@pytest.mark.parametrize(("shape_a", "shape_b"), SHAPES, ids=str)
def test_products(engine, dtype, shape_a, shape_b):
    rng = np.random.default_rng(1)
    a, b = random_array(rng, shape_a, dtype), random_array(rng, shape_b, dtype)
    op = matmul_graph(a, b)
    got = op.run(op.build(engine))
    assert_close(got, lambda a, b: {"c": np.matmul(a, b)}, {"a": a, "b": b})


def test_transposed_operands(engine):
    rng = np.random.default_rng(2)
    a = random_array(rng, (2, 5, 3), "float32").transpose(0, 2, 1)
    b = random_array(rng, (2, 4, 5), "float32").transpose(0, 2, 1)
    op = matmul_graph(a, b)
    got = op.run(op.build(engine))
    assert_close(got, lambda a, b: {"c": np.matmul(a, b)}, {"a": a, "b": b})


def test_integers_are_exact(engine):
    rng = np.random.default_rng(3)
    a = rng.integers(-128, 128, (3, 40)).astype(np.int8)
    b = rng.integers(-128, 128, (40, 2)).astype(np.int8)
    op = matmul_graph(a, b, c="int32")
    want = a.astype(int) @ b.astype(int)
    np.testing.assert_array_equal(op.run(op.build(engine))["c"], want)


def test_the_transposed_products_are_the_gradients(engine):
    rng = np.random.default_rng(4)
    a, b, dc = (rng.standard_normal(s) for s in ((2, 3), (3, 4), (2, 4)))
    forward = matmul_graph(a, b)
    plan = forward.build(engine)
    backward = OpGraph(
        lambda g, t: {"da": g.matmul(t["dc"], t["bt"]), "db": g.matmul(t["at"], t["dc"])},
        {"dc": dc, "bt": b.T, "at": a.T},
    )
    got = backward.run(backward.build(engine))
    for name, at in (("a", a), ("b", b)):
        want, bound = difference_quotients(
            lambda v, name=name: float(np.sum(dc * forward.run(plan, {name: v})["c"])), at
        )
        assert (np.abs(got["d" + name] - want) <= bound).all()


F = np.float32
BAD = [
    ((3, 5), (4, 2), r"\[matmul\] b 'b' has dims \[4, 2\], expected 5 rows as a 'a'"),
    ((5,), (5, 2), r"a 'a' has rank 1, expected at least 2"),
    ((2, 3, 5), (3, 5, 2), r"b 'b' has dims \[3, 5, 2\], expected to broadcast to \[2, 5, 2\]"),
]


@pytest.mark.parametrize(("shape_a", "shape_b", "message"), BAD, ids=str)
def test_what_does_not_fit_is_named(shape_a, shape_b, message):
    op = matmul_graph(np.zeros(shape_a, F), np.zeros(shape_b, F))
    with pytest.raises(rd.InvalidValueError, match=message):
        op.graph.validate()


def test_ragged_operands_are_refused():
    op = matmul_graph(Ragged(np.zeros((3, 2, 4), F), (1, 2)), np.zeros((2, 2, 4, 4), F))
    with pytest.raises(rd.InvalidValueError, match="a 'a' is ragged, expected a dense tensor"):
        op.graph.validate()
