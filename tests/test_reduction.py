"""Reductions against NumPy: every mode, any set of axes."""

from __future__ import annotations

import re

import numpy as np
import pytest
import raggeddnn as rd
from op_refusals import BAD_OFFSETS, assert_refused
from raggeddnn.testing.checks import assert_same_bits
from raggeddnn.testing.linear import NOTHING, REDUCTIONS, reduction_graph
from raggeddnn.testing.op_graphs import (
    REAL_TYPES,
    SLACK,
    OpGraph,
    Ragged,
    assert_close,
    random_array,
)

Mode = rd.ReductionMode


def test_every_mode_is_tested():
    assert {*REDUCTIONS, Mode.NOT_SET} == {*NOTHING, Mode.NOT_SET} == set(Mode)


@pytest.mark.parametrize("dtype", REAL_TYPES)
@pytest.mark.parametrize("axes", [None, (0,), (1, 3), (2,), ()], ids=str)
@pytest.mark.parametrize("mode", REDUCTIONS, ids=lambda m: m.name)
def test_modes_and_axes(build, mode, axes, dtype):
    x = random_array(np.random.default_rng(1), (2, 3, 4, 5), dtype)
    x[0, 0, 0, 0] = 0
    op = reduction_graph(mode, x, axes)
    over = tuple(range(4)) if axes is None else axes
    got = op.run(build(op))
    assert got["y"].shape == tuple(1 if i in over else n for i, n in enumerate(x.shape))

    def oracle(x):
        return {"y": REDUCTIONS[mode](x, axis=over, keepdims=True)}

    assert_close(got, oracle, {"x": x})


@pytest.mark.parametrize("mode", [Mode.ADD, Mode.MUL, Mode.MIN_OP, Mode.MAX_OP, Mode.NORM1])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_integers_are_exact(build, mode, dtype):
    x = np.random.default_rng(2).integers(-3, 4, (3, 9)).astype(dtype)
    op = reduction_graph(mode, x, (1,), out="int64")
    want = REDUCTIONS[mode](x.astype(np.int64), axis=1, keepdims=True)
    np.testing.assert_array_equal(op.run(build(op))["y"], want)


LOW, HIGH = -(2**63), 2**63 - 1
PRODUCTS = [
    [2**62, 4, -1],
    [2**62, 4, 1],
    [2**62, -4, -1],
    [HIGH, 9, 0],
    [LOW, LOW, LOW],
    [LOW, 1],
    [LOW, -1, -1],
]


@pytest.mark.parametrize("factors", PRODUCTS, ids=str)
def test_a_product_out_of_range_is_the_nearest_end_of_it(build, factors):
    exact = 1
    for factor in factors:
        exact *= factor
    op = reduction_graph(Mode.MUL, np.array(factors, np.int64), None, out="int64")
    assert op.run(build(op))["y"].tolist() == [min(max(exact, LOW), HIGH)]


def test_the_order_is_the_same_whatever_the_strides(build):
    x = random_array(np.random.default_rng(3), (6, 7, 5), "float32")
    results = []
    for array in (x, np.asfortranarray(x)):
        op = reduction_graph(Mode.ADD, array, (0, 2))
        results.append(op.run(build(op))["y"])
    assert_same_bits(results[0], results[1], "y")


@pytest.mark.parametrize("mode", NOTHING, ids=lambda m: m.name)
def test_nothing_gives_the_neutral_element(build, mode):
    op = reduction_graph(mode, np.zeros((3, 0), np.float32), (1,))
    np.testing.assert_array_equal(op.run(build(op))["y"], np.full((3, 1), NOTHING[mode]))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_nothing_gives_the_limit_of_an_integer_type(build, dtype):
    limits = np.iinfo(dtype)
    for mode, want in ((Mode.MIN_OP, limits.max), (Mode.MAX_OP, limits.min), (Mode.AVG, 0)):
        op = reduction_graph(mode, np.zeros((3, 0), dtype), (1,))
        assert (op.run(build(op))["y"] == want).all()


# Ragged tensors: one plan, several layouts of three sequences of at most CAPACITY rows.
CAPACITY = 7
LAYOUTS = [(3, 0, 5), (0, 0, 7), (1, 6, 2), (0, 0, 0)]
OFFSETS = [{}, {"unit": 1, "index": "int32"}]
KEEPING = [(), (1,), (3,), (1, 3)]  # of S
REDUCING = [(2,), (1, 2), (2, 3), (1, 2, 3)]
ACROSS = [(0, 2), (0, 1, 2), (0, 2, 3), (0, 1, 2, 3)]  # the batches, too


def over_rows(axes):
    """Axes of [B, H, S, D] as those of rows (S, H, D)."""
    return tuple({1: 1, 2: 0, 3: 2}[axis] for axis in axes if axis != 0)


