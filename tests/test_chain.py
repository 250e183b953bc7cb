"""Ragged chains in one graph: a scaled query, attention, and a normalization of its output; an
activation, a product, and what its rows come to.

What lies between is virtual and ragged: it has no memory of the caller's, and the offsets in the
variant pack say how many rows it has at each run.
"""

from __future__ import annotations

import numpy as np
import pytest
import raggeddnn as rd
from raggeddnn.testing.checks import assert_same_bits, is_reference
from raggeddnn.testing.op_graphs import SLACK, assert_close

HEADS, WIDTH, CAPACITY, BATCH = 2, 4, 12, 3
EPSILON = 0.0078125
LAYOUTS = [
    (3, 4, 5),
    (1, 1, 1),
    (12, 12, 12),
    (0, 7, 2),
    (7, 0, 2),
    (7, 2, 0),
    (0, 0, 0),
    (0, 12, 0),
    (5, 5, 5),
    (2, 11, 3),
]


def build(graph, engine):
    """The plan; a refusal skips the test, but the reference engine refuses nothing."""
    try:
        return graph.build(engine=engine)
    except rd.NotSupportedError as refusal:
        if is_reference(engine):
            raise
        pytest.skip(f"{engine} refuses: {refusal}")


class Chain:
    """scale * q -> attention over k, v -> RMS norm over the width; ``state`` is that of epsilon."""

    def __init__(self, state):
        g = rd.Graph(io_data_type=rd.DataType.FLOAT, intermediate_data_type=rd.DataType.DOUBLE)
        self.graph = g
        self.aux = g.tensor(name="off", dim=[BATCH + 1, 1, 1, 1], data_type=rd.DataType.INT32)
        dim = [BATCH, HEADS, CAPACITY, WIDTH]
        ragged = {"ragged_offset": self.aux, "ragged_offset_multiplier": HEADS * WIDTH}
        self.inputs = {name: g.tensor(name=name, dim=dim, **ragged) for name in ("q", "k", "v")}
        self.weight = g.tensor(name="weight", dim=[1, 1, 1, WIDTH])
        self.factor = g.tensor(
            rd.TensorAttributes()
            .set_name("factor")
            .set_data_type(rd.DataType.FLOAT)
            .set_as_runtime_parameter()
        )
        epsilon = g.tensor(np.float64(EPSILON), rd.ScalarType[state])
        scaled = g.pointwise(rd.PointwiseMode.MUL, self.inputs["q"], self.factor)
        o, _ = g.sdpa(scaled, self.inputs["k"], self.inputs["v"], causal_mask=True)
        o.set_ragged_offset(self.aux).set_ragged_offset_multiplier(HEADS * WIDTH)
        self.y, _ = g.rmsnorm(o, self.weight, epsilon)
        self.y.set_output(True)

    def run(self, plan, rows, weight, factor, lens):
        y = np.full((sum(lens) + SLACK, HEADS, WIDTH), 77, np.float32)
        pack = {self.inputs[name]: rows[name] for name in self.inputs}
        pack[self.aux] = np.concatenate([[0], np.cumsum(lens)]).astype(np.int32)
        plan.execute({**pack, self.weight: weight, self.factor: factor, self.y: y})
        assert (y[sum(lens) :] == 77).all()
        return y[: sum(lens)]


def oracle(q, k, v, weight, factor):
    """Of one sequence, rows (S, H, D)."""
    seen = np.tril(np.ones((len(q), len(q)), bool))
    score = np.einsum("rhd,chd->hrc", q * factor, k) / np.sqrt(q.dtype.type(WIDTH))
    score = np.where(seen, score, -np.inf)
    weights = np.exp(score - score.max(axis=-1, keepdims=True))
    o = np.einsum("hrc,chd->rhd", weights / weights.sum(axis=-1, keepdims=True), v)
    mean_square = np.mean(o * o, axis=-1, keepdims=True)
    return {"y": o / np.sqrt(mean_square + q.dtype.type(EPSILON)) * weight}


