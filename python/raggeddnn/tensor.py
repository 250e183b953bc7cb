"""Tensors, dense and ragged, in host memory or a GPU's: what a variant pack is filled with, and
tests read.

A ragged tensor says padded dims, ``[B, S, H, D]`` or ``[B, H, S, D]``, but holds each batch's own
rows only, one batch after the other, where ``ragged_offset`` says. Strides, offsets and indices are
in elements; iteration runs in the order of dims (the last axis fastest), and over the rows that a
batch has. All of them export DLPack, a ragged one as its flat memory, so each goes into a variant
pack as it is.

``device="cuda"`` or ``"hip"`` keeps a tensor's memory on the GPU that is current then, by the
runtime of this process; nothing else is needed for it. Fills and reads go through a copy on the
host: what plans and other libraries wrote is fetched for each read, once the streams that the
tensor was given to have done it; what was filled here is sent when the memory is next asked for, by
a variant pack or ``__dlpack__``.

Wrong arguments raise ``raggeddnn.InvalidValueError`` with what was got and what was expected.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from ._core import DataType
from .errors import InvalidValueError

__all__ = [
    "BHSD_SEQ_AXIS",
    "BSHD_SEQ_AXIS",
    "RaggedLayout",
    "RaggedTensor",
    "SentinelReport",
    "ShallowRaggedTensor",
    "ShallowTensor",
    "Tensor",
    "TensorBase",
    "all_close_skip_sentinel",
    "random_ragged_layout",
]

BSHD_SEQ_AXIS = 1
"""The sequence axis of dims ``[B, S, H, D]``."""
BHSD_SEQ_AXIS = 2
"""The sequence axis of dims ``[B, H, S, D]``."""

_DLPACK_CPU = (1, 0)
_DLPACK_CUDA = 2
_NO_SYNCHRONIZATION, _LEGACY_STREAM, _PER_THREAD_STREAM = -1, 1, 2


def _used_on(stream: Any, kind: int) -> int:
    """The stream of ``__dlpack__`` as the core has it: 0 is the default one of either runtime.

    Source: the Python specification of DLPack.
    """
    if stream is None:
        return 0
    if isinstance(stream, bool) or not hasattr(stream, "__index__"):
        raise BufferError(f"stream got {stream!r}, expected None or an integer")
    number = operator.index(stream)
    known = (_LEGACY_STREAM, _PER_THREAD_STREAM) if kind == _DLPACK_CUDA else (0,)
    if number not in (_NO_SYNCHRONIZATION, *known) and number <= _PER_THREAD_STREAM:
        among = ", ".join(map(str, known))
        raise BufferError(f"stream got {number}, expected None, -1, {among}, or an address")
    return 0 if kind == _DLPACK_CUDA and number == _LEGACY_STREAM else number


class TensorBase:
    """What the four tensors share. Made by their constructors only."""

    _data: _core.TensorData
    _ragged_offset: TensorBase | None = None

    def data_type(self) -> DataType:
        """The type of an element."""
        return self._data.data_type()

    def dims(self) -> list[int]:
        """The extents; of a ragged tensor the padded ones."""
        return self._data.dims()

    def device(self) -> str:
        """Where the memory is: ``cpu``, ``cuda`` or ``hip``."""
        return self._data.device()

    def strides(self) -> list[int]:
        """The strides, in elements."""
        return self._data.strides()

    def element_count(self) -> int:
        """How many elements iteration visits: of a ragged tensor the last offset."""
        return self._data.element_count()

    def element_space(self) -> int:
        """How many elements the memory holds, gaps and slack included."""
        return self._data.element_space()

    def is_packed(self) -> bool:
        """Does the memory hold the elements and nothing else? False for every ragged tensor, whose
        memory is not the dense buffer that its dims suggest.
        """
        return self._data.is_packed()

    def has_regular_dims(self) -> bool:
        """Does every index below ``dims()`` exist? False for every ragged tensor."""
        return self._data.has_regular_dims()

    def ragged_offset(self) -> TensorBase | None:
        """The offsets' tensor, the very one given; None for a dense tensor."""
        return self._ragged_offset

    def get_index(self, idx: Sequence[int]) -> int:
        """The offset of an index in memory, in elements; a short index means zeros for the rest.

        Of a ragged tensor it is the batch's offset and the rest of the index by ``strides()``.
        Raises InvalidValueError for an index outside: also beyond the rows of a batch.
        """
        return self._data.get_index(idx)

    def get_host_value(self, idx: Sequence[int]) -> Any:
        """The element at an index, as a Python number or bool."""
        return self._data.get_host_value(idx)

    def set_host_value(self, v: Any, idx: Sequence[int]) -> None:
        """Writes a number, which must be in the range of the data type, at an index."""
        self._data.set_host_value(v, idx)

    def indices(self) -> Iterator[tuple[int, ...]]:
        """Every element's index, ``element_count()`` of them, in the order of dims."""
        return self._data.indices()

    def fill_with_value(self, value: Any) -> None:
        """Writes a number to every element; gaps and slack stay as they are."""
        self._data.fill_with_value(value)

    def fill_with_sentinel_value(self) -> None:
        """Writes to the whole memory a value that computations do not produce: of floating-point
        types a NaN of a payload of its own, of integers a magic number, of booleans true.
        """
        self._data.fill_with_sentinel_value()

    def fill_with_random_values(
        self, low: float | None = None, high: float | None = None, seed: int = 0
    ) -> None:
        """Writes uniform values from ``low`` to below ``high``, of integers up to ``high``.

        The n-th element visited depends on the seed alone, not on strides. Without a range: -1 to
        1, of integers -8 to 8 (unsigned 0 to 8). Raises NotSupportedError for borrowed memory.
        """
        self._data.fill_with_random_values(low, high, seed)

    def fill_with_data(self, data: Any) -> None:
        """Takes over values from an array of this data type, or a sequence of numbers.

        An array of a dense tensor's own dims gives each index its value. Any other is the memory as
        it is, and has ``element_space()`` elements; a ragged tensor also takes
        ``element_count()``. Raises NotSupportedError for borrowed memory.
        """
        if isinstance(data, (list, tuple)):
            like = Tensor([0], None, self.data_type()).numpy()
            try:
                data = np.asarray(data, dtype=like.dtype)
            except (OverflowError, TypeError, ValueError) as error:
                raise InvalidValueError(
                    f"[tensor] data got a sequence, expected numbers of {self.data_type().name} "
                    f"({error})"
                ) from error
        self._data.fill_with_data(data)

    def fill_from_host(self, data: Any) -> None:
        """The same as ``fill_with_data``."""
        self.fill_with_data(data)

    def numpy(self) -> npt.NDArray[Any]:
        """The memory as a NumPy array, of a ragged tensor flat, of ``element_space()`` elements;
        not copied, except from a GPU. BFLOAT16 needs the package ml_dtypes, else NotSupportedError.
        """
        array: npt.NDArray[Any] = self._data.numpy()
        return array

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The memory for other libraries, not copied, shaped as ``numpy()`` has it.

        ``stream``: on a GPU the one that the memory is going to be used on, as DLPack numbers
        them; it sees what was written before. -1: as the memory is.
        """
        device = self.__dlpack_device__()
        if device == _DLPACK_CPU and stream is not None:
            raise BufferError(f"stream got {stream!r}, expected None for host memory")
        if dl_device is not None and tuple(dl_device) != device:
            raise BufferError(f"dl_device got {dl_device!r}, expected {device}, where it is")
        if copy:
            raise BufferError("copy got True, expected None or False: the memory is shared")
        is_versioned = max_version is not None and max_version[0] >= 1
        return self._data.dlpack(is_versioned, _used_on(stream, device[0]))

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's name for where the memory is: (1, 0) the CPU, (2, n) CUDA, (10, n) HIP."""
        kind, index = self._data.dlpack_device()
        return kind, index

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(dims={self.dims()}, strides={self.strides()}, "
            f"data_type={self.data_type().name}, element_count={self.element_count()}"
            f"{'' if self.device() == 'cpu' else f', device={self.device()}'})"
        )


