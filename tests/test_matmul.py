"""Matrix products against NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest
import raggeddnn as rd
from op_refusals import BAD_OFFSETS, assert_refused
from raggeddnn.testing.checks import assert_same_bits
from raggeddnn.testing.linear import matmul_graph, matmul_oracle
from raggeddnn.testing.op_graphs import (
    REAL_TYPES,
    SLACK,
    OpGraph,
    Ragged,
    assert_close,
    difference_quotients,
    random_array,
)

SHAPES = [
    ((3, 5), (5, 4)),
    ((1, 1), (1, 1)),
    ((2, 3, 5), (2, 5, 4)),
    ((2, 1, 3, 5), (3, 5, 4)),
    ((2, 3, 4, 0), (2, 3, 0, 2)),
    ((2, 0, 5), (2, 5, 3)),
    ((4, 7, 17), (1, 17, 6)),
]


@pytest.mark.parametrize("dtype", REAL_TYPES)
@pytest.mark.parametrize(("shape_a", "shape_b"), SHAPES, ids=str)
def test_products(build, dtype, shape_a, shape_b):
    rng = np.random.default_rng(1)
    a, b = random_array(rng, shape_a, dtype), random_array(rng, shape_b, dtype)
    op = matmul_graph(a, b)
    got = op.run(build(op))
    assert_close(got, matmul_oracle, {"a": a, "b": b})


def test_transposed_operands(build):
    rng = np.random.default_rng(2)
    a = random_array(rng, (2, 5, 3), "float32").transpose(0, 2, 1)
    b = random_array(rng, (2, 4, 5), "float32").transpose(0, 2, 1)
    op = matmul_graph(a, b)
    got = op.run(build(op))
    assert_close(got, matmul_oracle, {"a": a, "b": b})


def test_integers_are_exact(build):
    rng = np.random.default_rng(3)
    a = rng.integers(-128, 128, (3, 40)).astype(np.int8)
    b = rng.integers(-128, 128, (40, 2)).astype(np.int8)
    op = matmul_graph(a, b, c="int32")
    want = a.astype(int) @ b.astype(int)
    np.testing.assert_array_equal(op.run(build(op))["c"], want)


def test_the_transposed_products_are_the_gradients(build):
    rng = np.random.default_rng(4)
    a, b, dc = (rng.standard_normal(s) for s in ((2, 3), (3, 4), (2, 4)))
    forward = matmul_graph(a, b)
    plan = build(forward)
    backward = OpGraph(
        lambda g, t: {"da": g.matmul(t["dc"], t["bt"]), "db": g.matmul(t["at"], t["dc"])},
        {"dc": dc, "bt": b.T, "at": a.T},
    )
    got = backward.run(build(backward))
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


# Ragged tensors: one plan, several layouts of three sequences of at most CAPACITY rows.
CAPACITY = 7
LAYOUTS = [(3, 0, 5), (0, 0, 7), (1, 6, 2), (0, 0, 0)]
OFFSETS = [{}, {"unit": 1, "index": "int32"}]


def heads_first(rows):
    return np.swapaxes(rows, 0, 1)


def of_batch(array, b, batches=3, heads=2):
    return np.broadcast_to(array, (batches, heads, *array.shape[-2:]))[b]


@pytest.mark.parametrize("dtype", REAL_TYPES)
@pytest.mark.parametrize("offsets", OFFSETS, ids=["elements", "rows"])
@pytest.mark.parametrize("shape_b", [(4, 8), (2, 4, 8), (3, 1, 4, 8), (3, 2, 4, 8)], ids=str)
def test_ragged_rows(build, dtype, offsets, shape_b):
    rng = np.random.default_rng(5)
    b = random_array(rng, shape_b, dtype)
    a = Ragged.random(rng, LAYOUTS[0], (2, 4), dtype, max_rows=CAPACITY, **offsets)
    op = matmul_graph(a, b)
    plan = build(op)
    for lens in LAYOUTS:
        a = Ragged.random(rng, lens, (2, 4), dtype, max_rows=CAPACITY, **offsets)
        c = op.run(plan, {"a": a})["c"]
        assert c.shape == (sum(lens) + SLACK, 2, 8) and (c[sum(lens) :] == 77).all()
        for i, (rows, got) in enumerate(zip(a.split(), Ragged(c, lens).split(), strict=True)):
            given = {"a": heads_first(rows), "b": of_batch(b, i)}
            assert_close({"c": heads_first(got)}, matmul_oracle, given)


def test_heads_of_a_ragged_tensor_broadcast(build):
    rng = np.random.default_rng(6)
    a = Ragged.random(rng, (2, 3), (1, 4), "float32", unit=1)
    b = random_array(rng, (3, 4, 2), "float32")
    op = matmul_graph(a, b)
    c = op.run(build(op))["c"]
    assert c.shape == (5 + SLACK, 3, 2) and (c[5:] == 77).all()
    assert_close({"c": heads_first(c[:5])}, matmul_oracle, {"a": heads_first(a.rows[:5]), "b": b})


@pytest.mark.parametrize("dtype", REAL_TYPES)
@pytest.mark.parametrize("offsets", OFFSETS, ids=["elements", "rows"])
@pytest.mark.parametrize(
    "shape_a", [(5, CAPACITY), (1, 1, 5, CAPACITY), (3, 2, 5, CAPACITY)], ids=str
)
def test_a_sum_over_ragged_rows(build, dtype, offsets, shape_a):
    rng = np.random.default_rng(7)
    a = random_array(rng, shape_a, dtype)
    b = Ragged.random(rng, LAYOUTS[0], (2, 4), dtype, max_rows=CAPACITY, **offsets)
    op = matmul_graph(a, b)
    plan = build(op)
    for lens in LAYOUTS:
        b = Ragged.random(rng, lens, (2, 4), dtype, max_rows=CAPACITY, **offsets)
        if a.shape[0] == 3:  # columns past the rows of a batch are not read
            for i, n in enumerate(lens):
                a[i] = random_array(rng, a.shape[1:], dtype)
                a[i, :, :, n:] = np.nan
        c = op.run(plan, {"a": a, "b": b})["c"]
        assert c.shape == (3, 2, 5, 4)
        for i, rows in enumerate(b.split()):
            given = {"a": of_batch(a, i)[:, :, : lens[i]], "b": heads_first(rows)}
            assert_close({"c": c[i]}, matmul_oracle, given)
            if lens[i] == 0:
                assert_same_bits(c[i], np.zeros_like(c[i]), "c")


@pytest.mark.parametrize("dtype", REAL_TYPES)
def test_ragged_rows_and_a_sum_over_others(build, dtype):
    """Weights times values: A has a row for each query, and as many columns as there are keys."""

    def inputs(rng, lens_q, lens_kv):
        a = Ragged.random(rng, lens_q, (2, 5), dtype, unit=1, table="q", max_rows=CAPACITY)
        for rows, n in zip(a.split(), lens_kv, strict=True):
            rows[:, :, n:] = np.nan
        b = Ragged.random(rng, lens_kv, (2, 3), dtype, table="kv", index="int32", max_rows=5)
        return {"a": a, "b": b}

    rng = np.random.default_rng(8)
    op = matmul_graph(**inputs(rng, (1, 1, 1), (1, 1, 1)))
    plan = build(op)
    for lens_q, lens_kv in [
        ((3, 0, 7), (5, 2, 1)),
        ((2, 4, 1), (0, 5, 0)),
        ((0, 0, 0), (1, 2, 3)),
        ((1, 2, 3), (0, 0, 0)),
    ]:
        given = inputs(rng, lens_q, lens_kv)
        c = op.run(plan, given)["c"]
        total = sum(lens_q)
        assert c.shape == (total + SLACK, 2, 3) and (c[total:] == 77).all()
        results = Ragged(c, lens_q).split()
        for i, (a, b) in enumerate(zip(given["a"].split(), given["b"].split(), strict=True)):
            one = {"a": heads_first(a)[:, :, : lens_kv[i]], "b": heads_first(b)}
            assert_close({"c": heads_first(results[i])}, matmul_oracle, one)
            if lens_kv[i] == 0:
                assert_same_bits(results[i], np.zeros_like(results[i]), "c")


def test_ragged_integers_are_exact(build):
    rng = np.random.default_rng(9)
    a = Ragged(rng.integers(-128, 128, (5, 1, 40)).astype(np.int8), (2, 0, 3), unit=1)
    b = rng.integers(-128, 128, (40, 2)).astype(np.int8)
    op = matmul_graph(a, b, c="int32")
    want = a.rows.astype(int) @ b.astype(int)
    np.testing.assert_array_equal(op.run(build(op))["c"][:5], want)


def test_a_sequence_has_the_same_bits_alone_and_in_company(build):
    rng = np.random.default_rng(10)
    rows = random_array(rng, (8, 2, 7), "float32")
    b = random_array(rng, (7, 3), "float32")
    summed = random_array(rng, (5, 8), "float32")

    def results(rows, lens):
        a = matmul_graph(Ragged(rows, lens, unit=1), b)
        c = a.run(build(a))["c"]
        over = matmul_graph(summed[:, : max(lens)].copy(), Ragged(rows, lens))
        return Ragged(c, lens).split(), over.run(build(over))["c"]

    together, sums = results(rows, (3, 5))
    alone, sum_alone = results(rows[3:].copy(), (5,))
    assert_same_bits(alone[0], together[1], "c")
    assert_same_bits(sum_alone[0], sums[1], "c")


def own_offsets_of_c(lens=(1, 1), b_width=2):
    """C by offsets in rows of its own, beside A's in elements."""

    def make(g, t):
        t["own"] = g.tensor(name="own", dim=[len(lens) + 1, 1, 1, 1], data_type=rd.DataType.INT32)
        c = g.matmul(t["a"], t["b"])
        c.set_ragged_offset(t["own"]).set_ragged_offset_multiplier(2 * b_width)
        return {"c": c}

    a = Ragged(np.arange(sum(lens) * 8, dtype=F).reshape(-1, 2, 4), lens)
    return OpGraph(make, {"a": a, "b": np.ones((4, b_width), F)})