def inputs_of(lens, seed):
    rng = np.random.default_rng(seed)
    shape = (sum(lens), HEADS, WIDTH)
    return {name: rng.standard_normal(shape).astype(np.float32) for name in ("q", "k", "v")}


@pytest.mark.parametrize("state", ["COMPILE_TIME_CONST", "RUNTIME_PARAM"])
def test_one_plan_serves_ten_layouts(engine, state):
    chain = Chain(state)
    plan = build(chain.graph, engine)
    weight = np.random.default_rng(1).standard_normal((1, 1, 1, WIDTH)).astype(np.float32)
    for seed, lens in enumerate(LAYOUTS):
        rows, factor = inputs_of(lens, seed), 0.5 + seed
        y = chain.run(plan, rows, weight, factor, lens)
        assert not np.isnan(y).any()
        for start, n in zip(np.cumsum([0, *lens]), lens, strict=False):
            if n == 0:
                continue
            at = slice(start, start + n)
            given = {name: a[at] for name, a in rows.items()}
            given.update(weight=weight[0, 0], factor=np.full((1, 1, 1), factor, np.float32))
            # The mask depends on the order of the rows.
            assert_close({"y": y[at]}, oracle, given, is_symmetric=False)


def test_a_sequence_has_the_same_bits_alone_and_in_company(engine):
    chain = Chain("COMPILE_TIME_CONST")
    plan = build(chain.graph, engine)
    weight = np.ones((1, 1, 1, WIDTH), np.float32)
    lens = (3, 7, 2)
    rows = inputs_of(lens, 5)
    together = chain.run(plan, rows, weight, 2.0, lens)
    alone = {name: np.ascontiguousarray(a[3:10]) for name, a in rows.items()}
    assert_same_bits(chain.run(plan, alone, weight, 2.0, (0, 7, 0)), together[3:10], "y")


def test_the_chain_survives_serialization(engine):
    chain = Chain("COMPILE_TIME_CONST")
    plan = build(chain.graph, engine)
    lens = (4, 1, 6)
    rows, weight = inputs_of(lens, 6), np.ones((1, 1, 1, WIDTH), np.float32)
    again = build(rd.Graph.deserialize(chain.graph.serialize()), engine)
    first = chain.run(plan, rows, weight, 2.0, lens)
    y = np.full((sum(lens) + SLACK, HEADS, WIDTH), 77, np.float32)
    pack = {chain.inputs[name].get_uid(): rows[name] for name in rows}
    pack[chain.aux.get_uid()] = np.concatenate([[0], np.cumsum(lens)]).astype(np.int32)
    pack |= {
        chain.weight.get_uid(): weight,
        chain.factor.get_uid(): np.array(2.0, np.float32),
        chain.y.get_uid(): y,
    }
    again.execute(pack)
    assert_same_bits(y[: sum(lens)], first, "y")


