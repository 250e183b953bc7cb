"""Text that every Python has: the sources of its standard library.

The top-level modules are parsed, never imported, in a fixed order; files that cannot be read or
parsed are passed over. All of it differs between Python versions, as the library does.
"""

from __future__ import annotations

import ast
import functools
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path


def _modules() -> Iterator[tuple[bytes, ast.Module]]:
    """Source and tree of each module."""
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        try:
            source = path.read_bytes()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(source)
        except (OSError, SyntaxError, ValueError):
            continue
        yield source, tree


@functools.lru_cache(maxsize=1)
def docstrings() -> tuple[str, ...]:
    """The docstrings of modules, classes and functions that are not blank."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    found = []
    for _, tree in _modules():
        for node in ast.walk(tree):
            if isinstance(node, kinds):
                found.append(ast.get_docstring(node, clean=False) or "")
    return tuple(text for text in found if text.split())


@functools.lru_cache(maxsize=1)
def functions() -> tuple[bytes, ...]:
    """The lines of each function, without its decorators; of one within another too."""
    found = []
    for source, tree in _modules():
        lines = source.splitlines(keepends=True)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.append(b"".join(lines[node.lineno - 1 : node.end_lineno]))
    return tuple(found)
