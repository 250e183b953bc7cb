"""Reads what a shared library needs and exports, from its ELF file (64-bit, little-endian)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

_DYNAMIC, _DYNSYM = 6, 11  # section types
_NEEDED, _RPATH, _RUNPATH = 1, 15, 29  # dynamic entries
_GLOBAL_BINDINGS = {1, 2, 10}  # global, weak, GNU unique


@dataclass(frozen=True)
class Library:
    """Names of the libraries needed, search paths, and symbols defined for others."""

    needed: tuple[str, ...]
    run_paths: tuple[str, ...]
    exports: tuple[str, ...]


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


def read_library(path: Path) -> Library:
    """Parse a shared library; raises ValueError for anything else."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path} is no 64-bit little-endian ELF file")
    sections_at, size, count = (
        struct.unpack_from("<Q", data, 0x28)[0],
        *struct.unpack_from("<HH", data, 0x3A),
    )
    # Of each: name, type, flags, address, offset, size, link, info, alignment, entry size.
    sections = [
        struct.unpack_from("<IIQQQQIIQQ", data, sections_at + i * size) for i in range(count)
    ]
    entries: list[tuple[int, str]] = []
    exports: list[str] = []
    for _, kind, _, _, offset, length, link, _, _, entry in sections:
        if kind not in (_DYNAMIC, _DYNSYM):
            continue
        strings = sections[link][4]
        for at in range(offset, offset + length, entry):
            if kind == _DYNAMIC:
                tag, value = struct.unpack_from("<qQ", data, at)
                if tag in (_NEEDED, _RPATH, _RUNPATH):
                    entries.append((tag, _text(data, strings + value)))
            else:
                name, info, _, section = struct.unpack_from("<IBBH", data, at)
                if section != 0 and info >> 4 in _GLOBAL_BINDINGS:
                    exports.append(_text(data, strings + name))
    return Library(
        needed=tuple(name for tag, name in entries if tag == _NEEDED),
        run_paths=tuple(name for tag, name in entries if tag != _NEEDED),
        exports=tuple(sorted(exports)),
    )
