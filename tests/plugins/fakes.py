"""Small attention graphs for the fake providers of this folder, ways to load and run them, arrays
of other libraries than NumPy, and a look into serialized bytes.

A fake takes graphs whose name begins with "fake" and fills o with the scale that it got, so a test
sees in o which engine ran and what was delivered to it.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import raggeddnn as rd
from cpp_build import built_plugin

BATCH, HEADS, ROWS, DEPTH = 2, 2, 4, 8
SHAPE = (BATCH, HEADS, ROWS, DEPTH)
UNTOUCHED = -77.0
REFERENCE = "RAGGEDDNN_REFERENCE_ENGINE"

# Engine names of the fakes that report an API version, oldest first.
BY_VERSION = {
    "1.0.0": ("fake_1_0_0", "FAKE_1_0_0_ENGINE"),
    "1.1.0": ("fake_1_1_0", "FAKE_1_1_0_ENGINE"),
    "1.2.0": ("fake_1_2_0", "FAKE_1_2_0_ENGINE"),
    "1.3.0": ("fake_1_3_0", "FAKE_1_3_0_ENGINE"),
    "1.4.0": ("fake_1_4_0", "RAGGEDDNN_FAKE_ENGINE"),
}


def load(name: str) -> Path:
    """Load the plugin of `<name>.c` or `.cpp` into this process; again does nothing."""
    path = built_plugin(name)
    rd.add_plugin_path(path)
    return path


def load_all_versions() -> None:
    for plugin, _ in BY_VERSION.values():
        load(plugin)


@dataclass
class Small:
    """A graph of one attention, and its tensors by role."""

    graph: rd.Graph
    tensors: dict[str, rd.TensorAttributes] = field(default_factory=dict)

    def pack(self, **more: Any) -> dict[Any, Any]:
        """Arrays for every tensor that has memory; o is full of UNTOUCHED. `more` by role; None
        leaves a role out.
        """
        rng = np.random.default_rng(1)
        arrays: dict[str, Any] = {
            name: rng.standard_normal(SHAPE, dtype=np.float32) for name in ("q", "k", "v")
        }
        arrays["o"] = np.full(SHAPE, UNTOUCHED, np.float32)
        if "offsets" in self.tensors:
            # In units of the multiplier.
            unit = ROWS * HEADS * DEPTH // self.tensors["q"].get_ragged_offset_multiplier()
            arrays["offsets"] = np.arange(BATCH + 1, dtype=np.int32) * unit
        arrays.update(more)
        return {self.tensors[name]: a for name, a in arrays.items() if a is not None}

    def run(self, plan: rd.ExecutionPlan, **more: Any) -> Any:
        """Execute on new arrays and return o."""
        pack = self.pack(**more)
        plan.execute(pack)
        return pack[self.tensors["o"]]


def small(
    name: str = "fake",
    *,
    scale: float | rd.TensorAttributes | None = 0.5,
    ragged: bool = False,
    multiplier: int = 1,
    alignment: int = 16,
    **options: Any,
) -> Small:
    """A FLOAT graph. `scale`: a number, or a scalar tensor; `options` go to Graph.sdpa."""
    g = rd.Graph(name=name, io_data_type=rd.DataType.FLOAT)
    tensors: dict[str, rd.TensorAttributes] = {}
    more: dict[str, Any] = {}
    stride = [HEADS * ROWS * DEPTH, DEPTH, HEADS * DEPTH, 1]
    if ragged:
        tensors["offsets"] = g.tensor(
            name="offsets", dim=[BATCH + 1, 1, 1, 1], data_type=rd.DataType.INT32
        )
        more = {"ragged_offset": tensors["offsets"], "ragged_offset_multiplier": multiplier}
    for role in ("q", "k", "v"):
        tensors[role] = g.tensor(
            name=role, dim=list(SHAPE), stride=stride, alignment=alignment, **more
        )
    if isinstance(scale, rd.TensorAttributes):
        tensors["scale"] = g.tensor(scale)
        if not scale.get_name():
            scale.set_name("scale")
    for role in ("seed", "offset"):
        if role in options:
            tensors[role] = g.tensor(options[role])
    o, stats = g.sdpa(
        tensors["q"], tensors["k"], tensors["v"], attn_scale=scale, name="sdpa", **options
    )
    o.set_name("o").set_output(True).set_data_type(rd.DataType.FLOAT).set_stride(stride)
    if ragged:
        o.set_ragged_offset(tensors["offsets"]).set_ragged_offset_multiplier(multiplier)
    tensors["o"] = o
    if stats is not None:
        tensors["stats"] = stats.set_name("stats").set_output(True)
    return Small(g, tensors)


def constant(value: float = 0.5) -> rd.TensorAttributes:
    return rd.TensorAttributes(value)


def with_default(value: float = 0.5) -> rd.TensorAttributes:
    return rd.TensorAttributes(value, rd.ScalarType.RUNTIME_PARAM)


def runtime(data_type: rd.DataType = rd.DataType.FLOAT) -> rd.TensorAttributes:
    return rd.TensorAttributes().set_data_type(data_type).set_as_runtime_parameter()


def verdicts(graph: rd.Graph, handle: rd.Handle | None = None) -> dict[str, rd.Verdict]:
    return {verdict.engine: verdict for verdict in graph.explain(handle)}


def aligned(shape: tuple[int, ...], dtype: Any = np.float32, offset: int = 0) -> Any:
    """Zeros at `offset` bytes past a multiple of 64."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 128, np.uint8)
    start = (-raw.ctypes.data) % 64 + offset
    return raw[start : start + size].view(dtype).reshape(shape)


class OnlyDLPack:
    """An array that offers nothing but DLPack, of version 1 or of the time before."""

    def __init__(self, array: Any, *, versioned: bool) -> None:
        self.array, self.versioned = array, versioned

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **options: Any) -> Any:
        if not self.versioned:
            if options:
                raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
            return self.array.__dlpack__()
        assert options["max_version"][0] >= 1
        return self.array.__dlpack__(**options)


class LikeTorch:
    """The part of a tensor of PyTorch that is looked at."""

    class Device:
        def __init__(self, kind: str) -> None:
            self.type = kind

    def __init__(self, array: Any, device: str = "cpu", dtype: str = "torch.float32") -> None:
        self.array, self.device, self.dtype = array, self.Device(device), dtype
        self.shape = array.shape

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def stride(self) -> tuple[int, ...]:
        return tuple(s // self.array.itemsize for s in self.array.strides)

    def element_size(self) -> int:
        return int(self.array.itemsize)


def root_field(data: bytes, slot: int) -> int | None:
    """Where a slot of the root table lies in the bytes, or None; read by hand."""
    table = struct.unpack_from("<I", data)[0]
    vtable = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, vtable)[0]
    if 4 + 2 * slot + 2 > size:
        return None
    offset = struct.unpack_from("<H", data, vtable + 4 + 2 * slot)[0]
    return table + offset if offset else None


def python(code: str, **environ: str) -> str:
    """Standard output of a fresh interpreter that runs `code`."""
    environment = {k: v for k, v in os.environ.items() if "PLUGIN" not in k}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, **environ},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
