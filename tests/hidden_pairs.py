"""Pairs of a query and a key that no mask lets see each other, whose products exceed float: they
add nothing to any gradient, also where they share a tile with pairs that do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from raggeddnn.testing import Case, make_problem
from raggeddnn.testing.checks import assert_same_bits
from raggeddnn.testing.gradients import GRADIENTS, BackwardProblem, make_backward
from raggeddnn.testing.graphs_backward import run_and_check_backward, sdpa_backward_graph
from raggeddnn.testing.oracle import visible_keys

LARGE = 3e38  # of bfloat16's range, which is float's

CASES = {
    # Keys from row 70 on are seen by none, queries before row 60 see none.
    "keys": Case("hidden-keys", (70, 3), (100, 2), causal=True, d=64, dtype="bfloat16"),
    "rows": Case("hidden-rows", (130,), (70,), causal=True, alignment="bottom_right", d=128,
                 dtype="bfloat16"),
    "window": Case("hidden-window", (20,), (90,), left_bound=3, right_bound=2, d=64,
                   dtype="bfloat16"),
}  # fmt: skip


def unseen(back: BackwardProblem) -> tuple[Any, Any]:
    """Which rows of queries and of keys meet none of the other side."""
    forward = back.forward
    rows = np.zeros(forward.q.shape[0], bool)
    keys = np.zeros(forward.k.shape[0], bool)
    for batch in range(forward.batch):
        of_q, of_k = forward.rows_of(batch)
        counts = (of_q.stop - of_q.start, of_k.stop - of_k.start)
        visible = visible_keys(*counts, forward.options)
        rows[of_q], keys[of_k] = ~visible.any(axis=1), ~visible.any(axis=0)
    return rows, keys


def check_unseen_rows(name: str, build: Any) -> None:
    """Their numbers change no gradient. ``build`` makes a plan of a graph."""
    back = make_backward(CASES[name])
    graph = sdpa_backward_graph(back)
    plan = build(graph)
    expected = graph.run_backward(plan, back, 0.0)
    rows, keys = unseen(back)
    assert rows.any() or keys.any()
    back.do[rows], back.forward.v[keys] = LARGE, LARGE
    got = graph.run_backward(plan, back, 0.0)
    for gradient in GRADIENTS:
        assert np.isfinite(expected[gradient].astype(float)).all()
        assert_same_bits(got[gradient], expected[gradient], gradient)


def check_early_rows_and_late_keys(build: Any) -> None:
    """Causal: no early row sees a late key, and each meets others of its own size."""
    problem = make_problem(Case("early-late", (90,), (90,), causal=True, d=64, dtype="bfloat16"))
    problem.v[45:] *= 1e20
    back = make_backward(problem)
    back.do[:45] *= 1e25
    graph = sdpa_backward_graph(back)
    run_and_check_backward(graph, build(graph), back)
