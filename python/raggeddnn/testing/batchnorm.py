"""Batch normalization in NumPy, training, inference and backward, and its graphs.

Each oracle computes in the type of its arguments; see :mod:`raggeddnn.testing.op_graphs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

import raggeddnn as rd

from .op_graphs import OpGraph, Oracle, Ragged, Tensors, random_array
from .oracle import Array

EPSILON, MOMENTUM = 0.0078125, 0.125
Scalar = Callable[[rd.Graph], rd.TensorAttributes]


def constant(value: float) -> Scalar:
    """A compile-time constant, for a graph yet to come."""
    return lambda g: g.tensor(value, rd.ScalarType.COMPILE_TIME_CONST)


def _per_channel(x: Array) -> tuple[int, ...]:
    return tuple(i for i in range(x.ndim) if i != 1)


def training_oracle(
    x: Array,
    scale: Array,
    bias: Array,
    running_mean: Array | None = None,
    running_var: Array | None = None,
) -> dict[str, Array]:
    """y, mean, inverse, and with running statistics next_mean and next_var."""
    axes = _per_channel(x)
    mean = np.mean(x, axis=axes, keepdims=True)
    variance = np.mean((x - mean) ** 2, axis=axes, keepdims=True)
    inverse = 1 / np.sqrt(variance + x.dtype.type(EPSILON))
    result = {"y": (x - mean) * inverse * scale + bias, "mean": mean, "inverse": inverse}
    if running_mean is not None and running_var is not None:
        n = x.size // x.shape[1]
        m = x.dtype.type(MOMENTUM)
        unbiased = variance * x.dtype.type(n / max(n - 1, 1))
        result["next_mean"] = (1 - m) * running_mean + m * mean
        result["next_var"] = (1 - m) * running_var + m * unbiased
    return result


def training_graph(
    inputs: Mapping[str, Array | Ragged],
    epsilon: Scalar | None = None,
    momentum: Scalar | None = None,
) -> OpGraph:
    """Of x, scale, bias, and running_mean and running_var or neither; results as the oracle's."""

    def make(g: rd.Graph, t: Tensors) -> Tensors:
        running = "running_mean" in t
        results = g.batchnorm(
            t["x"],
            t["scale"],
            t["bias"],
            t.get("running_mean"),
            t.get("running_var"),
            t["epsilon"],
            t["momentum"] if running else None,
        )
        names = ("y", "mean", "inverse", "next_mean", "next_var")
        found = dict(zip(names, results, strict=True))
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    scalars = {"epsilon": epsilon or constant(EPSILON)}
    if "running_mean" in inputs:
        scalars["momentum"] = momentum or constant(MOMENTUM)
    return OpGraph(make, inputs, scalars=scalars)


def inputs_of(shape: Sequence[int], dtype: str, running: bool = True) -> dict[str, Array]:
    """Random x, scale, bias and running statistics; the same on every run."""
    rng = np.random.default_rng(1)
    channels = tuple(n if i == 1 else 1 for i, n in enumerate(shape))
    inputs = {
        "x": random_array(rng, shape, dtype),
        "scale": random_array(rng, channels, dtype),
        "bias": random_array(rng, channels, dtype),
    }
    if running:
        inputs["running_mean"] = random_array(rng, channels, dtype)
        inputs["running_var"] = np.abs(random_array(rng, channels, dtype))
    return inputs


def inference_oracle(form: str) -> Oracle:
    """y; running_var holds the variance, or with ``form`` "inverse" one over the deviation."""

    def oracle(
        x: Array, scale: Array, bias: Array, running_mean: Array, running_var: Array
    ) -> dict[str, Array]:
        inverse = running_var
        if form == "variance":
            inverse = 1 / np.sqrt(running_var + x.dtype.type(EPSILON))
        return {"y": (x - running_mean) * inverse * scale + bias}

    return oracle


def inference_graph(inputs: Mapping[str, Array | Ragged], form: str) -> OpGraph:
    """y of x, scale, bias, running_mean, running_var; ``form`` as for the oracle."""

    def make(g: rd.Graph, t: Tensors) -> Tensors:
        common = (t["scale"], t["bias"])
        x, mean, deviation = t["x"], t["running_mean"], t["running_var"]
        if form == "inverse":
            return {"y": g.batchnorm_inference(x, mean, deviation, *common)}
        return {"y": g.batchnorm_inference_variance_ext(x, mean, deviation, *common, t["epsilon"])}

    scalars = {"epsilon": constant(EPSILON)} if form == "variance" else {}
    return OpGraph(make, inputs, scalars=scalars)


def backward_oracle(dy: Array, x: Array, scale: Array) -> dict[str, Array]:
    """dx, dscale, dbias."""
    axes = _per_channel(x)
    trained = training_oracle(x, scale, scale)
    n = (x - trained["mean"]) * trained["inverse"]
    dbias = np.sum(dy, axis=axes, keepdims=True)
    dscale = np.sum(dy * n, axis=axes, keepdims=True)
    count = x.dtype.type(x.size // x.shape[1])
    dx = scale * trained["inverse"] * (dy - dbias / count - n * dscale / count)
    return {"dx": dx, "dscale": dscale, "dbias": dbias}


def backward_graph(inputs: Mapping[str, Array | Ragged]) -> OpGraph:
    """Of dy, x, scale, mean, inverse: dx, dscale, dbias."""

    def make(g: rd.Graph, t: Tensors) -> Tensors:
        names = ("dx", "dscale", "dbias")
        results = g.batchnorm_backward(t["dy"], t["x"], t["scale"], t["mean"], t["inverse"])
        return dict(zip(names, results, strict=True))

    return OpGraph(make, inputs)
