"""The shape of the tree: which layer may include which, what the package may import, file sizes.

Each rule is a function from a path and a text to the violations found; the samples below show that
each of them can fail.
"""

from __future__ import annotations

import ast
import fnmatch
import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import pytest
from lazy_imports import LAZY_IMPORTS

ROOT = Path(__file__).resolve().parent.parent

# Layers of cpp/raggeddnn and the other layers that each may include.
LAYERS = {
    "base": set(),
    "tensor": {"base"},
    "schema": {"base", "tensor"},
    "graph": {"base", "tensor", "schema"},
    "plugin": {"base", "tensor", "schema"},
    "backend": {"base", "tensor", "schema", "graph", "plugin"},
    "testing": {"base", "tensor", "schema", "graph", "plugin", "backend"},
}
ENGINE_MAY = {"base", "tensor", "schema", "plugin"}
GPU_KERNELS = "cpp/engines/hip/attention/"  # knows maths: plain parameters, nothing of the wire
KERNELS_MAY = {"raggeddnn/plugin/philox.hpp"}  # from numbers to numbers, and the same everywhere

# Headers from outside, and the layers that may include them ("engines" is any engine).
OUTSIDE = {
    r"flatbuffers/": {"schema", "graph", "plugin", "backend", "testing", "engines"},
    r"nlohmann/": {"schema"},
    r"dlfcn\.h": {"tensor", "backend", "testing", "engines"},
    r"pybind11/|Python\.h": {"bindings"},
    r"hip/|hip\w+\.h|rocwmma/|cuda|cu\w+\.h|nv\w+\.h|mma\.h|cute/|cutlass/": {"engines/hip"},
}
MAX_LINES = 500
TOP_LEVEL = {
    "pyproject.toml",
    "CMakeLists.txt",
    "README.md",
    "cpp",
    "python",
    "schemas",
    "tests",
    "benchmarks",
}
TORCH = "python/raggeddnn/torch/"  # of PyTorch, and imported by nothing else but the examples
MODELS = "python/raggeddnn/examples/_"  # imported when an example runs
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
CODE_SUFFIXES = (".cpp", ".hpp", ".h", ".c", ".hip", ".py")


