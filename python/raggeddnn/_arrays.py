"""Arrays of any CPU library seen alike: address, shape, element strides, data type.

NumPy arrays are used as they are, torch CPU tensors through their own methods (torch itself is
never imported here), everything else through DLPack. Nothing is copied unless a caller asks for it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import raggeddnn as rd

Array = npt.NDArray[Any]

_DATA_TYPES = {
    "float16": "HALF",
    "bfloat16": "BFLOAT16",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "int32": "INT32",
    "int64": "INT64",
}


def data_type_of(dtype_name: str) -> rd.DataType | None:
    """The graph's data type for a name like ``float32``; None for types attention does not take."""
    found = _DATA_TYPES.get(dtype_name)
    return None if found is None else getattr(rd.DataType, found)


def is_torch(x: object) -> bool:
    """Is this a torch tensor? Answered without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


@dataclass(frozen=True)
class Operand:
    """One CPU array: what goes into a variant pack, and its facts. Strides in elements."""

    name: str
    array: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype_name: str
    address: int

    @property
    def alignment(self) -> int:
        """The largest power of two up to 16 that divides the address, in bytes."""
        return 16 if self.address == 0 else min(16, self.address & -self.address)

    def contiguous(self) -> Operand:
        """The same values in C order, copied if need be."""
        if is_torch(self.array):
            return as_operand(self.name, self.array.contiguous())
        return as_operand(self.name, np.ascontiguousarray(self.array))

    def new(self, shape: tuple[int, ...], dtype_name: str | None = None) -> Any:
        """An uninitialised array of the same library; ``dtype_name`` None keeps the data type."""
        if is_torch(self.array):
            torch = sys.modules["torch"]
            dtype = self.array.dtype if dtype_name is None else getattr(torch, dtype_name)
            return self.array.new_empty(shape, dtype=dtype)
        return np.empty(shape, dtype=self.array.dtype if dtype_name is None else dtype_name)


def _from_torch(name: str, x: Any) -> Operand:
    if x.device.type != "cpu":
        raise rd.InvalidValueError(
            f"{name} is on device {x.device}, expected cpu (raggeddnn.torch takes device tensors)"
        )
    x = x.detach()
    return Operand(
        name,
        x,
        tuple(x.shape),
        tuple(x.stride()),
        str(x.dtype).removeprefix("torch."),
        int(x.data_ptr()),
    )


def to_numpy(name: str, x: Any) -> Array:
    """A NumPy view of any CPU array, or a NumPy array of a sequence of numbers.

    Raises ``rd.InvalidValueError`` naming the argument when no view can be had.
    """
    if isinstance(x, np.ndarray):
        return x
    try:
        if is_torch(x):
            view: Array = _from_torch(name, x).array.numpy()
            return view
        if hasattr(x, "__dlpack__"):
            try:
                return np.from_dlpack(x)
            except (BufferError, RuntimeError, TypeError):
                pass  # a data type or flag that NumPy's DLPack refuses: try the array protocol
        return np.asarray(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, rd.Error):
            raise
        raise rd.InvalidValueError(
            f"{name}: expected a CPU array, got {type(x).__name__} ({error})"
        ) from error


def as_operand(name: str, x: Any) -> Operand:
    """Look at an array without copying it. Arrays NumPy holds unaligned or byte-swapped are copied.

    Raises ``rd.InvalidValueError`` naming the argument: not an array, or not on the CPU.
    """
    if is_torch(x):
        return _from_torch(name, x)
    if not hasattr(x, "__dlpack__") and not hasattr(x, "__array_interface__"):
        raise rd.InvalidValueError(f"{name}: expected an array, got {type(x).__name__}")
    array = to_numpy(name, x)
    size = array.itemsize
    if not array.dtype.isnative or not array.flags.aligned or any(s % size for s in array.strides):
        array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    return Operand(
        name,
        array,
        array.shape,
        tuple(stride // size for stride in array.strides),
        array.dtype.name,
        int(array.ctypes.data),
    )