def assert_reduced(got, mode, rows, axes):
    """``got`` and ``rows`` are (S, H, D), with 1 where reduced."""
    over = over_rows(axes)
    if rows.shape[0] == 0 and 0 in over:
        np.testing.assert_array_equal(got.astype(float), np.full(got.shape, float(NOTHING[mode])))
        return

    def oracle(x):
        return {"y": np.moveaxis(REDUCTIONS[mode](x, axis=over, keepdims=True), 0, -1)}

    assert_close({"y": np.moveaxis(got, 0, -1)}, oracle, {"x": rows})


def run_layouts(build, mode, axes, dtype, **offsets):
    """Outcomes of one plan: the input, and the result."""
    rng = np.random.default_rng(4)
    x = Ragged.random(rng, LAYOUTS[0], (2, 4), dtype, max_rows=CAPACITY, **offsets)
    op = reduction_graph(mode, x, axes)
    plan = build(op)
    for lens in LAYOUTS:
        x = Ragged.random(rng, lens, (2, 4), dtype, max_rows=CAPACITY, **offsets)
        x.rows[:1] *= np.arange(4) > 0  # a zero
        yield x, op.run(plan, {"x": x})["y"]


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("axes", KEEPING, ids=str)
@pytest.mark.parametrize("mode", REDUCTIONS, ids=lambda m: m.name)
def test_ragged_rows_are_kept(build, mode, axes, dtype):
    for x, y in run_layouts(build, mode, axes, dtype, unit=1, index="int32"):
        total = sum(x.lens)
        want = (total + SLACK, 1 if 1 in axes else 2, 1 if 3 in axes else 4)
        assert y.shape == want and (y[total:] == 77).all()
        assert_reduced(y[:total], mode, x.rows[:total], axes)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("offsets", OFFSETS, ids=["elements", "rows"])
@pytest.mark.parametrize("axes", REDUCING, ids=str)
@pytest.mark.parametrize("mode", REDUCTIONS, ids=lambda m: m.name)
def test_ragged_rows_are_reduced(build, mode, axes, offsets, dtype):
    for x, y in run_layouts(build, mode, axes, dtype, **offsets):
        assert y.shape == (3, 1 if 1 in axes else 2, 1, 1 if 3 in axes else 4)
        for of_batch, rows in zip(y, x.split(), strict=True):
            assert_reduced(np.swapaxes(of_batch, 0, 1), mode, rows, axes)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("axes", [*ACROSS, None], ids=str)
@pytest.mark.parametrize("mode", REDUCTIONS, ids=lambda m: m.name)
def test_ragged_batches_are_reduced(build, mode, axes, dtype):
    for x, y in run_layouts(build, mode, axes, dtype):
        over = (0, 1, 2, 3) if axes is None else axes
        assert y.shape == (1, 1 if 1 in over else 2, 1, 1 if 3 in over else 4)
        assert_reduced(np.swapaxes(y[0], 0, 1), mode, x.rows[: sum(x.lens)], over)


def test_a_single_row_is_kept_by_offsets_only(build):
    """Dims do not say whether an axis of size 1 is kept: the result's offsets do."""
    x = Ragged(np.arange(16, dtype=np.float32).reshape(2, 2, 4), (1, 0, 1), unit=1)
    summed = reduction_graph(Mode.MUL, x, (3,))
    y = summed.run(build(summed))["y"]
    want = x.rows.prod(axis=2)
    np.testing.assert_array_equal(y[:, :, 0, 0], [want[0], [1, 1], want[1]])
    kept = reduction_graph(Mode.MUL, x, (3,))
    kept.outputs["y"].set_ragged_offset(kept.tables["off"]).set_ragged_offset_multiplier(2)
    y = kept.run(build(kept))["y"]
    np.testing.assert_array_equal(y[:2, :, 0], want)
    assert (y[2:] == 77).all()


def test_a_sequence_has_the_same_bits_alone_and_in_company(build):
    rows = random_array(np.random.default_rng(5), (8, 2, 7), "float32")
    results = {}
    for lens, at in (((3, 5), slice(0, 8)), ((5,), slice(3, 8))):
        x = Ragged(rows[at].copy(), lens, unit=1)
        for axes in ((3,), (2, 3)):
            op = reduction_graph(Mode.ADD, x, axes)
            results[lens, axes] = op.run(build(op))["y"]
    assert_same_bits(results[(5,), (3,)][:5], results[(3, 5), (3,)][3:8], "rows")
    assert_same_bits(results[(5,), (2, 3)][0], results[(3, 5), (2, 3)][1], "sums")