def test_a_result_may_have_offsets_of_its_own(build):
    op = own_offsets_of_c((1, 3))
    got = op.run(build(op), values={"own": np.array([0, 1, 4], np.int32)})["c"]
    want = op.inputs["a"].rows.sum(axis=-1, keepdims=True) * np.ones(2, F)
    np.testing.assert_array_equal(got[:4], want)
    assert (got[4:] == 77).all()


def test_rows_that_disagree_are_named_before_any_write(build):
    op = own_offsets_of_c()
    message = r"\[matmul\] ragged offset of \w+ 'off': index 2 ends a block of 1 rows, expected 0"
    assert_refused(op, build(op), message, {"own": np.array([0, 1, 1], np.int32)})


@pytest.mark.parametrize(("offsets", "index"), BAD_OFFSETS)
@pytest.mark.parametrize("side", ["a", "b"])
def test_bad_offsets_are_named_before_any_write(build, side, offsets, index):
    rows = Ragged(np.ones((4, 2, 4), F), (1, 1))
    if side == "a":
        op, role = matmul_graph(rows, np.ones((4, 4), F)), r"\w"
    else:
        op, role = matmul_graph(np.ones((3, 1), F), rows), "b"
    message = rf"\[matmul\] ragged offset of {role} 'off': index {index} "
    assert_refused(op, build(op), message, {"off": np.array(offsets)})


