"""Checks sdists, which have to hold this checkout, and wheels: everything needed is there, once,
and no leftovers.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

NEEDED = [
    "raggeddnn/__init__.py",
    "raggeddnn/_core.pyi",
    "raggeddnn/py.typed",
    "raggeddnn/lib/libraggeddnn.so",
    "raggeddnn/engines/libraggeddnn_cpu.so",
    "raggeddnn/engines/libraggeddnn_reference.so",
    "raggeddnn/engines/raggeddnn_hip.json",
    "raggeddnn/include/raggeddnn/plugin/engine_plugin_api.h",
    "raggeddnn/include/raggeddnn/plugin/export.hpp",
    "raggeddnn/include/raggeddnn/schema/graph_generated.h",
    "raggeddnn/include/raggeddnn/schema/graph.fbs",
    "raggeddnn/lib/cmake/raggeddnn/raggeddnn-config.cmake",
]
LEFTOVERS = {".o", ".a", ".cpp", ".c", ".pyc", ".log", ".ninja", ".map", ".in"}
MAX_WHEEL_BYTES = 8 << 20


def wheel_faults(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as wheel:
        entries = wheel.infolist()
    names = [entry.filename for entry in entries]
    faults = [f"lacks {name}" for name in NEEDED if name not in names]
    faults += [f"holds {name}" for name in names if PurePosixPath(name).suffix in LEFTOVERS]
    faults += [f"holds {name}" for name in names if not name.startswith("raggeddnn")]
    if sum(name.startswith("raggeddnn/_core.") and name.endswith(".so") for name in names) != 1:
        faults.append("expected one extension")
    libraries = [(entry.CRC, entry.file_size) for entry in entries if ".so" in entry.filename]
    if len(set(libraries)) != len(libraries):
        faults.append("holds a library twice")
    if path.stat().st_size > MAX_WHEEL_BYTES:
        faults.append(f"has {path.stat().st_size} bytes, expected at most {MAX_WHEEL_BYTES}")
    return faults


def gpu_wheel_faults(path: Path) -> list[str]:
    """Of the GPU engine's own wheel: two files beside the other engines, none of another wheel."""
    name, version = path.name.split("-")[:2]
    engine = name.replace("raggeddnn_", "raggeddnn_hip_")
    expected = {f"raggeddnn/engines/lib{engine}.so", f"raggeddnn/engines/{engine}.json"}
    expected |= {f"{name}-{version}.dist-info/{file}" for file in ("METADATA", "WHEEL", "RECORD")}
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
    faults = [f"lacks {name}" for name in sorted(expected - names)]
    return faults + [f"holds {name}" for name in sorted(names - expected)]


def sdist_faults(path: Path) -> list[str]:
    with tarfile.open(path) as sdist:
        names = [name.split("/", 1)[-1] for name in sdist.getnames()]
    listed = subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout
    needed = [name for name in listed.splitlines() if not name.startswith((".ci/", ".github/"))]
    assert "cpp/CMakeLists.txt" in needed
    faults = [f"lacks {name}" for name in needed if name not in names]
    faults += [f"holds {name}" for name in names if name.startswith(("build/", "dist/", ".git/"))]
    return faults


def main(paths: list[Path]) -> int:
    status = 0
    for path in paths:
        is_wheel = path.suffix == ".whl"
        is_gpu = is_wheel and not path.name.startswith("raggeddnn-")
        faults_of = gpu_wheel_faults if is_gpu else wheel_faults if is_wheel else sdist_faults
        faults = faults_of(path)
        print("\n".join(f"{path.name} {fault}" for fault in faults) or f"{path.name}: complete")
        status |= bool(faults)
    return status


if __name__ == "__main__":
    sys.exit(main([Path(name) for name in sys.argv[1:]]))
