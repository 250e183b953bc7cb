"""Graphs of every operation, as bytes and as what the bytes say, for tests and as fuzzing seeds.

Both are made from the slot tables that test_schema_slots types by hand, with fb_builder and the
FlatBuffers runtime: none of our code, and none generated from our schemas, takes part.
"""

from __future__ import annotations

import struct
from typing import Any

import fb_builder as fb
import flatbuffers.table
from bfbs_reader import Slot
from flatbuffers import number_types as numbers
from test_schema_slots import ENUMS, EXPECTED, STRUCTS

OPS = ENUMS["NodeAttributes"].split()[1:]
SCALARS = {
    "bool": ("bool", "<?"),
    "byte": ("int8", "<b"),
    "ubyte": ("uint8", "<B"),
    "int": ("int32", "<i"),
    "uint": ("uint32", "<I"),
    "long": ("int64", "<q"),
    "ulong": ("uint64", "<Q"),
    "float": ("float32", "<f"),
    "double": ("float64", "<d"),
}


def scalar_type(slot: Slot) -> str:
    """The name of a slot's scalar type; enums and union tags are bytes. "" for anything else."""
    if slot.type.endswith(".tag"):
        return "ubyte"
    if slot.type in SCALARS:
        return slot.type
    return "byte" if slot.type in ENUMS and slot.default != "" else ""


def op_slots(op: str, fill: str) -> fb.Slots:
    """The slots of an operation's table.

    `fill`: "full", every slot holds a value of its own; "zero", every scalar slot, also an optional
    one, holds 0, every list and string is empty; "unset", the same, but for optional slots, strings
    and lists, which are absent.
    """
    slots: fb.Slots = {}
    for slot in EXPECTED[op]:
        n = slot.number
        kind = scalar_type(slot)
        if fill == "unset" and slot.default in ("", "null"):
            continue
        full: Any
        if slot.type in ENUMS:
            full = len(ENUMS[slot.type].split()) - 1
        elif kind in ("float", "double"):
            full = n + 0.1
        elif kind == "bool":
            full = True
        else:
            full = 2**62 + n if kind == "long" else 100 + n
        if kind:
            slots[n] = (SCALARS[kind][0], full if fill == "full" else type(full)(0))
        elif slot.type == "string":
            slots[n] = ("string", f'text {n} "\u00e9\\' if fill == "full" else "")
        else:
            element = SCALARS[slot.type.strip("[]")][0]
            slots[n] = (f"[{element}]", [n, 0, 200] if fill == "full" else [])
    return slots


def op_graph(op: str, fill: str) -> bytes:
    """A graph of one node and three tensors."""
    tensors = [fb.tensor(uid, f"t{uid}", [2, 3]) for uid in (1, 2, 3)]
    node = fb.node(OPS.index(op) + 1, op_slots(op, fill), name="node")
    return fb.build(fb.graph(tensors, [node], {9: ("struct", fb.Struct(bytes(range(16)), 1))}))


VALUES: list[tuple[int, str, Any]] = [
    (fb.FLOAT32_VALUE, "float32", 0.1),
    (fb.FLOAT32_VALUE, "float32", float("nan")),
    (fb.FLOAT32_VALUE, "float32", float("-inf")),
    (fb.FLOAT32_VALUE, "float32", -0.0),
    (fb.FLOAT32_VALUE, "float32", 2.0**-149),
    (fb.FLOAT16_VALUE, "float32", 65504.0),
    (fb.BFLOAT16_VALUE, "float32", float("inf")),
    (fb.FLOAT8_VALUE, "uint8", 255),
    (fb.INT32_VALUE, "int32", -(2**31)),
    (fb.FLOAT64_VALUE, "float64", float("nan")),
    (fb.FLOAT64_VALUE, "float64", 1e-310),
    (fb.INT64_VALUE, "int64", -(2**63)),
    (fb.INT64_VALUE, "int64", 2**63 - 1),
    (fb.BOOL_VALUE, "bool", False),
]


def scalars_graph() -> bytes:
    """A graph whose tensors hold scalars of every kind."""
    tensors = [
        fb.tensor(uid, "same name" if uid % 2 else "", value=(tag, fb.scalar_struct(wire, value)))
        for uid, (tag, wire, value) in enumerate(VALUES)
    ]
    return fb.build(fb.graph(tensors, []))


def content(data: bytes, root: str = "Graph") -> dict[str, Any]:
    """What a buffer says, field by field: scalars and structs as their bytes, so that NaN and -0
    compare; None for what is unset. An absent string or list is an empty one.
    """
    return _table(flatbuffers.table.Table(data, int.from_bytes(data[:4], "little")), root)


def _table(table: flatbuffers.table.Table, name: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for slot in EXPECTED[name]:
        at = table.Pos + table.Offset(4 + 2 * slot.number)
        found = at != table.Pos
        kind = scalar_type(slot)
        if kind:
            code = SCALARS[kind][1]
            if found:
                fields[slot.name] = bytes(table.Bytes[at : at + struct.calcsize(code)])
            else:
                fields[slot.name] = _default(slot, code)
        elif slot.type == "string":
            fields[slot.name] = table.String(at) if found else b""
        elif slot.type in STRUCTS:
            size = STRUCTS[slot.type][0]
            fields[slot.name] = bytes(table.Bytes[at : at + size]) if found else None
        elif slot.type in ENUMS:
            tag = fields[f"{slot.name}_type"][0]
            fields[slot.name] = _member(table, at, ENUMS[slot.type].split()[tag]) if tag else None
        else:
            fields[slot.name] = _vector(table, at, slot.type.strip("[]")) if found else []
    return fields


def _default(slot: Slot, code: str) -> bytes | None:
    if slot.default == "null":
        return None
    return struct.pack(code, float(slot.default) if code in ("<f", "<d") else int(slot.default))


def _member(table: flatbuffers.table.Table, at: int, name: str) -> Any:
    target = table.Indirect(at)
    if name in STRUCTS:
        return bytes(table.Bytes[target : target + STRUCTS[name][0]])
    return _table(flatbuffers.table.Table(table.Bytes, target), name)


def _vector(table: flatbuffers.table.Table, at: int, element: str) -> list[Any]:
    start = table.Indirect(at)
    count = table.Get(numbers.Uint32Flags, start)
    size = struct.calcsize(SCALARS[element][1]) if element in SCALARS else 4
    places = [start + 4 + size * i for i in range(count)]
    if element in SCALARS:
        return [bytes(table.Bytes[place : place + size]) for place in places]
    return [_member(table, place, element) for place in places]
