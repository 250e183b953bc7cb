"""The verification harness: a graph on an engine and on a reference, over the same inputs.

Source: the ragged-tensor document, section 4.11, and the runtime pass-by-value document, section 8,
step 6 (host values of scalars).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

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
    (before the first, past the last offset, between strides) and that the engine wrote to all the
    same; ``first_overwritten`` is a position from the first element, negative before it.
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
    """One :class:`OutputReport` for each output, labels of inputs that the engine wrote to, whether
    it left rounding, the handling of subnormals, or traps changed, and how many bytes outside its
    workspace it wrote to. ``faults`` says in a sentence each what is wrong.
    """

    engine: str
    passed: bool
    outputs: list[OutputReport]
    changed_inputs: list[str]
    changed_fp_environment: bool
    overwritten_workspace: int
    faults: list[str]
    text: str

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        return self.text


def _whole(what: str, value: Any, least: int, most: int) -> int:
    """A whole number from ``least`` to ``most``; of any type that counts as one, but bool."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError as error:
        raise rd.InvalidValueError(
            f"[harness] {what} got {value!r}, expected a whole number"
        ) from error
    if not least <= number <= most:
        raise rd.InvalidValueError(f"[harness] {what} got {number}, expected {least} to {most}")
    return number


def _uid(key: Any) -> int:
    if isinstance(key, rd.TensorAttributes):
        return int(key.get_uid())
    return _whole("the key of a tensor", key, -(2**63), 2**63 - 1)


def _graph_bytes(graph: Any) -> bytes:
    if isinstance(graph, rd.Graph):
        return graph.serialize()
    if isinstance(graph, (bytes, bytearray, memoryview)):
        return bytes(graph)
    raise rd.InvalidValueError(
        f"[harness] graph got {type(graph).__name__}, expected a Graph or its bytes"
    )


def _count(array: Any) -> int:
    """How many elements an array, or a sequence of numbers, has."""
    shape = getattr(array, "shape", None)
    try:
        return math.prod(shape) if shape is not None else int(np.size(array))
    except (TypeError, ValueError) as error:
        raise rd.InvalidValueError(
            f"data got {type(array).__name__}, expected an array or numbers"
        ) from error


@contextmanager
def _naming(tensor: rd.TensorAttributes) -> Iterator[None]:
    """Errors of the data SDK, with the tensor that they are about."""
    try:
        yield
    except rd.InvalidValueError as error:
        label = f"tensor {tensor.get_name()!r} (uid {tensor.get_uid()})"
        raise rd.InvalidValueError(f"[harness] {label}: {error}") from error


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
        # The data SDK's offsets lie next to each other.
        aux if aux.is_packed() else np.ascontiguousarray(aux.numpy()),
        _count(array),
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
    after each output, and at least as much before it, in elements, where nothing may be written.

    Threads that use one harness take turns. Raises InvalidValueError, naming the tensor, where
    something is missing, out of range, or does not fit.
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
        self._graph = _graph_bytes(graph)
        self._core = _core.Harness(
            graph=self._graph,
            supplied=_as_tensors(self._graph, pre_supplied_inputs or {}),
            scalars=_by_uid(scalars),
            knobs=knobs,
            engine=engine,
            reference_engine=reference_engine,
            device=device,
            seed=_whole("seed", seed, 0, 2**64 - 1),
            range=[low, high],
            guard_elements=_whole("guard_elements", guard_elements, 0, 2**32),
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
        return self._verify(tolerances, None)

    def verify_concurrently(
        self,
        threads: int,
        tolerances: Mapping[rd.TensorAttributes | int, Tolerance] | None = None,
    ) -> VerificationReport:
        """The same with the engine's plan executed by so many threads at once, each with outputs of
        its own. Of each output the report shows a thread's that is wrong, if there is one.
        """
        return self._verify(tolerances, _whole("threads", threads, 1, 1024))

    def change_inputs(
        self,
        pre_supplied_inputs: PreSuppliedInputs | None = None,
        scalars: Mapping[rd.TensorAttributes | int, Any] | None = None,
    ) -> None:
        """Set up as the constructor does, in other memory, for the same plans: what comes next
        shows whether a plan keeps addresses, offsets or scalars of an execute.
        """
        supplied = _as_tensors(self._graph, pre_supplied_inputs or {})
        self._core.change_inputs(supplied, _by_uid(scalars))

    def _verify(
        self,
        tolerances: Mapping[rd.TensorAttributes | int, Tolerance] | None,
        threads: int | None,
    ) -> VerificationReport:
        given: dict[Any, Any] = {
            uid: (t.absolute, t.relative, t.of_row, t.limits)
            for uid, t in _by_uid(tolerances).items()
        }
        found = self._core.verify(given, threads)
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


def _by_uid(values: Mapping[rd.TensorAttributes | int, Any] | None) -> dict[int, Any]:
    return {_uid(key): value for key, value in (values or {}).items()}


def _as_tensors(data: bytes, inputs: PreSuppliedInputs) -> dict[Any, _core.TensorData]:
    by_uid = {tensor.get_uid(): tensor for tensor in rd.Graph.deserialize(data).tensors}
    given = _by_uid(inputs)
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
            with _naming(attributes):
                made[uid] = _dense(attributes, value, is_aux=uid in aux_uids)
        else:
            offsets = tensor_of(aux.get_uid())
            if offsets is not None:  # else the check of what is missing names it
                with _naming(attributes):
                    made[uid] = _ragged(attributes, value, offsets)
        return made.get(uid)

    for uid in given:
        tensor_of(uid)
    return {uid: tensor._data for uid, tensor in made.items()}
