"""Arrays of any library seen alike: address, shape, element strides, data type; and checks of
single arguments.

In host memory NumPy arrays are used as they are, torch tensors through their own methods (torch
itself is never imported here), everything else through DLPack; on a GPU all by the core. Nothing is
copied unless a caller asks for it.
"""

from __future__ import annotations

import math
import numbers
import operator
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

import raggeddnn as rd

from . import _core

Array = npt.NDArray[Any]

GPU_DEVICES = ("cuda", "hip")  # as engines state where their buffers live
_DLPACK_CUDA, _DLPACK_ROCM = 2, 10
_DEFAULT_STREAM = 0
# Of data types as the core names them, and array libraries.
_GRAPH_NAMES = {"float": "float32", "half": "float16", "double": "float64"}

# NumPy moved the exception in 1.25.
_TooHardError: Any = getattr(np, "exceptions", np).TooHardError
# Candidate solutions that the exact test for shared memory may try: milliseconds.
_MAX_WORK: Any = 100_000


def invalid(text: str) -> rd.InvalidValueError:
    """The exception for a wrong argument of ``varlen.sdpa``."""
    return rd.InvalidValueError(f"[varlen.sdpa] {text}")


def is_torch(x: object) -> bool:
    """Is this a torch tensor? Answered without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def gpu_of(x: object) -> str | None:
    """``cuda`` or ``hip`` for an array in a GPU's memory; None for any other, and what is none."""
    if isinstance(x, np.ndarray):
        return None
    if is_torch(x):
        if x.device.type != "cuda":  # type: ignore[attr-defined]
            return None
        return "hip" if sys.modules["torch"].version.hip else "cuda"
    if hasattr(x, "__dlpack_device__"):
        return {_DLPACK_CUDA: "cuda", _DLPACK_ROCM: "hip"}.get(int(x.__dlpack_device__()[0]))
    return _core.gpu_device() if hasattr(x, "__cuda_array_interface__") else None


@dataclass(frozen=True)
class Operand:
    """One array: what goes into a variant pack, and its facts. Strides in elements."""

    name: str
    array: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype_name: str
    address: int
    owner: Any = None  # of the memory, where ``array`` does not keep it

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
        raise invalid(f"{name} is on device {x.device}, expected cpu")
    # A lazily negated or conjugated view's memory does not hold its values.
    x = x.detach().resolve_conj().resolve_neg()
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
    if isinstance(x, np.ma.MaskedArray):
        raise invalid(f"{name} is a masked array, expected an array without a mask")
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
        raise invalid(f"{name}: expected a CPU array, got {type(x).__name__} ({error})") from error


def as_operand(name: str, x: Any) -> Operand:
    """Look at an array without copying it. Arrays NumPy holds unaligned or byte-swapped are copied.

    Raises ``rd.InvalidValueError`` naming the argument: not an array, or not on the CPU.
    """
    if is_torch(x):
        return _from_torch(name, x)
    if not hasattr(x, "__dlpack__") and not hasattr(x, "__array_interface__"):
        raise invalid(f"{name}: expected an array, got {type(x).__name__}")
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


def as_gpu_operand(name: str, x: Any, device: str) -> Operand:
    """Look at an array of a GPU for use on its default stream (torch's: on any).

    Raises ``rd.InvalidValueError`` naming the argument: not an array, or not on ``device``.
    """
    facts = _core.read_array(x, f"[varlen.sdpa] {name}", _DEFAULT_STREAM)
    if facts is None:
        raise invalid(f"{name}: expected an array, got {type(x).__name__}")
    if not facts.is_on(device):
        raise invalid(f"{name} is on device {facts.device}, expected {device}, where q is")
    dtype_name = facts.type_name.lower()
    return Operand(
        name,
        facts,
        facts.shape,
        facts.strides,
        _GRAPH_NAMES.get(dtype_name, dtype_name),
        facts.address,
        x,
    )


def integer(what: str, x: Any) -> int:
    """Any integer of 64 bits; ``what`` says in the message which one it is."""
    try:
        value = operator.index(x)
    except TypeError:
        value = None
    if value is None or not -(1 << 63) <= value < 1 << 63:
        raise invalid(f"{what} is {x!r}, expected an integer of 64 bits")
    return value


def flag(name: str, x: Any) -> bool:
    """A Python or NumPy bool, nothing that merely has a truth value."""
    if not isinstance(x, (bool, np.bool_)):
        raise invalid(f"{name} is {x!r}, expected a bool")
    return bool(x)


