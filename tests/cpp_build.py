"""Builds the C++ checks and the fake plugins of ``tests/`` once, on demand.

``built_plugin("name")`` compiles ``tests/plugins/name.c`` or ``.cpp`` (headers only, seconds) and
returns the path of the shared library; ``built_check("test_name")`` does the same for a program of
``tests/cpp``. Whatever goes wrong, a missing compiler included, fails the test.

Environment:
    RAGGEDDNN_TEST_BUILD_DIR  the build folder, kept between runs; default ``build/tests``
    RAGGEDDNN_TEST_SANITIZE   sanitizers of the whole C++ part, e.g. ``address,undefined``
"""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# The tools that pip put beside this Python first, which need not be on the caller's PATH.
TOOL_PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
SANITIZE = os.environ.get("RAGGEDDNN_TEST_SANITIZE", "")
# Lines in reports, assertions on, and optimised enough to be quick.
SANITIZE_OPTIONS = (
    f"-DRAGGEDDNN_SANITIZE={SANITIZE}",
    "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
    "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -g1",
    "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1",
)


def build_folder() -> Path:
    """Where the project is built for the tests; sanitized builds have a folder of their own."""
    suffix = f"-{SANITIZE.replace(',', '-')}" if SANITIZE else ""
    default = ROOT / "build" / f"tests{suffix}"
    return Path(os.environ.get("RAGGEDDNN_TEST_BUILD_DIR") or default).resolve()


@contextmanager
def _only_one() -> Iterator[None]:
    """One process at a time, so that parallel test runs may share the folder."""
    folder = build_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(command: Sequence[str | os.PathLike[str]], environ: dict[str, str] | None = None) -> str:
    """Run a command and return its output; fail the test with that output when it fails."""
    words = [os.fspath(word) for word in command]
    tool = shutil.which(words[0], path=TOOL_PATH)
    if tool is None:
        pytest.fail(f"{words[0]} not found: the C++ tests need a compiler and CMake", pytrace=False)
    # A preloaded sanitizer is for this Python, not for compilers, nor for programs linked with one.
    inherited = {name: text for name, text in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run(
        [tool, *words[1:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        env={**inherited, "PATH": TOOL_PATH, **(environ or {})},
    )
    if done.returncode != 0:
        lines = "\n".join(done.stdout.splitlines()[-60:])
        pytest.fail(f"{' '.join(words)}: exit status {done.returncode}\n{lines}", pytrace=False)
    return done.stdout


def configure(source: Path, folder: Path, *options: str) -> None:
    """Configure a CMake project with this Python and, where present, Ninja."""
    fresh = not (folder / "CMakeCache.txt").exists()
    generator = ["-G", "Ninja"] if fresh and shutil.which("ninja", path=TOOL_PATH) else []
    python = f"-DPython_EXECUTABLE={sys.executable}"
    run(["cmake", "-S", source, "-B", folder, *generator, python, *options])


@functools.cache
def _configured() -> Path:
    folder = build_folder()
    with _only_one():
        configure(
            ROOT,
            folder,
            "-DRAGGEDDNN_BUILD_TESTS=ON",
            "-DRAGGEDDNN_BUILD_PYTHON=OFF",
            *(SANITIZE_OPTIONS if SANITIZE else ()),
        )
    return folder


def build_target(target: str) -> Path:
    """Build one CMake target of the project; returns the build folder."""
    folder = _configured()
    jobs = str(os.cpu_count() or 1)
    with _only_one():
        run(["cmake", "--build", folder, "--target", target, "-j", jobs])
    return folder


@functools.cache
def built_plugin(name: str) -> Path:
    """The compiled fake plugin of ``tests/plugins/<name>.c`` or ``.cpp``."""
    return build_target(f"plugin_{name}") / "plugins" / f"lib{name}.so"


@functools.cache
def built_check(name: str) -> Path:
    """The compiled program of ``tests/cpp/<name>.cpp``."""
    return build_target(name) / "checks" / name
