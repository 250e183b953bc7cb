"""Writes FlatBuffers slot by slot, knowing nothing of our schemas.

Tests of the wire format must not use the code they test, nor code generated from the same .fbs
files: a field moved in a .fbs file would move in both. Here a table is a dict from slot number to
(type, value), typed by hand from the description of hipDNN's format, and only the FlatBuffers
runtime turns it into bytes. Every slot given is stored, also when it holds the default.

Types: bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float32 float64 string table struct,
and "[T]" for a vector of these but struct. A union is its tag (uint8) in one slot and, in the
next, a table or, for a member that is a struct, a "struct_ref". Struct values are `Struct`.
"""

from __future__ import annotations

import struct as packing
from dataclasses import dataclass
from typing import Any

import flatbuffers
from flatbuffers import number_types as numbers

Slots = dict[int, tuple[str, Any]]

_SCALARS = {
    "bool": numbers.BoolFlags,
    "int8": numbers.Int8Flags,
    "uint8": numbers.Uint8Flags,
    "int16": numbers.Int16Flags,
    "uint16": numbers.Uint16Flags,
    "int32": numbers.Int32Flags,
    "uint32": numbers.Uint32Flags,
    "int64": numbers.Int64Flags,
    "uint64": numbers.Uint64Flags,
    "float32": numbers.Float32Flags,
    "float64": numbers.Float64Flags,
}

# Numbers of hipDNN's wire, by hand.
UNSET, FLOAT, HALF, BFLOAT16, DOUBLE, UINT8, INT32, INT8 = range(8)
INT64, BOOLEAN = 15, 16
FLOAT32_VALUE, FLOAT16_VALUE, BFLOAT16_VALUE, FLOAT8_VALUE = 1, 2, 3, 4
INT32_VALUE, FLOAT64_VALUE, INT64_VALUE, BOOL_VALUE = 5, 6, 7, 8
POINTWISE_NODE, MATMUL_NODE, SDPA_NODE, SDPA_BACKWARD_NODE = 2, 9, 12, 15


@dataclass(frozen=True)
class Struct:
    """Bytes of a FlatBuffers struct, little-endian, and its alignment."""

    data: bytes
    alignment: int


def scalar_struct(type_name: str, value: Any) -> Struct:
    """A struct of one scalar, as the members of TensorValue are."""
    codes = {
        "float32": "<f",
        "float64": "<d",
        "uint8": "<B",
        "int32": "<i",
        "int64": "<q",
        "bool": "<?",
    }
    data = packing.pack(codes[type_name], value)
    return Struct(data, len(data))


def version(major: int, minor: int, patch: int = 0) -> Struct:
    """An EngineApiVersion."""
    return Struct(packing.pack("<III", major, minor, patch), 4)


def build(root: Slots, identifier: bytes | None = None) -> bytes:
    """A finished buffer whose root table has the given slots."""
    builder = flatbuffers.Builder(1024)
    offset = _write_table(builder, root)
    builder.Finish(offset, file_identifier=identifier)
    return bytes(builder.Output())


def _write_table(builder: flatbuffers.Builder, slots: Slots) -> int:
    # Whatever lies outside the table is written before it.
    outside = {
        slot: _write_outside(builder, type_name, value)
        for slot, (type_name, value) in slots.items()
        if type_name not in _SCALARS and type_name != "struct"
    }
    builder.StartObject(max(slots, default=-1) + 1)
    for slot, (type_name, value) in slots.items():
        if type_name == "struct":
            _place_struct(builder, value)
            builder.Slot(slot)
        elif type_name in _SCALARS:
            # No default: the value is stored whatever it is.
            builder.PrependSlot(_SCALARS[type_name], slot, value, None)
        else:
            builder.PrependUOffsetTRelativeSlot(slot, outside[slot], 0)
    return int(builder.EndObject())