LOW, HIGH = -(2**63), 2**63 - 1
SUMS = {  # factors of the terms, and their sum where INT64 can hold it, else the nearest end
    "two of the largest": ([(LOW, LOW)] * 2, HIGH),
    "four of the largest": ([(LOW, LOW)] * 4, HIGH),
    "many of the least": ([(LOW, HIGH)] * 9, LOW),
    "beyond 128 bits and back": ([(LOW, LOW)] * 3 + [(LOW, HIGH)] * 3, HIGH),
    "back to what INT64 holds": (
        [(LOW, LOW)] * 2 + [(LOW, HIGH)] * 2 + [(LOW, 1)] * 2 + [(5, 1)],
        5,
    ),
    "the least there is": ([(LOW, 1), (HIGH, -1), (HIGH, 1)], LOW),
}


@pytest.mark.parametrize("case", SUMS)
def test_integer_sums_are_exact_however_large_their_terms(build, case):
    terms, want = SUMS[case]
    assert want == min(max(sum(a * b for a, b in terms), LOW), HIGH)
    a, b = (np.array(factors, np.int64) for factors in zip(*terms, strict=True))
    op = matmul_graph(a[None, :], b[:, None])
    assert op.run(build(op))["c"].tolist() == [[want]]


def lie_dense(c, _):
    c.set_dim([2, 2, 2, 4]).set_stride([16, 8, 4, 1])


