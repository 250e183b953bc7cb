"""The verification harness: a graph on an engine and on a reference, over the same inputs.

Source: the ragged-tensor document, section 4.11, and the runtime pass-by-value document, section 8,
step 6 (host values of scalars).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import raggeddnn as rd
from raggeddnn import _core
from raggeddnn.tensor import (
    BHSD_SEQ_AXIS,
    RaggedTensor,
    SentinelReport,
    Tensor,
    TensorBase,
)

from .oracle import Array

PreSuppliedInputs = Mapping["rd.TensorAttributes | int", Any]


@dataclass(frozen=True)
class Tolerance:
    """An element may be off by the sum of these: ``absolute``; ``relative`` times the reference's
    element; ``of_row`` times the largest finite element of its row (over the last axis); and its
    entry in ``limits``, a float64 array with one number for each element of the output's memory.
    """

    absolute: float = 0.0
    relative: float = 0.0
    of_row: float = 0.0
    limits: Array | None = None


@dataclass(frozen=True)
class OutputReport:
    """How one output compares. ``overwritten`` counts elements of its memory that no index reaches
    (past the last offset, between strides) and that the engine wrote to all the same.
    """

    uid: int
    name: str
    passed: bool
    comparison: SentinelReport
    overwritten: int
    first_overwritten: int
    overwritten_value: float
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class VerificationReport:
    """One :class:`OutputReport` for each output, and labels of inputs that the engine wrote to."""

    engine: str
    passed: bool
    outputs: list[OutputReport]
    changed_inputs: list[str]
    text: str

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        return self.text


def _uid(key: rd.TensorAttributes | int) -> int:
    return key if isinstance(key, int) else int(key.get_uid())


def _dense(tensor: rd.TensorAttributes, array: Any, *, is_aux: bool) -> TensorBase:
    dims, strides = tensor.get_dim(), tensor.get_stride()
    if is_aux:  # the data SDK's offsets have rank 4
        dims, strides = [*dims, 1, 1, 1][:4], [*strides, 1, 1, 1][:4]
    made = Tensor(dims, strides, tensor.get_data_type())
    made.fill_with_data(array)
    return made


def _ragged(tensor: rd.TensorAttributes, array: Any, aux: TensorBase) -> TensorBase:
    made = RaggedTensor(
        tensor.get_dim(),
        tensor.get_stride(),
        BHSD_SEQ_AXIS,
        aux,
        math.prod(array.shape),
        data_type=tensor.get_data_type(),
        ragged_offset_multiplier=tensor.get_ragged_offset_multiplier(),
    )
    made.fill_with_data(array)
    return made


class IntegrationGraphVerificationHarness:
    """Runs ``graph`` on ``engine`` and on ``reference_engine`` and compares what both wrote.

    ``graph``: a Graph (final from then on) or its bytes. ``pre_supplied_inputs``: inputs with
    deliberate values, by tensor or uid: a :class:`raggeddnn.tensor.TensorBase`, used as it is, or
    an array, copied. An array of a dense tensor's dims gives each index its value; any other is
    the memory as it is (of a ragged tensor: rows one after another, and any past the last offset).
    Every ragged offset must be among them: random values are no offsets. ``scalars``: numbers for
    runtime pass-by-value tensors, by tensor or uid. Other inputs get random values in ``low`` to
    ``high`` from ``seed``; every output the sentinel of its data type. ``guard_elements``: memory
    of each ragged output past its last offset, in elements, where nothing may be written.

    Raises InvalidValueError, naming the tensor, where something is missing or does not fit.
    Source: ragged-tensor document, 4.11.
    """

    def __init__(
        self,
        graph: rd.Graph | bytes,
        pre_supplied_inputs: PreSuppliedInputs | None = None,
        *,
        engine: str,
        reference_engine: str = "reference",
        device: str = "cpu",
        knobs: dict[str, Any] | None = None,
        scalars: Mapping[rd.TensorAttributes | int, Any] | None = None,
        seed: int = 0,
        low: float = -1.0,
        high: float = 1.0,
        guard_elements: int = 0,
    ) -> None:
        data = graph if isinstance(graph, bytes) else graph.serialize()
        supplied = _as_tensors(data, pre_supplied_inputs or {})
        self._core = _core.Harness(
            graph=data,
            supplied={uid: tensor._data for uid, tensor in supplied.items()},
            scalars={_uid(key): value for key, value in (scalars or {}).items()},
            knobs=knobs,
            engine=engine,
            reference_engine=reference_engine,
            device=device,
            seed=seed,
            range=[low, high],
            guard_elements=guard_elements,
        )

    @property
    def output_uids(self) -> list[int]:
        """The uids of the outputs, in the order of the graph's tensors."""
        return self._core.output_uids

    def verify_graph(
        self, tolerances: Mapping[rd.TensorAttributes | int, Tolerance] | None = None
    ) -> VerificationReport:
        """Fill the outputs anew, run both, and compare what the reference wrote.

        ``tolerances`` by output. One without an entry may be off by twice what the reference moves
        by when each real input is moved by one unit in its last place, and 4 * eps of the largest
        element of its row. Raises NotSupportedError with the reason where an engine refuses.
        """
        given: dict[Any, Any] = {
            _uid(key): (t.absolute, t.relative, t.of_row, t.limits)
            for key, t in (tolerances or {}).items()
        }
        found = self._core.verify_graph(given)
        outputs = [
            OutputReport(**{**output, "comparison": SentinelReport(**output["comparison"])})
            for output in found.pop("outputs")
        ]
        return VerificationReport(outputs=outputs, **found)

    def engine_tensor(self, key: rd.TensorAttributes | int) -> TensorBase:
        """The tensor that the engine under test read or wrote, as its last run left it."""
        return _wrapped(self._core.engine_tensor(_uid(key)))

    def reference_tensor(self, key: rd.TensorAttributes | int) -> TensorBase:
        """The one of the reference."""
        return _wrapped(self._core.reference_tensor(_uid(key)))


def _wrapped(data: _core.TensorData) -> TensorBase:
    tensor = TensorBase.__new__(TensorBase)
    tensor._data = data
    return tensor


def _as_tensors(data: bytes, inputs: PreSuppliedInputs) -> dict[int, TensorBase]:
    by_uid = {tensor.get_uid(): tensor for tensor in rd.Graph.deserialize(data).tensors}
    given = {_uid(key): value for key, value in inputs.items()}
    offsets_of = {uid: t.get_ragged_offset() for uid, t in by_uid.items()}
    aux_uids = {aux.get_uid() for aux in offsets_of.values() if aux is not None}
    made: dict[int, TensorBase] = {}

    def tensor_of(uid: int) -> TensorBase | None:
        if uid in made or uid not in given:
            return made.get(uid)
        value, attributes = given[uid], by_uid.get(uid)
        if attributes is None:
            raise rd.InvalidValueError(
                f"[harness] uid {uid} was supplied, but is no tensor of the graph"
            )
        aux = offsets_of[uid]
        if isinstance(value, TensorBase):
            made[uid] = value
        elif aux is None:
            made[uid] = _dense(attributes, value, is_aux=uid in aux_uids)
        else:
            offsets = tensor_of(aux.get_uid())
            if offsets is not None:  # else the check of what is missing names it
                made[uid] = _ragged(attributes, value, offsets)
        return made.get(uid)

    for uid in given:
        tensor_of(uid)
    return made