def _write_outside(builder: flatbuffers.Builder, type_name: str, value: Any) -> int:
    if type_name == "string":
        # `bytes` may hold what is no UTF-8.
        return int(builder.CreateString(value))
    if type_name == "table":
        return _write_table(builder, value)
    if type_name == "struct_ref":
        _place_struct(builder, value)
        return int(builder.Offset())
    if not (type_name.startswith("[") and type_name.endswith("]")):
        raise ValueError(f"unknown type {type_name}")
    element = type_name[1:-1]
    if element in _SCALARS:
        width = _SCALARS[element].bytewidth
        builder.StartVector(width, len(value), width)
        for item in reversed(value):
            builder.Prepend(_SCALARS[element], item)
        return int(builder.EndVector())
    offsets = [_write_outside(builder, element, item) for item in value]
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _place_struct(builder: flatbuffers.Builder, value: Struct) -> None:
    builder.Prep(value.alignment, len(value.data))
    for byte in reversed(value.data):
        builder.Place(byte, numbers.Uint8Flags)


def tensor(
    uid: int,
    name: str = "",
    dims: list[int] | None = None,
    strides: list[int] | None = None,
    data_type: int = FLOAT,
    **more: Any,
) -> Slots:
    """Slots of a TensorAttributes.

    `more`: virtual, value (tag, Struct), is_runtime_pass_by_value, ragged_offset_tensor_uid,
    alignment, ragged_offset_multiplier.
    """
    dims = [1] if dims is None else dims
    strides = packed_strides(dims) if strides is None else strides
    slots: Slots = {
        0: ("int64", uid),
        1: ("string", name),
        2: ("int8", data_type),
        3: ("[int64]", strides),
        4: ("[int64]", dims),
    }
    value = more.pop("value", None)
    if value is not None:
        slots[6] = ("uint8", value[0])
        slots[7] = ("struct_ref", value[1])
    optional = {
        "virtual": (5, "bool"),
        "is_runtime_pass_by_value": (8, "bool"),
        "ragged_offset_tensor_uid": (9, "int64"),
        "alignment": (10, "int64"),
        "ragged_offset_multiplier": (11, "int64"),
    }
    for key, given in more.items():
        slot, type_name = optional[key]
        slots[slot] = (type_name, given)
    return slots


def packed_strides(dims: list[int]) -> list[int]:
    strides = [1] * len(dims)
    for axis in reversed(range(len(dims) - 1)):
        strides[axis] = strides[axis + 1] * dims[axis + 1]
    return strides


def bshd_strides(dims: list[int]) -> list[int]:
    """Strides of logical [B, H, S, D] dims stored as [B, S, H, D]."""
    _, heads, rows, depth = dims
    return [rows * heads * depth, depth, heads * depth, 1]


def node(tag: int, attributes: Slots, name: str = "", compute_data_type: int = FLOAT) -> Slots:
    return {
        0: ("string", name),
        1: ("int8", compute_data_type),
        2: ("uint8", tag),
        3: ("table", attributes),
    }


def graph(tensors: list[Slots], nodes: list[Slots], more: Slots | None = None) -> Slots:
    slots: Slots = {
        0: ("string", "g"),
        1: ("int8", FLOAT),
        2: ("int8", FLOAT),
        3: ("int8", FLOAT),
        4: ("[table]", tensors),
        5: ("[table]", nodes),
    }
    return {**slots, **(more or {})}


