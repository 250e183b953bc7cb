"""Elementwise operations in NumPy, and their graphs.

Each oracle computes in the type of its arguments; see :mod:`raggeddnn.testing.op_graphs`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import raggeddnn as rd

from .op_graphs import OpGraph, Ragged
from .oracle import Array

Mode = rd.PointwiseMode


def _erf(x: Array) -> Array:
    found: Array = np.vectorize(math.erf, otypes=[np.float64])(x)
    return found.astype(x.dtype)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _normal(x: Array) -> Array:
    height: Array = np.exp(-x * x / 2) / np.sqrt(2 * np.pi).astype(x.dtype)
    return height


def _gelu_tanh_slope(x: Array) -> Array:
    root = np.sqrt(2 / np.pi).astype(x.dtype)
    cubic = x.dtype.type(0.044715)
    t = np.tanh(root * (x + cubic * x**3))
    slope: Array = (1 + t) / 2 + x / 2 * (1 - t * t) * root * (1 + 3 * cubic * x * x)
    return slope


def _phi(x: Array) -> Array:
    return (1 + _erf(x / np.sqrt(2).astype(x.dtype))) / 2


UNARY: dict[Mode, Callable[[Array], Array]] = {
    Mode.ABS: np.abs,
    Mode.CEIL: np.ceil,
    Mode.ELU_FWD: lambda x: np.where(x > 0, x, np.expm1(x)),
    Mode.ERF: _erf,
    Mode.EXP: np.exp,
    Mode.FLOOR: np.floor,
    Mode.GELU_APPROX_TANH_FWD: lambda x: (
        x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi).astype(x.dtype) * (x + x**3 * 0.044715)))
    ),
    Mode.GELU_FWD: lambda x: x * _phi(x),
    Mode.IDENTITY: lambda x: x,
    Mode.LOG: np.log,
    Mode.LOGICAL_NOT: lambda x: (x == 0).astype(x.dtype),
    Mode.NEG: np.negative,
    Mode.RECIPROCAL: lambda x: 1 / x,
    Mode.RELU_FWD: lambda x: np.maximum(x, 0),
    Mode.RSQRT: lambda x: 1 / np.sqrt(x),
    Mode.SIGMOID_FWD: _sigmoid,
    Mode.SIN: np.sin,
    Mode.SOFTPLUS_FWD: lambda x: np.logaddexp(x, x.dtype.type(0)),
    Mode.SQRT: np.sqrt,
    Mode.SWISH_FWD: lambda x: x * _sigmoid(x),
    Mode.TAN: np.tan,
    Mode.TANH_FWD: np.tanh,
}
BINARY: dict[Mode, Callable[[Array, Array], Array]] = {
    Mode.ADD: np.add,
    Mode.ADD_SQUARE: lambda a, b: a + b * b,
    Mode.CMP_EQ: lambda a, b: (a == b).astype(a.dtype),
    Mode.CMP_GE: lambda a, b: (a >= b).astype(a.dtype),
    Mode.CMP_GT: lambda a, b: (a > b).astype(a.dtype),
    Mode.CMP_LE: lambda a, b: (a <= b).astype(a.dtype),
    Mode.CMP_LT: lambda a, b: (a < b).astype(a.dtype),
    Mode.CMP_NEQ: lambda a, b: (a != b).astype(a.dtype),
    Mode.DIV: np.divide,
    Mode.LOGICAL_AND: lambda a, b: np.logical_and(a, b).astype(a.dtype),
    Mode.LOGICAL_OR: lambda a, b: np.logical_or(a, b).astype(a.dtype),
    Mode.MAX_OP: np.maximum,
    Mode.MIN_OP: np.minimum,
    Mode.MUL: np.multiply,
    Mode.SUB: np.subtract,
    Mode.ELU_BWD: lambda dy, x: dy * np.where(x > 0, 1, np.exp(x)),
    Mode.GELU_APPROX_TANH_BWD: lambda dy, x: dy * _gelu_tanh_slope(x),
    Mode.GELU_BWD: lambda dy, x: dy * (_phi(x) + x * _normal(x)),
    Mode.RELU_BWD: lambda dy, x: dy * (x > 0),
    Mode.SIGMOID_BWD: lambda dy, x: dy * _sigmoid(x) * (1 - _sigmoid(x)),
    Mode.SOFTPLUS_BWD: lambda dy, x: dy * _sigmoid(x),
    Mode.SWISH_BWD: lambda dy, x: dy * _sigmoid(x) * (1 + x * (1 - _sigmoid(x))),
    Mode.TANH_BWD: lambda dy, x: dy * (1 - np.tanh(x) ** 2),
}
POSITIVE = {Mode.LOG, Mode.RSQRT, Mode.SQRT}
"""Modes of one input whose domain is the positive numbers."""


def pointwise_graph(
    mode: rd.PointwiseMode, *arrays: Array | Ragged, out: str | None = None, **options: Any
) -> OpGraph:
    """The graph of one elementwise operation on inputs a, b, c; ``out`` is its data type."""
    names = "abc"[: len(arrays)]
    return OpGraph(
        lambda g, t: {"out": g.pointwise(mode, *(t[n] for n in names), **options)},
        dict(zip(names, arrays, strict=True)),
        {"out": out} if out else {},
    )
