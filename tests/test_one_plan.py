"""One graph, built once, executed with different offsets, lengths and run-time scales."""

from __future__ import annotations

from dataclasses import replace

import pytest
from raggeddnn.testing import Case, make_problem
from raggeddnn.testing.checks import run_and_check
from raggeddnn.testing.graphs import sdpa_graph

CAPACITY = 32
BASE = Case(
    "one-plan",
    (10, 22, 0, 0),
    (8, 3, 21, 0),
    heads=(4, 2, 2),
    causal=True,
    alignment="bottom_right",
    scale_state="runtime",
    scale=0.25,
    capacity=CAPACITY,
)
RUNS = [
    ((10, 22, 0, 0), (8, 3, 21, 0), 0.25),
    ((1, 1, 1, 29), (5, 0, 2, 25), -1.0),
    ((32, 0, 0, 0), (31, 0, 0, 1), 0.0),
    ((0, 0, 31, 1), (4, 4, 4, 4), 3.0),
    ((7, 7, 7, 7), (13, 2, 17, 0), 0.0625),
]


@pytest.mark.parametrize("layout", ["packed", "slack", "padded"])
@pytest.mark.parametrize("order", [1, -1], ids=["forwards", "backwards"])
def test_five_sets_of_lengths_and_scales_on_one_plan(build, layout, order):
    # Slack makes blocks longer than their sequences, and it is blocks that the capacity bounds.
    base = replace(BASE, layout=layout, capacity=CAPACITY + 8 * (layout == "slack"))
    sdpa = sdpa_graph(make_problem(base))
    plan = build(sdpa)
    workspace = plan.workspace_size
    for lens_q, lens_kv, scale in RUNS[::order]:
        problem = make_problem(replace(base, lens_q=lens_q, lens_kv=lens_kv, scale=scale))
        run_and_check(sdpa, plan, problem)
    assert plan.workspace_size == workspace


def test_a_plan_returns_to_its_first_result(build):
    sdpa = sdpa_graph(make_problem(BASE))
    plan = build(sdpa)
    problems = [
        make_problem(replace(BASE, lens_q=lens_q, lens_kv=lens_kv, scale=scale))
        for lens_q, lens_kv, scale in RUNS
    ]
    first = [sdpa.run(plan, problem, float("nan")) for problem in problems]
    again = [sdpa.run(plan, problem, float("nan")) for problem in problems]
    for before, after in zip(first, again, strict=True):
        assert before["o"].tobytes() == after["o"].tobytes()
        assert before["stats"].tobytes() == after["stats"].tobytes()
