"""The table of pass_by_value_matrix.py names tests that exist."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from pass_by_value_matrix import MATRIX


@pytest.mark.parametrize("bullet", MATRIX)
def test_every_test_named_for_a_bullet_exists(bullet):
    assert MATRIX[bullet]
    for name in MATRIX[bullet]:
        file, function = name.split("::")
        tree = ast.parse((Path(__file__).parent / file).read_text(encoding="utf-8"))
        defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert function in defined, f"{bullet}: {file} has no {function}"