def finite_scale(scale: Any, q: Operand) -> float:
    """The scale of a call, within the range of the type that q's attention computes in."""
    if scale is None:
        return 1.0 / math.sqrt(q.shape[2])
    if isinstance(scale, bool) or not isinstance(scale, numbers.Real):
        raise invalid(f"scale is {scale!r}, expected a real number")
    try:
        value = float(scale)
    except OverflowError as error:
        raise invalid("scale is beyond float64, expected a finite number") from error
    if not math.isfinite(value):
        raise invalid(f"scale is {value}, expected a finite number")
    if q.dtype_name != "float64" and abs(value) > float(np.finfo(np.float32).max):
        raise invalid(f"scale is {value}, expected a magnitude of at most 3.4e38")
    return value


def integers(name: str, x: Any, size: int | None) -> Array:
    """A 1-D INT32 or INT64 argument as a contiguous NumPy array; ``size`` None takes any but 0."""
    expected = "(batch + 1,)" if size is None else f"({size},)"
    if x is None:
        raise invalid(f"{name} is None, expected {expected} int32 or int64")
    array = to_numpy(name, x)
    if array.dtype.name not in ("int32", "int64"):
        raise invalid(f"{name} has data type {array.dtype.name}, expected int32 or int64")
    if array.ndim != 1 or (array.size != size if size is not None else array.size == 0):
        raise invalid(f"{name} has shape {array.shape}, expected {expected}")
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))


def memory_at(address: int, shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> Array:
    """An array over memory, of elements of ``size`` bytes, for address arithmetic only."""
    interface = {
        "version": 3,
        "data": (address, True),
        "typestr": f"|V{size}",
        "shape": shape,
        "strides": tuple(stride * size for stride in strides),
    }
    view: Array = np.asarray(SimpleNamespace(__array_interface__=interface))
    return view


def _memory(name: str, x: Any) -> Array | None:
    """An array over the very memory of an argument, for address arithmetic only; None for none."""
    if x is None or isinstance(x, (list, tuple)):
        return None
    if not is_torch(x):
        return to_numpy(name, x)
    if x.numel() == 0:
        return None
    # Not x.numpy(): NumPy may lack the data type, and a negated view would be copied.
    return memory_at(x.data_ptr(), tuple(x.shape), tuple(x.stride()), x.element_size())


def share_memory(a: Array, b: Array) -> bool:
    """Exact where NumPy can tell within the allowed work, else True."""
    try:
        return bool(np.shares_memory(a, b, _MAX_WORK))
    except _TooHardError:
        return True


def _overlaps_itself(x: Operand) -> bool:
    """May two elements lie at one address? No, if each stride passes all that smaller ones span."""
    reach = 0
    axes = [(abs(s), n) for s, n in zip(x.strides, x.shape, strict=True) if n > 1]
    for stride, length in sorted(axes):
        if stride <= reach:
            return 0 not in x.shape
        reach += (length - 1) * stride
    return False


def check_torch_output(out: Any) -> None:
    """Refuse a torch tensor that cannot be written in place."""
    if out.is_neg() or out.is_conj():
        raise invalid("out is a lazily negated or conjugated view, expected a plain tensor")
    if out.requires_grad:
        raise invalid("out requires grad, expected a tensor that records no gradient")


def check_writable(out: Any, operand: Operand, inputs: Mapping[str, Any]) -> None:
    """Refuse an ``out`` that cannot be written in place, or whose memory an input shares."""
    if is_torch(out):
        check_torch_output(out)
    else:
        if not operand.array.flags.writeable:
            raise invalid("out is read-only, expected a writeable array")
        if isinstance(out, np.ndarray) and operand.array is not out:
            raise invalid("out is unaligned or not in native byte order")
    if _overlaps_itself(operand):
        raise invalid(
            f"out has shape {operand.shape} and strides {operand.strides} (in elements), whose "
            "elements overlap; expected each at an address of its own"
        )
    memory = _memory("out", out)
    for name, x in inputs.items():
        other = _memory(name, x)
        if memory is not None and other is not None and share_memory(memory, other):
            raise invalid(f"out overlaps {name}, expected memory of its own")


def note_written(out: Any) -> None:
    """Tell torch that a tensor's memory changed, so that autograd refuses stale saved values."""
    if not is_torch(out) or out.is_inference():
        return
    increment = getattr(sys.modules["torch"].autograd.graph, "increment_version", None)
    if increment is not None:
        increment(out)
