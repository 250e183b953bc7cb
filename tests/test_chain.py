"""A ragged chain in one graph: a scaled query, attention, and a normalization of its output.

What lies between is virtual and ragged: it has no memory of the caller's, and the offsets in the
variant pack say how many rows it has at each run.
"""

from __future__ import annotations

import numpy as np
import pytest
import raggeddnn as rd
from op_graphs import SLACK, assert_close
from raggeddnn.testing.checks import assert_same_bits, is_reference

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

    def build(self, engine):
        try:
            return self.graph.build(engine=engine)
        except rd.NotSupportedError as refusal:
            if is_reference(engine):
                raise
            pytest.skip(f"{engine} refuses: {refusal}")

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
    plan = chain.build(engine)
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
    plan = chain.build(engine)
    weight = np.ones((1, 1, 1, WIDTH), np.float32)
    lens = (3, 7, 2)
    rows = inputs_of(lens, 5)
    together = chain.run(plan, rows, weight, 2.0, lens)
    alone = {name: np.ascontiguousarray(a[3:10]) for name, a in rows.items()}
    assert_same_bits(chain.run(plan, alone, weight, 2.0, (0, 7, 0)), together[3:10], "y")


def test_the_chain_survives_serialization(engine):
    chain = Chain("COMPILE_TIME_CONST")
    plan = chain.build(engine)
    lens = (4, 1, 6)
    rows, weight = inputs_of(lens, 6), np.ones((1, 1, 1, WIDTH), np.float32)
    again = rd.Graph.deserialize(chain.graph.serialize()).build(engine=engine)
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
