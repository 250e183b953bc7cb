"""The tables of what the two documents demand name tests that exist."""

from __future__ import annotations

import ast
from pathlib import Path

import pass_by_value_matrix
import pytest
import ragged_matrix

HERE = Path(__file__).parent
TABLES = {**pass_by_value_matrix.MATRIX, **ragged_matrix.MATRIX}


@pytest.mark.parametrize("statement", TABLES)
def test_every_test_named_for_a_statement_exists(statement):
    assert TABLES[statement]
    for name in TABLES[statement]:
        file, function = name.split("::")
        if "[" in function:
            function, program = function.rstrip("]").split("[")
            assert (HERE / "cpp" / f"{program}.cpp").is_file()
        tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
        defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert function in defined, f"{statement}: {file} has no {function}"


def test_no_statement_is_in_both_tables():
    assert len(TABLES) == len(pass_by_value_matrix.MATRIX) + len(ragged_matrix.MATRIX)
