"""Graphs for tests of the verification harness: ragged attention, and batchnorm with scalars."""

from __future__ import annotations

import numpy as np
import raggeddnn as rd
from raggeddnn.testing import IntegrationGraphVerificationHarness

HEADS, WIDTH, CAPACITY = 2, 8, 9
LENS = (5, 0, 9)
ROW = HEADS * WIDTH
OFFSETS = np.array([0, 5, 5, 14], np.int32) * ROW


class Attention:
    """Ragged attention whose three offsets are one tensor; o may be given a name for providers."""

    def __init__(self, name="attention", *, lengths=False, scale=0.25):
        g = rd.Graph(name=name, io_data_type=rd.DataType.FLOAT)
        self.graph = g
        batches = len(LENS)
        self.aux = g.tensor(name="off", dim=[batches + 1, 1, 1, 1], data_type=rd.DataType.INT32)
        dim = [batches, HEADS, CAPACITY, WIDTH]
        self.q, self.k, self.v = (
            g.tensor(name=name, dim=dim, ragged_offset=self.aux) for name in ("q", "k", "v")
        )
        self.lengths = None
        if lengths:
            dim = [batches, 1, 1, 1]
            self.lengths = g.tensor(name="lengths", dim=dim, data_type=rd.DataType.INT32)
        self.o, _ = g.sdpa(
            self.q,
            self.k,
            self.v,
            attn_scale=scale,
            seq_len_q=self.lengths,
            seq_len_kv=self.lengths,
        )
        self.o.set_name("o").set_output(True).set_ragged_offset(self.aux)

    def harness(self, inputs=None, **options):
        supplied = {self.aux: OFFSETS} if inputs is None else inputs
        return IntegrationGraphVerificationHarness(
            self.graph, supplied, **{"engine": "reference", **options}
        )


def batchnorm(epsilon, momentum):
    """x [4, 3, 2, 2] with running statistics; scalars by uid."""
    g = rd.Graph(io_data_type=rd.DataType.FLOAT, compute_data_type=rd.DataType.FLOAT)
    per_channel = [1, 3, 1, 1]
    x = g.tensor(name="x", dim=[4, 3, 2, 2])
    scale, bias, mean, var = (
        g.tensor(name=name, dim=per_channel) for name in ("scale", "bias", "mean", "var")
    )
    y, _, _, next_mean, next_var = g.batchnorm(
        x,
        scale,
        bias,
        epsilon=g.tensor(epsilon),
        in_running_mean=mean,
        in_running_var=var,
        momentum=g.tensor(momentum),
    )
    for tensor in (y, next_mean, next_var):
        tensor.set_output(True)
    return g, x, y


def runtime_scalar(name):
    scalar = rd.TensorAttributes().set_name(name).set_dim([1]).set_stride([1])
    return scalar.set_data_type(rd.DataType.FLOAT).set_as_runtime_parameter()


def normalized(harness, x, y, epsilon):
    values = harness.engine_tensor(x).numpy().astype(np.float64)
    mean = values.mean(axis=(0, 2, 3), keepdims=True)
    variance = values.var(axis=(0, 2, 3), keepdims=True)
    scale, bias = (harness.engine_tensor(uid).numpy() for uid in y)
    return (values - mean) / np.sqrt(variance + epsilon) * scale + bias
