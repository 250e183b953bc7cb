"""The time of a batch is that of its sequences, however they are mixed and whatever bound their
lengths are stated with. Times are processor time, of one thread, so that other programs hardly
disturb them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import raggeddnn as rd
from raggeddnn.testing.checks import is_reference

HEADS, DIM = 4, 64
ROWS = 2048
MIXES = {
    "one": [ROWS],
    "equal": [ROWS // 16] * 16,
    "one-and-many": [ROWS - 128, *[1] * 128],
    "many": [1] * ROWS,
}

# Rounds for a second at least: a call of half a millisecond can meet a neighbour of this processor
# that halves its speed for longer than a few rounds take.
REPORT_TIMES = """
import os, sys, time
os.environ["OMP_NUM_THREADS"] = "1"

def report_times(calls):
    best = [float("inf")] * len(calls)
    rounds, end = 0, time.monotonic() + 1
    while rounds < 6 or time.monotonic() < end:
        for i, run in enumerate(calls):
            start = time.thread_time()
            run()
            best[i] = min(best[i], time.thread_time() - start)
        rounds += 1
    print(*best)
"""

TIMES = f"""
import numpy as np
import raggeddnn as rd

def call(lengths, limit):
    rng = np.random.default_rng(0)
    shape = (sum(lengths), {HEADS}, {DIM})
    q, k, v = (rng.standard_normal(shape, dtype=np.float32) for _ in range(3))
    cu = np.cumsum([0, *lengths], dtype=np.int32)
    def run():
        rd.varlen.sdpa(q, k, v, cu, cu, max_seqlen_q=limit, max_seqlen_k=limit, engine=sys.argv[1])
    return run

report_times([call(*work) for work in eval(sys.argv[2])])
"""


BACKWARD_TIMES = """
import numpy as np
from raggeddnn.testing import Case, make_backward, make_problem
from raggeddnn.testing.graphs_backward import sdpa_backward_graph

def call(lengths, options, hides):
    problem = make_problem(Case("times", lengths, lengths, **options))
    if hides:  # all but blocks of 64 on the diagonal
        block = np.arange(problem.bias.shape[-1]) // 64
        problem.bias[..., block[:, None] != block] = -np.inf
    back = make_backward(problem)
    graph = sdpa_backward_graph(back, with_dbias=False)
    plan = graph.build(sys.argv[1])
    gradients = graph.new_gradients(back, 0.0)
    outputs = {graph.tensors[name]: array for name, array in gradients.items()}
    pack = {**graph.inputs(back), **outputs}
    return lambda: plan.execute(pack)

report_times([call(*work) for work in eval(sys.argv[2])])
"""


@pytest.fixture
def times(engine: str) -> Callable[..., list[float]]:
    """The least seconds of each (lengths, stated bound)."""
    return lambda *work: measured(engine, TIMES, work)


@pytest.fixture
def backward_times(engine: str) -> Callable[..., list[float]]:
    """The least seconds of the backward pass of each (lengths, options of the case, whether its
    bias hides all but a few keys).
    """
    return lambda *work: measured(engine, BACKWARD_TIMES, work)


def measured(engine: str, code: str, work: tuple[Any, ...]) -> list[float]:
    if is_reference(engine):
        pytest.skip("the reference engine is not there for speed")
    command = [sys.executable, "-c", REPORT_TIMES + code, engine, repr(work)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    return [float(word) for word in done.stdout.split()]


@pytest.mark.parametrize("name", list(MIXES))
def test_t36_a_loose_bound_of_the_lengths_costs_nothing(times, name):
    lengths = MIXES[name]
    exact, loose = times((lengths, max(lengths)), (lengths, 8 * max(lengths)))
    assert loose <= 1.3 * exact


def test_t36_a_mixed_batch_takes_the_time_of_its_parts(times):
    one, *many = MIXES["one-and-many"]
    both, first, rest = times(([one, *many], one), ([one], one), (many, one))
    assert both <= 1.3 * (first + rest)


def test_t36_short_sequences_cost_their_rows(times):
    # As much work a row as in one sequence of 64, and no padding.
    short, longer = times(([1 + i % 16 for i in range(64)], 16), ([64] * 16, 64))
    assert short / sum(1 + i % 16 for i in range(64)) <= 1.3 * longer / 1024


def test_gradients_of_short_sequences_cost_their_rows(backward_times):
    # Each sequence has a task, and a panel of one row; but no more than that.
    options = {"heads": (HEADS,) * 3, "d": DIM}
    short, longer = backward_times(((1,) * ROWS, options, False), ((64,) * 32, options, False))
    assert short <= 3 * longer


def test_gradients_under_a_bias_that_hides_almost_all_cost_no_more(backward_times):
    options = {"heads": (1, 1, 1), "d": DIM, "bias": "11qk", "bias_fill": "0"}
    plain, hidden = backward_times(((ROWS,), options, False), ((ROWS,), options, True))
    assert hidden <= 1.3 * plain


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_gradients_under_a_bias_of_any_type_take_little_longer(backward_times, dtype):
    options = {"heads": (HEADS,) * 3, "d": DIM, "dtype": dtype}
    biased = {**options, "bias": "11qk"}
    plain, bias = backward_times(((512,), options, False), ((512,), biased, False))
    assert bias <= 2 * plain


def test_t36_a_hundred_sets_of_lengths_build_no_plan(engine, monkeypatch):
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((ROWS, 1, 8), dtype=np.float32) for _ in range(3))

    def run(cuts: list[int]) -> None:
        cu = np.array([0, *sorted(cuts), ROWS], np.int32)
        limits = {"max_seqlen_q": ROWS, "max_seqlen_k": ROWS}
        rd.varlen.sdpa(q[:ROWS], k, v, cu, cu, engine=engine, **limits)

    run([1, 2, 3])
    builds = []
    build = rd.Graph.build
    monkeypatch.setattr(
        rd.Graph, "build", lambda *args, **options: builds.append(1) or build(*args, **options)
    )
    for _ in range(100):
        run(rng.integers(0, ROWS // 2, 3).tolist())  # the last is long: a plan is for powers of two
    assert not builds
    # The count sees a build where there is one.
    run([1, 2, 3, 4])
    assert builds
