"""``_core.pyi`` says what the compiled module says."""

from __future__ import annotations

import ast

import stubs


def test_stub_is_up_to_date() -> None:
    committed = ast.parse(stubs.TARGET.read_text(encoding="utf-8"))
    expected = stubs.corrected_tree()
    advice = "_core.pyi is out of date: run python tests/stubs.py"
    # Part by part, so that a failure shows the definition that differs.
    have = {_name_of(part): ast.unparse(part) for part in committed.body}
    want = {_name_of(part): ast.unparse(part) for part in expected.body}
    for name, text in want.items():
        assert have.get(name) == text, f"{advice}; {name} differs"
    assert list(have) == list(want), advice


def _name_of(part: ast.stmt) -> str:
    if isinstance(part, (ast.ClassDef, ast.FunctionDef)):
        return part.name
    return ast.unparse(part).split(":")[0]