class Tensor(TensorBase):
    """A dense tensor that owns its memory, zeroed. Without strides: row-major, without gaps.

    ``device``: ``cpu``, or ``cuda`` or ``hip``, whichever has its runtime here; else
    InvalidValueError, or NotSupportedError where there is none.
    """

    def __init__(
        self,
        dims: Sequence[int],
        strides: Sequence[int] | None = None,
        data_type: DataType = DataType.FLOAT,
        *,
        device: str = "cpu",
    ) -> None:
        self._data = _core.TensorData.dense(dims, strides, data_type, device)


class ShallowTensor(TensorBase):
    """A dense tensor over the memory of a CPU array, which must hold all that dims and strides
    address; its own shape does not matter. The data type is the array's.

    Only ``fill_with_value`` and ``fill_with_sentinel_value`` fill it.
    """

    def __init__(self, array: Any, dims: Sequence[int], strides: Sequence[int]) -> None:
        self._data = _core.TensorData.shallow(array, dims, strides)


class RaggedTensor(TensorBase):
    """A ragged tensor that owns its memory, zeroed.

    ``padded_dims`` start with the batch; ``seq_axis`` is the axis that varies, the outermost one in
    memory within a batch (``BSHD_SEQ_AXIS``, ``BHSD_SEQ_AXIS``). ``ragged_offset``: a tensor
    ``[B + 1, 1, 1, 1]`` of INT32 or INT64, shared as it is, or an array of the same (rank 1 is seen
    so), or a sequence of numbers. Times the multiplier it counts elements; it starts at 0, never
    decreases, and each batch is whole rows, at most ``padded_dims[seq_axis]`` of them. It is read
    once, here. ``physical_element_count``: what the memory holds, at least the last offset, which
    is the default. ``device``: as of :class:`Tensor`; that of the offsets is their own.
    """

    def __init__(
        self,
        padded_dims: Sequence[int],
        strides: Sequence[int],
        seq_axis: int,
        ragged_offset: Any,
        physical_element_count: int | None = None,
        *,
        data_type: DataType = DataType.FLOAT,
        ragged_offset_multiplier: int = 1,
        device: str = "cpu",
    ) -> None:
        aux = _as_aux(ragged_offset)
        self._ragged_offset = aux
        self._data = _core.TensorData.ragged(
            padded_dims,
            strides,
            seq_axis,
            aux._data,
            physical_element_count,
            data_type,
            ragged_offset_multiplier,
            device,
        )


