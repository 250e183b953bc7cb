"""Makes ``_core.pyi`` from the compiled module; ``python tests/stubs.py`` writes it.

pybind11-stubgen reads the docstrings; what it cannot know is put right here, by rule: members of
enumerations get their values, a parameter that defaults to None may be None, and a bare ``dict``
or ``tuple`` is one of anything. Needs pybind11-stubgen, and ruff to write the file.
"""

from __future__ import annotations

import ast
import enum
import subprocess
import sys
import tempfile
from pathlib import Path

import raggeddnn._core as core

TARGET = Path(__file__).resolve().parent.parent / "python" / "raggeddnn" / "_core.pyi"
BARE = {"dict": "dict[typing.Any, typing.Any]", "tuple": "tuple[typing.Any, ...]"}


def _generate() -> str:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pybind11_stubgen", "raggeddnn._core", "-o", folder]
        enums = "|".join(name for name, value in vars(core).items() if _is_enum(value))
        options = ["--exit-code", "--enum-class-locations", f"({enums}):raggeddnn._core"]
        done = subprocess.run(
            command + options, capture_output=True, text=True, check=False, cwd=folder
        )
        if done.returncode != 0:
            raise RuntimeError(f"pybind11-stubgen failed:\n{done.stdout}{done.stderr}")
        return Path(folder, "raggeddnn", "_core.pyi").read_text(encoding="utf-8")


def _is_enum(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, enum.Enum)


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


class _Corrections(ast.NodeTransformer):
    def visit_Module(self, node: ast.Module) -> ast.Module:
        self.generic_visit(node)
        node.body = [part for part in node.body if not self._is_dunder_all(part)]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        cls = getattr(core, node.name)
        if not _is_enum(cls):
            self.generic_visit(node)
            return node
        docstring = [part for part in node.body if isinstance(part, ast.Expr)]
        members = [f"{name} = {member.value!r}" for name, member in cls.__members__.items()]
        node.body = [*docstring, *ast.parse("\n".join(members)).body]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        arguments = node.args
        positional = arguments.posonlyargs + arguments.args
        defaults = arguments.defaults
        pairs = list(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
        pairs += [
            (argument, default)
            for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if default is not None
        ]
        for argument, default in pairs:
            if isinstance(default, ast.Constant) and default.value is None and argument.annotation:
                text = ast.unparse(argument.annotation)
                if text != "typing.Any" and "None" not in text:
                    argument.annotation = _expression(f"{text} | None")
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return _expression(BARE[node.id]) if node.id in BARE else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.Subscript:
        node.slice = self.visit(node.slice)  # and not the name: it has its arguments
        return node

    @staticmethod
    def _is_dunder_all(node: ast.stmt) -> bool:
        return isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "__all__"


def corrected_tree() -> ast.Module:
    """The stub's syntax tree, as it should be."""
    tree = ast.fix_missing_locations(_Corrections().visit(ast.parse(_generate())))
    # From text again, so that it compares equal to a file's.
    return ast.parse(ast.unparse(tree))


def main() -> None:
    TARGET.write_text(ast.unparse(corrected_tree()) + "\n", encoding="utf-8")
    style = ["--isolated", "--line-length", "100", "--target-version", "py310"]
    subprocess.run(["ruff", "format", "--quiet", *style, TARGET], check=True)


if __name__ == "__main__":
    main()
