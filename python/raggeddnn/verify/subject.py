"""What is verified: a graph, all that goes in, and what should come out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import raggeddnn as rd

from ..testing.oracle import Array
from ..testing.tolerance import Expected

Key = rd.TensorAttributes | int  # how the harness takes tensors


@dataclass
class Call:
    """All that goes into one execute, and what should come out.

    ``inputs`` are arrays for every input in memory, ragged offsets among them, ``scalars`` numbers
    for runtime pass-by-value tensors. ``expected`` holds the oracle's result of each output and the
    error allowed, as the output's memory has them: one-dimensional, in the order of memory. So does
    ``marks`` a number for each element: where two calls of a subject have the same one, the bits
    are the same. NaN: no such claim.
    """

    inputs: dict[Key, Array]
    expected: dict[rd.TensorAttributes, Expected]
    scalars: dict[Key, Any] = field(default_factory=dict)
    marks: dict[rd.TensorAttributes, Array] = field(default_factory=dict)


@dataclass
class Subject:
    """A graph ready to be judged, and the calls for its plan: each in memory of its own."""

    graph: rd.Graph
    calls: list[Call]


@dataclass(frozen=True)
class VerifyCase:
    """A named subject, made when its turn comes. ``about`` says in one line what it checks."""

    name: str
    about: str
    subject: Callable[[], Subject]


def split_pack(
    pack: dict[rd.TensorAttributes, Any],
) -> tuple[dict[Key, Array], dict[Key, Any]]:
    """The inputs in memory and the runtime scalars of a variant pack without outputs."""
    inputs: dict[Key, Array] = {}
    scalars: dict[Key, Any] = {}
    for tensor, value in pack.items():
        target = scalars if tensor.get_is_runtime_pass_by_value() else inputs
        target[tensor] = value
    return inputs, scalars


def in_memory(expected: Expected, to_memory: Callable[[Array], Array]) -> Expected:
    """``expected`` in the order of memory; ``to_memory`` lays one of its arrays out."""
    return Expected(
        np.ravel(to_memory(expected.values)),
        np.ravel(to_memory(expected.bounds)),
    )
