"""The backward pass on a GPU: every named case but those in double, in all types. On a GPU by
``pytest -m gpu``; ``test_gpu_on_host.py`` runs some of it on a fake one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import hidden_pairs
import numpy as np
import pytest
import raggeddnn as rd
from gpu_runtime import ENGINE, Runtime
from raggeddnn.testing import CASES
from raggeddnn.testing.gradients import make_backward
from raggeddnn.testing.graphs_backward import run_and_check_backward, sdpa_backward_graph

pytestmark = pytest.mark.gpu
READ = [case for case in CASES if case.dtype == "float32"]


class PlanOnGpu:
    """A plan that takes the host's arrays, and works on copies on the GPU."""

    def __init__(self, graph: rd.Graph) -> None:
        self.gpu = Runtime()
        self.plan = graph.build(rd.Handle(device=self.gpu.device), engine=ENGINE)
        self.engine_name = self.plan.engine_name

    def execute(self, pack: dict[Any, Any]) -> None:
        arrays = {t: x for t, x in pack.items() if isinstance(x, np.ndarray) and x.ndim}
        there = {t: self.gpu.tensor(x) for t, x in arrays.items()}
        self.plan.execute({**pack, **there})
        for tensor, array in arrays.items():
            array[...] = there[tensor].numpy().reshape(array.shape)


@pytest.mark.parametrize("case", READ, ids=lambda case: case.name)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_case(case, dtype):
    if case.name == "very-loud" and dtype != "float32":
        pytest.skip("its products exceed float, in which the kernels sum")
    back = make_backward(replace(case, dtype=dtype))
    graph = sdpa_backward_graph(back)
    run_and_check_backward(graph, PlanOnGpu(graph.graph), back)


@pytest.mark.parametrize("name", hidden_pairs.CASES)
def test_what_meets_nothing_may_be_large(name):
    hidden_pairs.check_unseen_rows(name, lambda graph: PlanOnGpu(graph.graph))


def test_a_hidden_pair_may_overflow():
    hidden_pairs.check_early_rows_and_late_keys(lambda graph: PlanOnGpu(graph.graph))
