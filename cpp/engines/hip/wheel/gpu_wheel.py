"""The build backend of the GPU engine's own wheel: ``pip wheel ./cpp/engines/hip``.

The wheel holds a library and the record of its targets, and is installed into the folder of engines
of ``raggeddnn``. Their names and the wheel's say for which runtime they are (raggeddnn-cuda13,
raggeddnn-rocm7), so that none overlaps with another or with a ``raggeddnn`` that has the engine.
Everything else of its metadata is the project's.

Settings: ``cmake.define.NAME=VALUE``, as for ``raggeddnn`` itself, and ``build-dir=FOLDER``, a
folder to build in that is kept.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[4]
COMPONENT = "raggeddnn_hip"
DEFINE = "cmake.define."
BUILD_DIR = "build-dir"
FOR_BINDINGS = ("scikit-build-core", "pybind11")
Settings = Mapping[str, Any] | None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    requires: list[str] = _pyproject()["build-system"]["requires"]
    return [*(name for name in requires if not name.startswith(FOR_BINDINGS)), "cmake", "ninja"]


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    settings = dict(config_settings or {})
    kept = settings.pop(BUILD_DIR, None)
    defines = [f"-D{key.removeprefix(DEFINE)}={value}" for key, value in settings.items()]
    unknown = [key for key in settings if not key.startswith(DEFINE)]
    if unknown:
        sys.exit(f"settings are {unknown}, expected {DEFINE}NAME or {BUILD_DIR}")
    with tempfile.TemporaryDirectory() as scratch:
        installed = Path(scratch) / "installed"
        _build(Path(kept or Path(scratch) / "build"), installed, defines)
        return _pack(installed, Path(wheel_directory))


def _pyproject() -> dict[str, Any]:
    path = ROOT / "pyproject.toml"
    if not path.is_file():
        sys.exit(f"{path} is not there, expected a checkout of raggeddnn around cpp/engines/hip")
    content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return content


def _build(folder: Path, installed: Path, defines: list[str]) -> None:
    # A kept folder remembers that of the isolated environment before this one.
    ninja = shutil.which("ninja") or "ninja"
    commands: list[list[str | Path]] = [
        ["-S", ROOT, "-B", folder, "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}",
         f"-DCMAKE_MAKE_PROGRAM={ninja}", "-DRAGGEDDNN_BUILD_PYTHON=OFF",
         "-DRAGGEDDNN_GPU_WHEEL=ON", *defines],
        ["--build", folder, "--target", COMPONENT],
        ["--install", folder, "--component", COMPONENT, "--strip", "--prefix", installed],
    ]  # fmt: skip
    for words in commands:
        status = subprocess.run(["cmake", *words], check=False).returncode
        if status:
            sys.exit(f"cmake {words[0]}: exit status {status}; there is no wheel without an engine")


def _metadata(name: str, project: dict[str, Any]) -> str:
    return f"""\
Metadata-Version: 2.1
Name: {name}
Version: {project["version"]}
Summary: The GPU engine of raggeddnn, for {name.removeprefix("raggeddnn-")}
License: {project["license"]}
Requires-Python: {project["requires-python"]}
Requires-Dist: raggeddnn~={project["version"]}
"""


def _pack(installed: Path, folder: Path) -> str:
    """Writes the wheel of what was installed; returns its name."""
    project = _pyproject()["project"]
    (record,) = installed.rglob("*.json")
    name = json.loads(record.read_text(encoding="utf-8"))["distribution"]
    stem = f"{name.replace('-', '_')}-{project['version']}"
    tag = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
    files = {
        f"raggeddnn/{path.relative_to(installed).as_posix()}": path.read_bytes()
        for path in sorted(installed.rglob("*"))
        if path.is_file()
    }
    info = f"{stem}.dist-info"
    files[f"{info}/METADATA"] = _metadata(name, project).encode()
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: raggeddnn\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    )
    lines = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        lines.append(f"{path},sha256={digest},{len(data)}\n")
    files[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"]).encode()
    wheel = folder / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path)  # of no date: the same bytes from the same files
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return wheel.name