def test_ragged_integers_are_exact(build):
    rows = np.random.default_rng(6).integers(-128, 128, (5, 2, 3)).astype(np.int8)
    op = reduction_graph(Mode.ADD, Ragged(rows, (2, 0, 3)), (2, 3), out="int32")
    got = op.run(build(op))["y"][:, :, 0, 0]
    wide = rows.astype(int).sum(axis=2)
    np.testing.assert_array_equal(got, [wide[:2].sum(axis=0), [0, 0], wide[2:].sum(axis=0)])


@pytest.mark.parametrize(("offsets", "index"), BAD_OFFSETS)
@pytest.mark.parametrize("axes", [(2,), (0, 2)], ids=str)
def test_bad_offsets_are_named_before_any_write(build, axes, offsets, index):
    x = Ragged(np.ones((4, 2, 4), np.float32), (1, 1))
    op = reduction_graph(Mode.ADD, x, axes)
    message = rf"\[reduction\] ragged offset of \w+ 'off': index {index} "
    assert_refused(op, build(op), message, {"off": np.array(offsets)})


def test_rows_that_disagree_are_named_before_any_write(build):
    def make(g, t):
        t["own"] = g.tensor(name="own", dim=[3, 1, 1, 1], data_type=rd.DataType.INT32)
        y = g.reduction(Mode.ADD, t["x"]).set_dim([2, 2, 4, 1])
        y.set_ragged_offset(t["own"]).set_ragged_offset_multiplier(2)
        return {"y": y}

    x = Ragged(np.ones((5, 2, 4), np.float32), (2, 3), max_rows=4)
    op = OpGraph(make, {"x": x})
    plan = build(op)
    y = op.run(plan, values={"own": np.array([0, 2, 5], np.int32)})["y"]
    assert (y[:5] == 4).all() and (y[5:] == 77).all()
    message = r"\[reduction\] ragged offset of x 'off': index 2 ends a block of 3 rows, expected 2"
    assert_refused(op, plan, message, {"own": np.array([0, 2, 4], np.int32)})


def test_what_does_not_fit_is_named():
    x = np.zeros((2, 3), np.float32)
    op = reduction_graph(Mode.ADD, x)
    op.outputs["y"].set_dim([2, 2])
    with pytest.raises(rd.InvalidValueError, match=r"\[reduction\] out .* has dims \[2, 2\]"):
        op.graph.validate()
    with pytest.raises(rd.InvalidValueError, match="mode is 0, expected 1 to 9"):
        reduction_graph(Mode.NOT_SET, x).graph.validate()


ROWS = Ragged(np.zeros((5, 2, 4), np.float32), (3, 2), unit=1)
OUT = "out 'reduction::out'"


def lie_dense(y, _):
    y.set_stride([6, 3, 1, 1])


def lie_ragged(y, op):
    y.set_ragged_offset(op.tables["off"]).set_ragged_offset_multiplier(2)


REFUSED = {  # x, the reduced axes, what is done to y, and the message
    "dense with rows": (
        ROWS,
        (3,),
        lie_dense,
        f"{OUT} is dense, expected a ragged tensor as x 'x', whose rows it has",
    ),
    "rows without batches": (
        ROWS,
        (0, 3),
        None,
        f"{OUT} has dims [1, 2, 3, 1], expected 2 over axis 0 as x 'x': rows that are kept stay in "
        "their batch",
    ),
    "ragged without rows": (
        ROWS,
        (2, 3),
        lie_ragged,
        f"{OUT} has dims [2, 2, 1, 1], expected 3 over axis 2 as x 'x': rows that are kept stay in "
        "their batch",
    ),
    "a unit of no whole row": (
        Ragged(ROWS.rows, ROWS.lens),
        (3,),
        None,
        "'reduction::out' has rows of 2 elements and cannot share the ragged offset of 'x', which "
        "counts rows of 8 in units of 1, expected a ragged offset of its own",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_where_ragged_has_no_meaning_it_is_refused(case):
    x, axes, change, message = REFUSED[case]
    op = reduction_graph(Mode.ADD, x, axes)
    if change:
        change(op.outputs["y"], op)
    with pytest.raises(rd.InvalidValueError, match=re.escape(f"[reduction] {message}")):
        op.graph.validate()


def test_a_ragged_result_of_a_dense_tensor_is_refused():
    def make(g, t):
        offsets = g.tensor(name="off", dim=[3, 1, 1, 1], data_type=rd.DataType.INT32)
        return {"y": g.reduction(Mode.ADD, t["x"]).set_dim([2, 2, 3, 1]).set_ragged_offset(offsets)}

    op = OpGraph(make, {"x": np.zeros((2, 2, 3, 4), np.float32)})
    with pytest.raises(rd.InvalidValueError, match="is ragged, expected a dense tensor as x 'x'"):
        op.graph.validate()