class ShallowRaggedTensor(TensorBase):
    """A ragged tensor over the memory of a CPU array, of at least ``physical_element_count``
    elements; its own shape does not matter. The data type is the array's. Otherwise as
    ``RaggedTensor``.

    Only ``fill_with_value`` and ``fill_with_sentinel_value`` fill it.
    """

    def __init__(
        self,
        array: Any,
        padded_dims: Sequence[int],
        strides: Sequence[int],
        seq_axis: int,
        ragged_offset: Any,
        physical_element_count: int | None = None,
        *,
        ragged_offset_multiplier: int = 1,
    ) -> None:
        aux = _as_aux(ragged_offset)
        self._ragged_offset = aux
        self._data = _core.TensorData.shallow_ragged(
            array,
            padded_dims,
            strides,
            seq_axis,
            aux._data,
            physical_element_count,
            ragged_offset_multiplier,
        )


def _as_aux(ragged_offset: Any) -> TensorBase:
    if isinstance(ragged_offset, TensorBase):
        return ragged_offset
    if isinstance(ragged_offset, (list, tuple)):
        made = Tensor([len(ragged_offset), 1, 1, 1], None, DataType.INT64)
        made.fill_with_data(ragged_offset)
        return made
    if ragged_offset is None:
        raise InvalidValueError(
            "[ragged tensor] ragged_offset got None, expected a tensor of B + 1 offsets"
        )
    view = ShallowTensor.__new__(ShallowTensor)
    view._data = _core.TensorData.aux(ragged_offset)
    return view


@dataclass(frozen=True)
class SentinelReport:
    """How a comparison went; the worst element exceeds its limit the most, or is nearest to it."""

    passed: bool
    compared: int
    skipped: int
    genuine_sentinels: int
    mismatched: int
    worst_index: tuple[int, ...]
    worst_reference: float
    worst_other: float
    worst_error: float
    worst_limit: float
    text: str

    def __bool__(self) -> bool:
        return self.passed


def all_close_skip_sentinel(
    reference: TensorBase,
    other: TensorBase,
    *,
    absolute: float = 0.0,
    relative: float = 0.0,
    seq_axis: int | None = None,
) -> SentinelReport:
    """Compares what a reference wrote over the sentinels, within ``absolute + relative * |ref|``.

    Along the sequence axis (a ragged tensor's own, ``seq_axis`` of a padded one) only the block of
    whole sentinel rows at the end of a batch is skipped: a sentinel before it is a result.
    """
    found = _core.compare_skip_sentinel(reference._data, other._data, absolute, relative, seq_axis)
    return SentinelReport(**found)


@dataclass(frozen=True)
class RaggedLayout:
    """Lengths of a batch, in rows: the valid ones, where batches start, and the buffer's."""

    seq_lens: list[int]
    row_offsets: list[int]
    physical_rows: int


def random_ragged_layout(
    seed: int, batches: int, max_rows: int, kind: str = "uniform"
) -> RaggedLayout:
    """A plausible layout, the same for the same arguments.

    ``kind``: "uniform" (lengths from 0 to ``max_rows``), "zeros" (about every second batch empty),
    "one_long" (one full batch among short ones), "full", or "slack" (padding rows after a batch's
    valid ones, and after the last batch).
    """
    return RaggedLayout(*_core.random_ragged_layout(seed, batches, max_rows, kind))