class Pooling:
    """act = swish(x), c = act w; the sum and a weighted sum of the rows of c, and each row's peak.

    Everything but x, the weights and the three results is virtual.
    """

    COLUMNS = 6

    def __init__(self):
        g = rd.Graph(io_data_type=rd.DataType.FLOAT, intermediate_data_type=rd.DataType.DOUBLE)
        self.graph = g
        self.aux = g.tensor(name="off", dim=[BATCH + 1, 1, 1, 1], data_type=rd.DataType.INT64)
        self.x = g.tensor(
            name="x",
            dim=[BATCH, HEADS, CAPACITY, WIDTH],
            ragged_offset=self.aux,
            ragged_offset_multiplier=HEADS * WIDTH,
        )
        self.w = g.tensor(name="w", dim=[HEADS, WIDTH, self.COLUMNS])
        self.p = g.tensor(name="p", dim=[1, CAPACITY])
        c = g.matmul(g.pointwise(rd.PointwiseMode.SWISH_FWD, self.x), self.w)
        columns = [BATCH, HEADS, 1, self.COLUMNS]
        rows = [BATCH, HEADS, CAPACITY, 1]
        self.results = {
            "sum": g.reduction(rd.ReductionMode.ADD, c).set_dim(columns),
            "pooled": g.matmul(self.p, c),
            "peak": g.reduction(rd.ReductionMode.AMAX, c).set_dim(rows),
        }
        for tensor in self.results.values():
            tensor.set_output(True)

    def run(self, plan, x, w, p, lens):
        """Results, and with NaN past the last row of x."""
        shape = (BATCH, HEADS, 1, self.COLUMNS)
        out = {"sum": np.full(shape, 77, np.float32), "pooled": np.full(shape, 77, np.float32)}
        out["peak"] = np.full((sum(lens) + SLACK, HEADS, 1), 77, np.float32)
        slack = np.full((SLACK, HEADS, WIDTH), np.nan, np.float32)
        given = {self.x: np.concatenate([x, slack]), self.w: w, self.p: p}
        given[self.aux] = np.concatenate([[0], np.cumsum(lens)])
        given |= {self.results[name]: array for name, array in out.items()}
        plan.execute({tensor.get_uid(): array for tensor, array in given.items()})
        assert (out["peak"][sum(lens) :] == 77).all()
        return out | {"peak": out["peak"][: sum(lens)]}


def pooling_oracle(x, w, p):
    """Of one sequence, rows (S, H, D)."""
    c = np.einsum("shd,hdn->hsn", x / (1 + np.exp(-x)), w)
    return {
        "sum": c.sum(axis=1, keepdims=True),
        "pooled": np.einsum("s,hsn->hn", p[: len(x)], c)[:, None],
        "peak": np.abs(c).max(axis=2, initial=0).T[:, :, None],
    }


@pytest.mark.parametrize("form", ["as built", "serialized", "json"])
def test_one_plan_pools_ten_layouts(engine, form):
    pooling = Pooling()
    plan = build(pooling.graph, engine)
    if form == "serialized":
        plan = build(rd.Graph.deserialize(pooling.graph.serialize()), engine)
    if form == "json":
        plan = build(rd.Graph.from_json(pooling.graph.to_json()), engine)
    rng = np.random.default_rng(7)
    w = rng.standard_normal((HEADS, WIDTH, Pooling.COLUMNS)).astype(np.float32)
    p = rng.standard_normal((1, CAPACITY)).astype(np.float32)
    for seed, lens in enumerate(LAYOUTS):
        x = inputs_of(lens, seed)["q"]
        out = pooling.run(plan, x, w, p, lens)
        for b, (start, n) in enumerate(zip(np.cumsum([0, *lens]), lens, strict=False)):
            at = slice(start, start + n)
            got = {"sum": out["sum"][b], "pooled": out["pooled"][b], "peak": out["peak"][at]}
            if n == 0:
                assert_same_bits(got["sum"], np.zeros_like(got["sum"]), "sum")
                assert_same_bits(got["pooled"], np.zeros_like(got["pooled"]), "pooled")
                continue
            # The weights of a row depend on where it is.
            given = {"x": x[at], "w": w, "p": p[0]}
            assert_close(got, pooling_oracle, given, is_symmetric=False)


def test_offsets_with_gaps_place_what_lies_between(engine):
    g = rd.Graph(io_data_type=rd.DataType.FLOAT)
    aux = g.tensor(name="off", dim=[3, 1, 1, 1], stride=[2, 1, 1, 1], data_type=rd.DataType.INT64)
    x = g.tensor(name="x", dim=[2, 1, 4, 3], ragged_offset=aux, ragged_offset_multiplier=3)
    minus = g.pointwise(rd.PointwiseMode.NEG, x)
    y = g.pointwise(rd.PointwiseMode.NEG, minus).set_output(True)
    rows = np.arange(15, dtype=np.float32)
    out = np.full(18, 77, np.float32)
    build(g, engine).execute({x: rows, y: out, aux: np.array([0, -1, 2, -1, 5, -1])})
    assert out.tolist() == [*rows.tolist(), 77, 77, 77]
