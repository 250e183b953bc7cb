"""Producers of DLPack capsules whose every field is chosen by a test, built with ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

CPU, CUDA, ROCM = 1, 2, 10
FLOAT_CODE, BFLOAT_CODE, FP8_E4M3_CODE = 2, 4, 10  # DLPack 1.1
READ_ONLY = 1


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


@dataclass
class Producer:
    """An object with ``__dlpack__``, over ``memory`` from ``byte_offset`` on (``memory`` None: a
    null pointer). ``strides`` None: a null pointer, which means row-major.
    """

    memory: Any
    shape: Sequence[int]
    strides: Sequence[int] | None = None
    byte_offset: int = 0
    code: int = FLOAT_CODE
    bits: int = 32
    device: int = CPU
    versioned: bool = True
    flags: int = 0
    name: bytes | None = None  # of the capsule
    asked: list[dict[str, Any]] = field(default_factory=list)
    _capsule: Any = None

    def __post_init__(self) -> None:
        kind = ctypes.c_int64 * len(self.shape)
        # Everything that the capsule points to lives as long as this object.
        self._shape = kind(*self.shape)
        self._strides = None if self.strides is None else kind(*self.strides)
        pointer = ctypes.POINTER(ctypes.c_int64)
        tensor = _Tensor(
            data=None if self.memory is None else self.memory.ctypes.data,
            device_type=self.device,
            ndim=len(self.shape),
            code=self.code,
            bits=self.bits,
            lanes=1,
            shape=ctypes.cast(self._shape, pointer),
            strides=None if self._strides is None else ctypes.cast(self._strides, pointer),
            byte_offset=self.byte_offset,
        )
        managed = (
            _ManagedVersioned(major=1, minor=0, flags=self.flags, tensor=tensor)
            if self.versioned
            else _Managed(tensor=tensor)
        )
        self._managed = managed
        self._name = self.name or (b"dltensor_versioned" if self.versioned else b"dltensor")
        self._capsule = _new_capsule(ctypes.addressof(managed), self._name, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0)

    def __dlpack__(self, **options: Any) -> Any:
        """The same capsule each time."""
        self.asked.append(options)
        if options and not self.versioned:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        return self._capsule


def bfloat16_bits(values: Any) -> Any:
    """The upper halves of float32 numbers, which must be exact."""
    wide = np.ascontiguousarray(values, np.float32).view(np.uint32)
    assert not (wide & 0xFFFF).any()
    return (wide >> 16).astype(np.uint16)
