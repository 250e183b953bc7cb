"""One plan for any batch and sequence size: graphs with overridable shapes."""

from __future__ import annotations

import numpy as np
import pytest
import raggeddnn as rd
from engine_builds import build_or_skip
from raggeddnn.testing import SdpaOptions, sdpa_oracle

HEADS, DIM = 2, 4


def build(engine: str, *, enabled: bool = True, ragged: bool = False) -> rd.ExecutionPlan:
    graph = rd.Graph("overridable", io_data_type=rd.DataType.DOUBLE)
    graph.set_override_shape_enabled(enabled)
    more = {}
    if ragged:
        aux = graph.tensor(name="offsets", dim=[2, 1, 1, 1], data_type=rd.DataType.INT64, uid=5)
        more = {"ragged_offset": aux, "ragged_offset_multiplier": HEADS * DIM}
    q, k, v = (
        graph.tensor(name=name, dim=[1, HEADS, 3, DIM], uid=uid, **more)
        for name, uid in (("q", 1), ("k", 2), ("v", 3))
    )
    o, _ = graph.sdpa(q, k, v, attn_scale=0.5)
    o.set_output(True).set_uid(4).set_name("o")
    if ragged:
        o.set_ragged_offset(aux).set_ragged_offset_multiplier(HEADS * DIM)
    return build_or_skip(graph, engine)


def oracle(x: np.ndarray) -> np.ndarray:
    return sdpa_oracle(x, x, x, SdpaOptions(scale=0.5))[0]


@pytest.mark.parametrize("batch, rows", [(1, 3), (3, 1), (2, 7), (5, 16), (0, 4), (2, 0)])
def test_a_dense_plan_serves_any_size(engine, batch, rows):
    plan = build(engine)
    x = np.random.default_rng(rows).standard_normal((batch, HEADS, rows, DIM))
    o = np.full_like(x, np.nan)
    shape = [batch, HEADS, rows, DIM]
    strides = [HEADS * rows * DIM, rows * DIM, DIM, 1]
    plan.execute({1: x, 2: x, 3: x, 4: o}, overrides=dict.fromkeys((1, 2, 3, 4), (shape, strides)))
    for b in range(batch):
        np.testing.assert_allclose(o[b], oracle(x[b]), rtol=1e-13, atol=1e-14)


def test_a_ragged_plan_serves_any_number_of_sequences(engine):
    plan = build(engine, ragged=True)
    for lengths in ([3], [5, 0, 2], [1] * 9):
        batch, rows = len(lengths), max(lengths)
        x = np.random.default_rng(batch).standard_normal((sum(lengths), HEADS, DIM))
        offsets = np.cumsum([0, *lengths])
        o = np.full_like(x, np.nan)
        shape = [batch, HEADS, rows, DIM]
        strides = [HEADS * rows * DIM, DIM, HEADS * DIM, 1]
        overrides = dict.fromkeys((1, 2, 3, 4), (shape, strides))
        overrides[5] = ([batch + 1, 1, 1, 1], [1, 1, 1, 1])
        plan.execute({1: x, 2: x, 3: x, 4: o, 5: offsets}, overrides=overrides)
        for b in range(batch):
            part = slice(offsets[b], offsets[b + 1])
            expected = oracle(x[part].swapaxes(0, 1)).swapaxes(0, 1)
            np.testing.assert_allclose(o[part], expected, rtol=1e-13, atol=1e-14)


def test_without_overrides_the_graph_s_own_shapes_hold(engine):
    x = np.random.default_rng(0).standard_normal((1, HEADS, 3, DIM))
    o = np.full_like(x, np.nan)
    build(engine).execute({1: x, 2: x, 3: x, 4: o})
    np.testing.assert_allclose(o[0], oracle(x[0]), rtol=1e-13, atol=1e-14)


SHAPE, STRIDES = [1, HEADS, 3, DIM], [HEADS * 3 * DIM, 3 * DIM, DIM, 1]


@pytest.mark.parametrize(
    "overrides, words",
    [
        ({1: ([0, HEADS, 3, DIM], STRIDES)}, "batch"),
        ({77: (SHAPE, STRIDES)}, "uid 77 is no tensor of the graph"),
        ({1: (SHAPE[:3], STRIDES[:3])}, "has 3 dims and 3 strides, expected 4"),
        ({1: (SHAPE, STRIDES[:3])}, "4 dims and 3 strides"),
        (dict.fromkeys((1, 2, 3, 4), ([1, HEADS, 99, DIM], STRIDES)), "'q'.*expected at least"),
        ({1: ([-1, HEADS, 3, DIM], STRIDES)}, "-1"),
        ({1: ([2**62, HEADS, 2**62, DIM], STRIDES)}, "'q'"),
    ],
    ids=["disagree", "unknown", "rank", "counts", "too small", "negative", "overflow"],
)
def test_wrong_overrides_are_refused_before_any_write(engine, overrides, words):
    plan = build(engine)
    x = np.zeros((1, HEADS, 3, DIM))
    o = np.full_like(x, 7.0)
    with pytest.raises(rd.InvalidValueError, match=words):
        plan.execute({1: x, 2: x, 3: x, 4: o}, overrides=overrides)
    assert (o == 7.0).all()


def test_overrides_need_a_graph_that_enables_them(engine):
    plan = build(engine, enabled=False)
    x = np.zeros((1, HEADS, 3, DIM))
    with pytest.raises(rd.InvalidValueError, match="does not enable overridable shapes"):
        plan.execute({1: x, 2: x, 3: x, 4: np.empty_like(x)}, overrides={1: (SHAPE, STRIDES)})
