"""Attention on batches of unequal sequences: graphs of ragged tensors, run by plugin engines."""

from __future__ import annotations

import os

from . import diagram, tensor, varlen
from ._core import (
    K_GRAPH_READER_VERSION,
    DataType,
    DiagonalAlignment,
    EngineInfo,
    ExecutionPlan,
    Graph,
    Handle,
    NormFwdPhase,
    PointwiseMode,
    ReductionMode,
    ScalarType,
    TensorAttributes,
    Verdict,
    __version__,
    engines,
)
from ._core import add_plugin_path as _add_plugin_path
from .errors import Error, InvalidValueError, NotSupportedError, PluginError

__all__ = [
    "K_GRAPH_READER_VERSION",
    "DataType",
    "DiagonalAlignment",
    "EngineInfo",
    "Error",
    "ExecutionPlan",
    "Graph",
    "Handle",
    "InvalidValueError",
    "NormFwdPhase",
    "NotSupportedError",
    "PluginError",
    "PointwiseMode",
    "ReductionMode",
    "ScalarType",
    "TensorAttributes",
    "Verdict",
    "__version__",
    "add_plugin_path",
    "diagram",
    "engines",
    "tensor",
    "varlen",
]


def add_plugin_path(path: str | os.PathLike[str]) -> None:
    """Loads engine plugins from a shared library or from every one in a folder.

    Raises InvalidValueError for a path that does not exist, PluginError for a file that cannot be
    loaded. The variable RAGGEDDNN_PLUGIN_PATH (absolute paths, separated by colons) does the same
    at start.
    """
    _add_plugin_path(os.path.abspath(os.fspath(path)))
