"""Dropout: the same bits from every form of seed and offset, in both passes."""

from __future__ import annotations

import numpy as np
import pytest
import raggeddnn as rd
from raggeddnn.testing import sdpa_oracle
from raggeddnn.testing.checks import assert_same_bits, is_reference
from raggeddnn.testing.philox import dropout_factors

B, H, ROWS, COLS, D = 2, 2, 6, 7, 4
DATA = [
    np.random.default_rng(n).standard_normal((B, H, rows, D)).astype(np.float32)
    for n, rows in enumerate((ROWS, COLS, COLS))
]
SEED, OFFSET = 2**31 - 5, 3


def constant(graph, name, value, kind):
    """A scalar of one of the forms that a seed may have, and its pack entry."""
    form, data_type = kind
    dtype = np.int32 if data_type == rd.DataType.INT32 else np.int64
    if form == "tensor":
        tensor = graph.tensor(name=name, dim=[1, 1, 1, 1], data_type=data_type)
    elif form == "runtime":
        scalar = rd.TensorAttributes().set_name(name).set_data_type(data_type)
        scalar.set_dim([1]).set_stride([1]).set_as_runtime_parameter()
        tensor = graph.tensor(scalar)
    else:
        states = {"default": "RUNTIME_PARAM", "baked": "COMPILE_TIME_CONST"}
        tensor = graph.tensor(dtype(value), getattr(rd.ScalarType, states[form]))
        tensor.set_name(name)
        assert tensor.get_data_type() == data_type
    return tensor, {} if form in ("default", "baked") else {tensor: np.array([value], dtype)}


def run(engine, probability=0.4, seed=SEED, offset=OFFSET, kind=("runtime", rd.DataType.INT64)):
    graph = rd.Graph(io_data_type=rd.DataType.FLOAT)
    tensors = [
        graph.tensor(name=name, dim=list(x.shape)) for name, x in zip("qkv", DATA, strict=True)
    ]
    pack = dict(zip(tensors, DATA, strict=True))
    options = {}
    if probability is not None:
        options["dropout_probability"] = probability
        for name, value in (("seed", seed), ("offset", offset)):
            options[name], entry = constant(graph, name, value, kind)
            pack.update(entry)
    o, stats = graph.sdpa(*tensors, generate_stats=True, **options)
    got_o, got_stats = np.full((B, H, ROWS, D), np.nan, np.float32), None
    got_stats = np.full((B, H, ROWS, 1), np.nan, np.float32)
    pack.update({o.set_output(True): got_o, stats.set_output(True): got_stats})
    try:
        plan = graph.build(engine=engine)
    except rd.NotSupportedError as refusal:
        if is_reference(engine):
            raise
        pytest.skip(str(refusal))
    plan.execute(pack)
    return got_o, got_stats


FORMS = ["runtime", "default", "baked", "tensor"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("data_type", [rd.DataType.INT32, rd.DataType.INT64])
def test_every_form_of_the_seed_draws_the_same(engine, form, data_type):
    got, stats = run(engine, kind=(form, data_type))
    for batch in range(B):
        factors = dropout_factors(0.4, SEED, OFFSET, batch, (H, ROWS, COLS))
        expected, lse = sdpa_oracle(*(x[batch] for x in DATA), dropout=factors)
        np.testing.assert_allclose(got[batch], expected, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(stats[batch, :, :, 0], lse, rtol=1e-6)


@pytest.mark.parametrize("seed", [-1, 0, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("form", FORMS)
def test_all_64_bits_of_a_seed_count(engine, seed, form):
    got, _ = run(engine, seed=seed, offset=-2, kind=(form, rd.DataType.INT64))
    factors = dropout_factors(0.4, seed, -2, 1, (H, ROWS, COLS))
    expected, _ = sdpa_oracle(*(x[1] for x in DATA), dropout=factors)
    np.testing.assert_allclose(got[1], expected, rtol=1e-6, atol=1e-6)


def test_seeds_and_offsets_draw_differently(engine):
    first = run(engine)[0]
    assert_same_bits(run(engine)[0], first, "again")
    assert (run(engine, seed=SEED + 1)[0] != first).any()
    assert (run(engine, offset=OFFSET + 1)[0] != first).any()


def test_nothing_is_dropped_at_probability_0(engine):
    for got, expected in zip(run(engine, 0.0), run(engine, None), strict=True):
        assert_same_bits(got, expected, "probability 0")


@pytest.mark.parametrize("probability", [-0.1, 1.0, 1.5, float("nan")])
def test_probabilities_out_of_range_are_refused(engine, probability):
    with pytest.raises(rd.InvalidValueError, match=r"dropout_probability is .*less than 1"):
        run(engine, probability)


def test_a_seed_without_a_probability_is_refused_by_name():
    graph = rd.Graph(io_data_type=rd.DataType.FLOAT)
    tensors = [graph.tensor(name=name, dim=[1, 1, 2, 4]) for name in "qkv"]
    seed = graph.tensor(1, rd.ScalarType.COMPILE_TIME_CONST)
    graph.sdpa(*tensors, seed=seed)[0].set_output(True)
    with pytest.raises(rd.NotSupportedError, match="seed is set"):
        graph.build(engine="reference")


def test_seeds_of_other_types_and_shapes_are_refused():
    for changes in ({"data_type": rd.DataType.FLOAT}, {"dim": [2]}):
        graph = rd.Graph(io_data_type=rd.DataType.FLOAT)
        tensors = [graph.tensor(name=name, dim=[1, 1, 2, 4]) for name in "qkv"]
        settings = {"data_type": rd.DataType.INT64, "dim": [1], **changes}
        seed = graph.tensor(name="the seed", **settings)
        offset = graph.tensor(name="offset", dim=[1], data_type=rd.DataType.INT64)
        o, _ = graph.sdpa(*tensors, dropout_probability=0.5, seed=seed, offset=offset)
        o.set_output(True)
        with pytest.raises(rd.InvalidValueError, match="seed 'the seed' has"):
            graph.validate()
