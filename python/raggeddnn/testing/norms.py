"""RMS and layer normalization in NumPy, forward and backward, and their graphs.

Each oracle computes in the type of its arguments; see :mod:`raggeddnn.testing.op_graphs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

import raggeddnn as rd

from .op_graphs import OpGraph, Ragged, Tensors, random_array
from .oracle import Array

EPSILON = 0.0078125
TRAINING = rd.NormFwdPhase.TRAINING


def _axes_of(x: Array, scale: Array) -> tuple[int, ...]:
    padded = (1,) * (x.ndim - scale.ndim) + scale.shape
    return tuple(i for i, n in enumerate(padded) if n != 1)


def statistics(x: Array, scale: Array, layer: bool) -> tuple[tuple[int, ...], Array, Array]:
    """The axes normalized over, the mean (0 without ``layer``), and one over the deviation."""
    axes = _axes_of(x, scale)
    mean = np.mean(x, axis=axes, keepdims=True) if layer else np.zeros_like(x[..., :1])
    square = np.mean((x - mean) ** 2, axis=axes, keepdims=True)
    return axes, mean, 1 / np.sqrt(square + x.dtype.type(EPSILON))


def forward_oracle(x: Array, scale: Array, bias: Array, *, layer: bool) -> dict[str, Array]:
    """y, inverse, and with ``layer`` (layer, else RMS normalization) mean."""
    _, mean, inverse = statistics(x, scale, layer)
    result = {"y": (x - mean) * inverse * scale + bias, "inverse": inverse}
    if layer:
        result["mean"] = mean
    return result


def backward_oracle(dy: Array, x: Array, scale: Array, *, layer: bool) -> dict[str, Array]:
    """dx, and dscale and dbias in the shape of ``scale``."""
    axes, mean, inverse = statistics(x, scale, layer)
    others = tuple(i for i in range(x.ndim) if i not in axes)
    n = (x - mean) * inverse
    g = dy * scale
    centre = np.mean(g, axis=axes, keepdims=True) if layer else x.dtype.type(0)
    dx = inverse * (g - centre - n * np.mean(g * n, axis=axes, keepdims=True))
    shape = scale.shape
    return {
        "dx": dx,
        "dscale": np.sum(dy * n, axis=others, keepdims=True).reshape(shape),
        "dbias": np.sum(dy, axis=others, keepdims=True).reshape(shape),
    }


def constant_epsilon(g: rd.Graph) -> rd.TensorAttributes:
    return g.tensor(EPSILON, rd.ScalarType.COMPILE_TIME_CONST)


def forward_graph(
    inputs: Mapping[str, Array | Ragged],
    *,
    layer: bool,
    phase: rd.NormFwdPhase = TRAINING,
    epsilon: Callable[[rd.Graph], rd.TensorAttributes] = constant_epsilon,
) -> OpGraph:
    """Of inputs x, scale, bias: y, and in training inverse, and with ``layer`` mean."""

    def make(g: rd.Graph, t: Tensors) -> Tensors:
        if layer:
            y, mean, inverse = g.layernorm(
                t["x"], t["scale"], t["bias"], t["epsilon"], norm_forward_phase=phase
            )
        else:
            y, inverse = g.rmsnorm(
                t["x"], t["scale"], t["epsilon"], t.get("bias"), norm_forward_phase=phase
            )
            mean = None
        outputs = {"y": y, "mean": mean, "inverse": inverse}
        return {name: tensor for name, tensor in outputs.items() if tensor is not None}

    return OpGraph(make, inputs, scalars={"epsilon": epsilon})


def backward_graph(inputs: Mapping[str, Array | Ragged], *, layer: bool) -> OpGraph:
    """Of inputs dy, x, scale, and the statistics as far as given: dx, dscale, dbias."""

    def make(g: rd.Graph, t: Tensors) -> Tensors:
        results: tuple[rd.TensorAttributes | None, ...]
        if not layer:
            results = g.rmsnorm_backward(t["dy"], t["x"], t["scale"], t["inverse"], has_dbias=True)
        elif "inverse" in t:
            results = g.layernorm_backward(t["dy"], t["x"], t["scale"], t["mean"], t["inverse"])
        else:
            results = g.layernorm_backward(t["dy"], t["x"], t["scale"], epsilon=t["epsilon"])
        named = zip(("dx", "dscale", "dbias"), results, strict=True)
        return {name: tensor for name, tensor in named if tensor is not None}

    scalars = {} if "inverse" in inputs else {"epsilon": constant_epsilon}
    return OpGraph(make, inputs, scalars=scalars)


def inputs_of(x_shape: Sequence[int], scale_shape: Sequence[int], dtype: str) -> dict[str, Array]:
    """Random x, scale and bias; the same on every run."""
    rng = np.random.default_rng(1)
    return {
        "x": random_array(rng, x_shape, dtype),
        "scale": random_array(rng, scale_shape, dtype),
        "bias": random_array(rng, scale_shape, dtype),
    }
