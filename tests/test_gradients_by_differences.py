"""An engine's gradients against finite differences of its own forward pass, in double."""

from __future__ import annotations

import numpy as np
import pytest
import raggeddnn as rd
from raggeddnn.testing.checks import is_reference
from raggeddnn.testing.gradients import finite_differences

B, ROWS, COLS, D, D_V = 2, 4, 5, 3, 2
LENS = {"seq_len_q": np.array([4, 3], np.int32), "seq_len_kv": np.array([3, 5], np.int32)}
BOTTOM_RIGHT = {"diagonal_alignment": rd.DiagonalAlignment.BOTTOM_RIGHT}
VARIANTS = {
    "plain": {},
    "lengths": {"lengths": True},
    "scale": {"options": {"attn_scale": -1.5}},
    "gqa": {"heads": (4, 2, 1)},
    "causal": {"options": {"causal_mask": True}},
    "causal-br": {"options": {"causal_mask": True, **BOTTOM_RIGHT}, "lengths": True},
    "window": {"options": {"left_bound": 1, "right_bound": 0}},
    "window-br": {"options": {"left_bound": 0, "right_bound": 1, **BOTTOM_RIGHT}, "lengths": True},
    "bias": {"bias": (B, 2, ROWS, COLS), "lengths": True},
    "bias-11qk": {"bias": (1, 1, ROWS, COLS), "lengths": True},
    "bias-1h1k": {"bias": (1, 2, 1, COLS)},
    "bias-b111": {"bias": (B, 1, 1, 1)},
    "bias-of-rank-2": {"bias": (ROWS, COLS)},
    "dstats": {"dstats": True},
    "dropout": {"dropout": 0.4},
    "everything": {
        "heads": (4, 2, 1),
        "options": {"attn_scale": 0.7, "causal_mask": True, "left_bound": 2, **BOTTOM_RIGHT},
        "bias": (1, 4, 1, COLS),
        "dstats": True,
        "dropout": 0.3,
        "lengths": True,
    },
}


class Layer:
    """Both passes of one variant, as two graphs with the same options."""

    def __init__(self, variant, engine):
        heads = variant.get("heads", (2, 2, 2))
        rng = np.random.default_rng(5)
        shapes = {
            "q": (B, heads[0], ROWS, D),
            "k": (B, heads[1], COLS, D),
            "v": (B, heads[2], COLS, D_V),
        }
        if "bias" in variant:
            shapes["bias"] = variant["bias"]
        self.inputs = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
        self.o = np.zeros((B, heads[0], ROWS, D_V))
        self.stats = np.zeros((B, heads[0], ROWS, 1))
        self.do = rng.standard_normal(self.o.shape)
        self.dstats = rng.standard_normal(self.stats.shape) if variant.get("dstats") else None
        self.valid = np.ones((B, 1, ROWS, 1), bool)
        if variant.get("lengths"):
            self.valid[:] = (np.arange(ROWS) < LENS["seq_len_q"][:, None])[:, None, :, None]
        self.variant = variant
        self.forward = self._forward(engine)
        self.backward = self._backward(engine)

    def _graph(self):
        double = rd.DataType.DOUBLE
        graph = rd.Graph(
            io_data_type=double, intermediate_data_type=double, compute_data_type=double
        )
        pack, options = {}, dict(self.variant.get("options", {}))
        tensors = {}
        for name, array in self.inputs.items():
            tensors[name] = graph.tensor(name=name, dim=list(array.shape))
            pack[tensors[name]] = array
        for name, lens in LENS.items() if self.variant.get("lengths") else ():
            options[name] = graph.tensor(name=name, dim=[B, 1, 1, 1], data_type=rd.DataType.INT32)
            pack[options[name]] = lens
        if "dropout" in self.variant:
            options["dropout_probability"] = self.variant["dropout"]
            for name, value in (("seed", 1234567890123), ("offset", 7)):
                options[name] = graph.tensor(name=name, dim=[1], data_type=rd.DataType.INT64)
                pack[options[name]] = np.array([value])
        return graph, tensors, pack, {**options, "bias": tensors.get("bias")}

    def _forward(self, engine):
        graph, t, pack, options = self._graph()
        o, stats = graph.sdpa(t["q"], t["k"], t["v"], generate_stats=True, **options)
        o.set_output(True)
        stats.set_output(True).set_data_type(rd.DataType.DOUBLE)
        pack.update({o: self.o, stats: self.stats})
        plan = graph.build(engine=engine)
        return lambda: plan.execute(pack)

    def _backward(self, engine):
        graph, t, pack, options = self._graph()
        for name in ("o", "do", "stats", "dstats"):
            array = getattr(self, name)
            if array is not None:
                t[name] = graph.tensor(name=name, dim=list(array.shape))
                pack[t[name]] = array
        results = graph.sdpa_backward(
            *(t[name] for name in ("q", "k", "v", "o", "do", "stats")),
            dstats=t.get("dstats"),
            generate_dbias="bias" in t,
            **options,
        )
        plan_inputs = list(self.inputs.values())
        gradients = [np.zeros_like(x) for x in plan_inputs]
        for tensor, array in zip(results, gradients, strict=True):
            pack[tensor.set_output(True)] = array
        plan = graph.build(engine=engine)

        def run():
            plan.execute(pack)
            return gradients

        return run

    def loss(self, *_inputs):
        self.forward()
        total = (self.o * self.do)[np.broadcast_to(self.valid, self.o.shape)].sum()
        if self.dstats is None:
            return total
        counts = self.valid & np.isfinite(self.stats)
        return total + (self.stats * self.dstats)[counts].sum()


@pytest.mark.parametrize("name", VARIANTS)
def test_gradients_are_slopes(engine, name):
    try:
        layer = Layer(VARIANTS[name], engine)
    except rd.NotSupportedError as refusal:
        if is_reference(engine):
            raise
        pytest.skip(str(refusal))
    slopes = finite_differences(layer.loss, tuple(layer.inputs.values()))
    layer.forward()
    for label, got, expected in zip(layer.inputs, layer.backward(), slopes, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-8, err_msg=f"d{label}")
