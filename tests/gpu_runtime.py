"""The GPU runtime of this process by ctypes, and arrays of other libraries over its memory."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import raggeddnn as rd
from raggeddnn import _core
from raggeddnn.tensor import Tensor

# The engine that the tests of a GPU run on; on the fake one (EMULATED_DEVICE) an emulated engine.
ENGINE = os.environ.get("RAGGEDDNN_TEST_GPU_ENGINE", "RAGGEDDNN_HIP_ENGINE")
IS_FAKE = "EMULATED_DEVICE" in os.environ
TYPES = {
    "float16": rd.DataType.HALF,
    "bfloat16": rd.DataType.BFLOAT16,
    "float32": rd.DataType.FLOAT,
    "int32": rd.DataType.INT32,
    "int64": rd.DataType.INT64,
}


class Runtime:
    """Its functions, without the beginning of their names."""

    def __init__(self) -> None:
        self.device = _core.gpu_device()
        file = {"cuda": "libcudart.so", "hip": "libamdhip64.so"}[self.device]
        maps = Path("/proc/self/maps").read_text().split()
        path = next(p for p in maps if p.startswith("/") and (file in p or "fake_gpu_runtime" in p))
        self.library = ctypes.CDLL(path)

    def call(self, name: str, *arguments: Any) -> None:
        status = self.library[f"{self.device}{name}"](*arguments)
        assert status == 0, f"{name}: {status}"

    @contextlib.contextmanager
    def stream(self) -> Iterator[int]:
        """The address of a stream that does not wait for the default one."""
        made = ctypes.c_void_p()
        self.call("StreamCreateWithFlags", ctypes.byref(made), 1)
        assert made.value
        yield made.value
        self.call("StreamSynchronize", made)
        self.call("StreamDestroy", made)

    def finish(self, stream: int) -> None:
        self.call("StreamSynchronize", ctypes.c_void_p(stream))

    def read(self, address: int, like: Any) -> Any:
        """A copy of memory, past whatever a tensor thinks of it."""
        found = np.empty_like(like)
        self.call("Memcpy", found.ctypes.data_as(ctypes.c_void_p), ctypes.c_void_p(address),
                  ctypes.c_size_t(found.nbytes), 2)  # fmt: skip
        return found

    def write(self, address: int, array: Any) -> None:
        """To memory, past whatever a tensor thinks of it."""
        array = np.ascontiguousarray(array)
        self.call("Memcpy", ctypes.c_void_p(address), array.ctypes.data_as(ctypes.c_void_p),
                  ctypes.c_size_t(array.nbytes), 1)  # fmt: skip

    def zeros(self, bytes_: int) -> Zeros:
        return Zeros(self, bytes_)

    def tensor(self, array: Any, dims: tuple[int, ...] | None = None) -> Tensor:
        """A copy of an array on the GPU."""
        array = np.ascontiguousarray(array)
        made = Tensor(dims or array.shape, None, TYPES[array.dtype.name], device=self.device)
        made.fill_with_data(array.reshape(made.dims()))
        return made


class Zeros:
    """Memory of the GPU, of which there is nothing on the host, as there may be of a tensor."""

    def __init__(self, gpu: Runtime, bytes_: int) -> None:
        self.gpu = gpu
        made = ctypes.c_void_p()
        gpu.call("Malloc", ctypes.byref(made), ctypes.c_size_t(bytes_))
        assert made.value
        self.address = made.value
        _core.fill_gpu_with_zeros(self.address, bytes_, 0)

    def __del__(self) -> None:
        self.gpu.call("Free", ctypes.c_void_p(self.address))


def address_of(tensor: Any) -> int:
    """Where it is on the GPU."""
    facts = _core.read_array(tensor, "tensor", 0)
    assert facts is not None
    return int(facts.address)


class OnlyInterface:
    """An array of the GPU that has ``__cuda_array_interface__`` and nothing else, as numba's."""

    def __init__(self, tensor: Tensor, **changes: Any) -> None:
        self.tensor = tensor
        kind = {name: np.dtype(name).str for name in TYPES if name != "bfloat16"}
        names = {kind_of: name for name, kind_of in TYPES.items()}
        self.interface = {
            "version": 3,
            "shape": tuple(tensor.dims()),
            "typestr": kind[names[tensor.data_type()]],
            "data": (address_of(tensor), False),
            "strides": None,
            **changes,
        }

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.interface


class OnlyExports:
    """An array that has DLPack and nothing else, and remembers what it was asked for."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.asked: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        self.asked.append(options.get("stream"))
        return self.tensor.__dlpack__(**options)