def lie_ragged(c, op):
    c.set_ragged_offset(op.tables["off"])


ROWS = Ragged(np.zeros((3, 2, 4), F), (1, 2))
ONE_BATCH = Ragged(np.zeros((3, 1, 4), F), (3,))
REFUSED = {  # a, b, what is done to c, and the message
    "dense c": (
        ROWS,
        np.zeros((4, 4), F),
        lie_dense,
        "[matmul] c 'matmul::c' is dense, expected a ragged tensor as a 'a', whose rows it has",
    ),
    "ragged c": (
        np.zeros((2, 2, 2, 2), F),
        ROWS,
        lie_ragged,
        "[matmul] c 'matmul::c' is ragged, expected a dense tensor as a 'a'",
    ),
    "a unit of no whole row": (
        ROWS,
        np.zeros((4, 3), F),
        None,
        "[matmul] 'matmul::c' has rows of 6 elements and cannot share the ragged offset of 'a', "
        "which counts rows of 8 in units of 1, expected a ragged offset of its own",
    ),
    "rank": (
        np.zeros((1, 2, 2, 2, 2), F),
        ROWS,
        None,
        "[matmul] c 'matmul::c' has rank 5, expected 4: b 'b' is ragged",
    ),
    "rank of b": (
        ROWS,
        np.zeros((1, 2, 2, 4, 2), F),
        None,
        "[matmul] c 'matmul::c' has rank 5, expected 4: a 'a' is ragged",
    ),
    "strides of c alone": (
        ROWS,
        np.zeros((4, 4), F),
        lambda c, _: c.set_stride([16, 4, 8, 1]),
        "[matmul] c 'matmul::c' is dense, expected a ragged tensor as a 'a', whose rows it has "
        "(set_ragged_offset; beside strides it is not inferred)",
    ),
    "batches of a": (
        ONE_BATCH,
        np.zeros((2, 1, 4, 4), F),
        None,
        "'off' (uid 1) of dims [2, 1, 1, 1], expected [3, 1, 1, 1]",
    ),
    "batches of b": (
        np.zeros((2, 1, 4, 3), F),
        ONE_BATCH,
        None,
        "[matmul] b 'b' has dims [1, 1, 3, 4], expected to broadcast to [2, 1, 3, 4]",
    ),
    "columns of a": (
        np.zeros((4, 3), F),
        ROWS,
        None,
        "[matmul] b 'b' has dims [2, 2, 2, 4], expected 3 rows as a 'a' has columns",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_where_ragged_has_no_meaning_it_is_refused(case):
    a, b, change, message = REFUSED[case]
    op = matmul_graph(a, b)
    if change:
        change(op.outputs["c"], op)
    with pytest.raises(rd.InvalidValueError, match=re.escape(message)):
        op.graph.validate()