def sdpa_graph_slots(
    *,
    batch: int = 2,
    heads: int = 2,
    kv_heads: int | None = None,
    rows: int = 4,
    kv_rows: int | None = None,
    depth: int = 8,
    data_type: int = FLOAT,
    ragged: bool = False,
    multiplier: int = 1,
    alignment: int | None = None,
    causal: bool = False,
    stats: bool = False,
    scale: float | None = None,
    runtime_scale: bool = False,
    stamp: tuple[int, int, int] | None = None,
    min_reader_version: int | None = None,
    node_slots: Slots | None = None,
    graph_slots: Slots | None = None,
    tensor_slots: dict[str, Slots] | None = None,
) -> Slots:
    """Slots of a complete graph of one forward attention.

    Tensors: q 1, k 2, v 3, o 4; ragged_q 5 and ragged_kv 6 if `ragged`; scale 7 (FLOAT) if `scale`
    or `runtime_scale` is given: a constant, a runtime scalar, or with both a runtime scalar with a
    default; stats 8 if asked. The last three arguments replace or add slots of the node's
    attributes, of the graph, and of tensors by name.
    """
    kv_heads = heads if kv_heads is None else kv_heads
    kv_rows = rows if kv_rows is None else kv_rows
    more: dict[str, Any] = {} if alignment is None else {"alignment": alignment}
    q_more, kv_more = dict(more), dict(more)
    if ragged:
        q_more |= {"ragged_offset_tensor_uid": 5, "ragged_offset_multiplier": multiplier}
        kv_more |= {"ragged_offset_tensor_uid": 6, "ragged_offset_multiplier": multiplier}
    q_dims, kv_dims = [batch, heads, rows, depth], [batch, kv_heads, kv_rows, depth]
    tensors = {
        "q": tensor(1, "q", q_dims, bshd_strides(q_dims), data_type, **q_more),
        "k": tensor(2, "k", kv_dims, bshd_strides(kv_dims), data_type, **kv_more),
        "v": tensor(3, "v", kv_dims, bshd_strides(kv_dims), data_type, **kv_more),
        "o": tensor(4, "o", q_dims, bshd_strides(q_dims), data_type, **q_more),
    }
    attributes: Slots = {slot: ("int64", slot + 1) for slot in range(4)}
    if ragged:
        tensors["ragged_q"] = tensor(5, "ragged_q", [batch + 1, 1, 1, 1], data_type=INT32)
        tensors["ragged_kv"] = tensor(6, "ragged_kv", [batch + 1, 1, 1, 1], data_type=INT32)
    if scale is not None or runtime_scale:
        value = None if scale is None else (FLOAT32_VALUE, scalar_struct("float32", scale))
        flags: dict[str, Any] = {"is_runtime_pass_by_value": True} if runtime_scale else {}
        tensors["scale"] = tensor(7, "scale", [1], value=value, **flags)
        attributes[5] = ("int64", 7)
    if stats:
        tensors["stats"] = tensor(8, "stats", [batch, heads, rows, 1])
        attributes[22], attributes[28] = ("int64", 8), ("bool", True)
    if causal:
        attributes[36] = ("int64", 0)  # right_bound
    for name, slots in (tensor_slots or {}).items():
        tensors[name] = {**tensors[name], **slots}
    extra: Slots = dict(graph_slots or {})
    if stamp is not None:
        extra[8] = ("struct", version(*stamp))
    if min_reader_version is not None:
        extra[10] = ("uint32", min_reader_version)
    return graph(
        list(tensors.values()),
        [node(SDPA_NODE, {**attributes, **(node_slots or {})}, name="sdpa")],
        extra,
    )


def build_sdpa_graph(**overrides: Any) -> bytes:
    """The bytes of `sdpa_graph_slots(**overrides)`."""
    return build(sdpa_graph_slots(**overrides))


def build_plan(
    *,
    engine_id: int = 7,
    uids: list[int] | None = None,
    payload: bytes = b"",
    more: Slots | None = None,
) -> bytes:
    """A SerializedExecutionPlan."""
    slots: Slots = {
        0: ("uint32", 1),
        1: ("int64", engine_id),
        2: ("int64", 0),
        3: ("[int64]", [1, 2, 3, 4] if uids is None else uids),
        4: ("[uint8]", list(payload)),
    }
    return build({**slots, **(more or {})})


def build_container(graph_blob: bytes | None, plan_blob: bytes | None = None) -> bytes:
    """A SerializedGraphAndPlan around finished buffers."""
    slots: Slots = {}
    if graph_blob is not None:
        slots[0] = ("[uint8]", list(graph_blob))
    if plan_blob is not None:
        slots[1] = ("[uint8]", list(plan_blob))
    return build(slots, identifier=b"HDGP")


def build_aliased_graph() -> bytes:
    """50,000 offsets to one tensor of 2,000 dims and strides: a gigabyte, if it were unpacked."""
    builder = flatbuffers.Builder(1 << 18)
    builder.StartVector(8, 2000, 8)
    for _ in range(2000):
        builder.PrependInt64(1)
    dims = builder.EndVector()
    builder.StartObject(5)
    builder.PrependUOffsetTRelativeSlot(3, dims, 0)
    builder.PrependUOffsetTRelativeSlot(4, dims, 0)
    tensor = builder.EndObject()
    builder.StartVector(4, 50_000, 4)
    for _ in range(50_000):
        builder.PrependUOffsetTRelative(tensor)
    tensors = builder.EndVector()
    builder.StartObject(5)
    builder.PrependUOffsetTRelativeSlot(4, tensors, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())