def files(*folders: str, suffixes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Path (from the top, with slashes) and text of every file of a kind."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and path.is_file():
                yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def layer_of(path: str) -> str:
    """The layer of a file: a folder of cpp/raggeddnn, ``engines/<name>`` or ``bindings``."""
    parts = PurePosixPath(path).parts
    if parts[:2] == ("cpp", "raggeddnn"):
        return parts[2]
    if parts[:2] == ("cpp", "engines"):
        return f"engines/{parts[2]}"
    return "bindings" if parts[:2] == ("python", "bindings") else ""


def included_path(path: str, name: str) -> str:
    """Where an include leads, from the top; the name itself for a header from outside."""
    if name.startswith(("raggeddnn/", "engines/")):
        return f"cpp/{name}"
    parts: list[str] = []
    for part in (PurePosixPath(path).parent / name).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    here = "/".join(parts)
    if name.startswith("..") or (ROOT / here).is_file():
        return here
    engine = "/".join(PurePosixPath(path).parts[:3]) + f"/{name}"
    return engine if (ROOT / engine).is_file() else name


def may_include(layer: str, other: str) -> bool:
    if layer == other:
        return True
    if layer == "bindings":
        return other in LAYERS
    if layer.startswith("engines/"):
        return other in ENGINE_MAY
    return other in LAYERS.get(layer, set())


def wrong_includes(path: str, text: str) -> list[str]:
    layer = layer_of(path)
    kind = layer.split("/")[0]
    found = []
    if kind not in {"engines", "bindings"} and layer not in LAYERS:
        found.append(f"{path}: {layer} is no layer")
    for _, name in INCLUDE.findall(text):
        target = included_path(path, name)
        other = layer_of(target)
        if other and not may_include(layer, other):
            found.append(f"{path}: {layer} includes {name} of {other}")
        is_wire = other in ("schema", "plugin") and name not in KERNELS_MAY
        if path.startswith(GPU_KERNELS) and is_wire:
            found.append(f"{path}: a kernel includes {name} of {other}")
        for pattern, allowed in OUTSIDE.items():
            if not other and re.match(pattern, name) and not {layer, kind} & allowed:
                found.append(f"{path}: {layer} includes {name}")
        is_ours = other and name.endswith(".h") and not name.endswith("_generated.h")
        if path.endswith(".h") and name not in ("stddef.h", "stdint.h") and not is_ours:
            found.append(f"{path}: a C header includes {name}")
    return found


def named_engines(path: str, text: str) -> list[str]:
    names = re.findall(r'"(?:RAGGEDDNN_\w+_ENGINE|raggeddnn_(?:reference|cpu|hip))"', text)
    return [f"{path}: names the engine {name}" for name in names]


def wrong_header_start(path: str, text: str) -> list[str]:
    """A leading comment says why the header exists; then the guard."""
    if not text.startswith(("//", "/*")):
        return [f"{path}: expected a comment at the start"]
    code = re.sub(r"\A(?:\s*//[^\n]*\n|\s*/\*.*?\*/\s*)+", "", text, flags=re.DOTALL)
    is_c_guard = path.endswith(".h") and re.match(r"#ifndef (\w+)\n#define \1\n", code)
    if not is_c_guard and not code.startswith("#pragma once\n"):
        return [f"{path}: expected #pragma once after the leading comment"]
    return []


def too_long(path: str, text: str) -> list[str]:
    count = len(text.splitlines())
    return [f"{path}: {count} lines, expected at most {MAX_LINES}"] if count > MAX_LINES else []


def module_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run at import, ``if TYPE_CHECKING`` aside."""
    for statement in body:
        is_for_types = isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(statement.test)
        if is_for_types or isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        yield statement
        for field in ("body", "orelse", "handlers", "finalbody"):
            yield from module_level(getattr(statement, field, None) or [])


def eager_imports(path: str, text: str) -> list[str]:
    lazy = LAZY_IMPORTS
    if path.startswith((TORCH, MODELS)):
        lazy = lazy - {"torch"}
    if path.startswith(MODELS):
        lazy = lazy - {"safetensors"}
    found = []
    for statement in module_level(ast.parse(text).body):
        names = [alias.name for alias in getattr(statement, "names", []) if hasattr(alias, "name")]
        if isinstance(statement, ast.ImportFrom):
            # `from . import torch` is raggeddnn.torch, which imports torch.
            names = [statement.module] if statement.module else names
        elif not isinstance(statement, ast.Import):
            continue
        for name in names:
            if name.removeprefix("raggeddnn.").split(".")[0] in lazy:
                found.append(f"{path}: imports {name} at module level")
    return found


def stray_top_level(names: list[str], ignored: list[str]) -> list[str]:
    return [
        name
        for name in names
        if name not in TOP_LEVEL
        and not name.startswith(".")
        and not any(fnmatch.fnmatch(name, pattern.rstrip("/")) for pattern in ignored)
    ]


CPP = ("cpp/raggeddnn", "cpp/engines", "python/bindings")
CPP_SUFFIXES = (".cpp", ".hpp", ".h", ".hip")
HEADERS = (".hpp", ".h")
Rule = Callable[[str, str], list[str]]
RULES: list[tuple[Rule, tuple[str, ...], tuple[str, ...]]] = [
    (wrong_includes, CPP, CPP_SUFFIXES),
    (named_engines, ("cpp/raggeddnn",), CPP_SUFFIXES),
    (wrong_header_start, (*CPP, "tests"), HEADERS),
    (too_long, ("cpp", "python", "tests", "benchmarks"), CODE_SUFFIXES),
    (eager_imports, ("python/raggeddnn",), (".py",)),
]


@pytest.mark.parametrize(
    ("rule", "folders", "suffixes"), RULES, ids=[rule.__name__ for rule, _, _ in RULES]
)
def test_tree(rule: Rule, folders: tuple[str, ...], suffixes: tuple[str, ...]) -> None:
    found: list[str] = []
    seen = 0
    for path, text in files(*folders, suffixes=suffixes):
        seen += 1
        found += rule(path, text)
    assert seen > 0
    assert not found, "\n".join(found)


def test_top_level() -> None:
    ignored = (ROOT / ".gitignore").read_text().split()
    assert not stray_top_level([path.name for path in ROOT.iterdir()], [*ignored, "PKG-INFO"])


ENGINE = "cpp/engines/reference/a.cpp"
GRAPH = "cpp/raggeddnn/graph/a.cpp"
KERNEL = f"{GPU_KERNELS}a.hpp"


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (wrong_includes, GRAPH, '#include "raggeddnn/backend/handle.hpp"\n'),
        (wrong_includes, GRAPH, '#include "raggeddnn/plugin/engine.hpp"\n'),
        (wrong_includes, GRAPH, "#  include <raggeddnn/plugin/engine.hpp>\n"),
        (wrong_includes, GRAPH, '#include "../backend/handle.hpp"\n'),
        (wrong_includes, GRAPH, "#include <dlfcn.h>\n"),
        (wrong_includes, "cpp/raggeddnn/base/a.hpp", '#include "raggeddnn/tensor/half.hpp"\n'),
        (wrong_includes, "cpp/raggeddnn/tensor/a.hpp", "#include <flatbuffers/flatbuffers.h>\n"),
        (wrong_includes, "cpp/raggeddnn/schema/a.cpp", '#include "raggeddnn/graph/graph.hpp"\n'),
        (wrong_includes, "cpp/raggeddnn/plugin/a.hpp", '#include "raggeddnn/graph/graph.hpp"\n'),
        (wrong_includes, "cpp/raggeddnn/plugin/a.h", "#include <string.h>\n"),
        (wrong_includes, "cpp/raggeddnn/plugin/a.h", '#include "raggeddnn/base/error.hpp"\n'),
        (wrong_includes, "cpp/raggeddnn/backend/a.cpp", "#include <hip/hip_runtime.h>\n"),
        (wrong_includes, "cpp/raggeddnn/backend/a.cpp", '#include "engines/cpu/kernel.hpp"\n'),
        (wrong_includes, "cpp/raggeddnn/extras/a.hpp", ""),
        (wrong_includes, ENGINE, '#include "raggeddnn/backend/handle.hpp"\n'),
        (wrong_includes, ENGINE, '#include "raggeddnn/graph/graph.hpp"\n'),
        (wrong_includes, ENGINE, '#include "../cpu/kernel.hpp"\n'),
        (wrong_includes, ENGINE, "#include <cuda_runtime.h>\n"),
        (wrong_includes, KERNEL, '#include "raggeddnn/plugin/engine.hpp"\n'),
        (wrong_includes, "python/bindings/a.cpp", '#include "engines/reference/plugin.hpp"\n'),
        (wrong_includes, "python/bindings/a.cpp", "#include <hip/hip_runtime.h>\n"),
        (named_engines, "cpp/raggeddnn/backend/a.cpp", 'f("RAGGEDDNN_REFERENCE_ENGINE");\n'),
        (wrong_header_start, "a.hpp", "#pragma once\n"),
        (wrong_header_start, "a.hpp", "// Why.\n#include <vector>\n#pragma once\n"),
        (wrong_header_start, "a.hpp", "// Why.\n#ifndef A_H\n#define A_H\n"),
        (wrong_header_start, "a.h", "/* Why. */\n#ifndef A_H\n#define B_H\n"),
        (too_long, "a.cpp", "\n" * (MAX_LINES + 1)),
        (eager_imports, "a.py", "import torch\n"),
        (eager_imports, "a.py", "import numpy, rich.table as t\n"),
        (eager_imports, "a.py", "try:\n    from matplotlib import pyplot\nexcept E:\n    pass\n"),
        (eager_imports, "a.py", "class A:\n    import ml_dtypes\n"),
        (eager_imports, "a.py", "try:\n    pass\nexcept E:\n    import torch\n"),
        (eager_imports, "a.py", "from . import torch\n"),
        (eager_imports, "a.py", "from .torch import varlen_attn\n"),
        (eager_imports, "a.py", "import raggeddnn.torch\n"),
        (eager_imports, TORCH + "a.py", "import transformers\n"),
        (eager_imports, MODELS + "a.py", "import transformers\n"),
        (eager_imports, "python/raggeddnn/examples/a.py", "import torch\n"),
    ],
)
def test_rules_can_fail(rule: Rule, path: str, text: str) -> None:
    assert len(rule(path, text)) == 1


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (wrong_includes, GRAPH, '#include "raggeddnn/schema/graph_generated.h"\n'),
        (wrong_includes, GRAPH, '// #include "raggeddnn/backend/handle.hpp"\n'),
        (wrong_includes, "cpp/raggeddnn/backend/a.h", '#include "raggeddnn/plugin/b.h"\n'),
        (wrong_includes, ENGINE, '#include "raggeddnn/plugin/export.hpp"\n'),
        (wrong_includes, "cpp/engines/hip/runtime.hpp", "#include <hip/hip_runtime.h>\n"),
        (wrong_includes, KERNEL, '#include "raggeddnn/plugin/philox.hpp"\n'),
        (wrong_header_start, "a.hpp", "// Why,\n// and how.\n#pragma once\n"),
        (wrong_header_start, "a.h", "/* Why.\n */\n#ifndef A_H\n#define A_H\n"),
        (too_long, "a.cpp", "\n" * MAX_LINES),
        (eager_imports, "a.py", "def f():\n    import torch\n"),
        (eager_imports, "a.py", "from . import varlen\n"),
        (eager_imports, "a.py", "from .varlen import torch_like\n"),
        (eager_imports, TORCH + "a.py", "import torch\nfrom torch import Tensor\n"),
        (eager_imports, MODELS + "a.py", "import torch\nfrom raggeddnn.torch import f\n"),
        (eager_imports, "a.py", "if TYPE_CHECKING:\n    import torch\n"),
    ],
)
def test_rules_can_pass(rule: Rule, path: str, text: str) -> None:
    assert rule(path, text) == []


def test_top_level_rule_can_fail() -> None:
    assert stray_top_level(["setup.py", "cpp", ".git", "build"], ["build/"]) == ["setup.py"]
