"""The library of a GPU's runtime where the dynamic loader does not look: in what pip installed.

Nothing is imported for it; ``cuda-bindings`` and ``hip-python`` are known by their objects' own
methods wherever one is taken.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from pathlib import Path

# Packages, and where in one the library is: CUDA's of version 13 and 12, and ROCm's.
_PLACES = (
    ("nvidia", "cu*/lib/libcudart.so.*"),
    ("nvidia", "cuda_runtime/lib/libcudart.so.*"),
    ("_rocm_sdk_core", "lib/libamdhip64.so.*"),
)


def _libraries() -> Iterator[Path]:
    for package, pattern in _PLACES:
        found = importlib.util.find_spec(package)
        for folder in (found and found.submodule_search_locations) or ():
            yield from sorted(Path(folder).glob(pattern))


def load_runtime() -> None:
    """Load the first that can be loaded; those who look for it by its name find it then."""
    for path in _libraries():
        try:
            ctypes.CDLL(str(path))
        except OSError:
            continue
        return
