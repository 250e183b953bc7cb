"""Runtime scalars, executed: both runtime states, and one plan for any number of values."""

from __future__ import annotations

import resource
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import raggeddnn as rd
from raggeddnn.testing import Case, make_problem
from raggeddnn.testing.checks import run_and_check
from raggeddnn.testing.graphs import sdpa_graph


@pytest.mark.parametrize("state", ["runtime", "runtime_default"])
def test_both_runtime_states_on_every_engine(build, state):
    case = Case("s", (5, 0, 9), (7, 3, 9), heads=(2, 1, 1), scale=0.25, scale_state=state)
    problem = make_problem(case)
    sdpa = sdpa_graph(problem)
    assert sdpa.graph.min_reader_version == 1
    run_and_check(sdpa, build(sdpa), problem)


def one_row_plan(engine: str) -> tuple[rd.ExecutionPlan, dict[int, np.ndarray], int]:
    """A plan whose output tells its scale: two keys with scores 0 and scale, values 0 and 1."""
    graph = rd.Graph(io_data_type=rd.DataType.FLOAT)
    q = graph.tensor(name="q", dim=[1, 1, 1, 1], uid=1)
    k = graph.tensor(name="k", dim=[1, 1, 2, 1], uid=2)
    v = graph.tensor(name="v", dim=[1, 1, 2, 1], uid=3)
    scale = rd.TensorAttributes().set_name("scale").set_uid(9).set_data_type(rd.DataType.FLOAT)
    o, _ = graph.sdpa(q, k, v, attn_scale=graph.tensor(scale.set_as_runtime_parameter()))
    o.set_output(True).set_uid(4)
    arrays = {
        1: np.ones(1, np.float32),
        2: np.array([0, 1], np.float32),
        3: np.array([0, 1], np.float32),
    }
    return graph.build(engine=engine), arrays, 4


def resident_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def test_ten_thousand_executes_from_four_threads_with_changing_scale(engine):
    plan, arrays, out = one_row_plan(engine)
    threads, each = 4, 2500

    def work(thread: int) -> float:
        worst = 0.0
        o = np.empty(1, np.float32)
        pack = {**arrays, out: o}
        for turn in range(each):
            scale = (thread * each + turn) / 1000 - 5
            plan.execute({**pack, 9: scale})
            expected = 1 / (1 + np.exp(-np.float64(np.float32(scale))))
            worst = max(worst, abs(float(o[0]) - expected))
        return worst

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))  # every thread has what it keeps
        before = resident_bytes()
        worst = max(pool.map(work, range(threads)))
    assert worst <= 4 * np.finfo(np.float32).eps
    assert resident_bytes() - before < 2**21, "executing must not keep memory"
