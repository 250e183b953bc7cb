"""The order of work that an execute leaves in its workspace, taken as it is by executes of plans
with the knob ``reuse_schedule``. On emulated waves.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import raggeddnn as rd
from metadata_faults import FAULTS, address, put
from plugins.fakes import load
from raggeddnn.testing import Case, make_problem
from raggeddnn.testing.checks import assert_same_bits
from raggeddnn.testing.gradients import make_backward
from raggeddnn.testing.graphs import sdpa_graph
from raggeddnn.testing.graphs_backward import sdpa_backward_graph

ARCHITECTURES = ("nvidia", "hopper", "cdna", "rdna3", "rdna4")
KNOB = {"reuse_schedule": 1}
CASE = Case(
    "reuse",
    lens_q=(5, 0, 130, 40, 1),
    lens_kv=(9, 4, 70, 0, 33),
    heads=(4, 2, 2),
    d=128,
    dtype="bfloat16",
    layout="slack",
    causal=True,
)
OTHER = replace(CASE, lens_q=(66, 3), lens_kv=(2, 190))
MANY = replace(CASE, lens_q=(1, 2) * 140, lens_kv=(3, 1) * 140, heads=(1, 1, 1), d=16)
GARBAGE = 0xA5


@pytest.fixture(params=ARCHITECTURES)
def engine(request):
    load(f"emulated_{request.param}")
    return f"EMULATED_{request.param.upper()}_ENGINE"


class Pass:
    """One pass of a case: plans without and with the knob, of one graph, and a workspace."""

    def __init__(self, name: str, case: Case, engine: str) -> None:
        if name == "forward":
            problem = make_problem(case)
            graph = sdpa_graph(problem)
            self.outputs = graph.new_outputs(problem, 0)
            self.pack = graph.pack(problem, self.outputs)
        else:
            back = make_backward(case)
            graph = sdpa_backward_graph(back)
            self.outputs = graph.new_gradients(back, 0)
            outputs = {graph.tensors[name]: array for name, array in self.outputs.items()}
            self.pack = {**graph.inputs(back), **outputs}
        self.graph = graph
        self.first, self.again = (
            graph.graph.build(engine=engine, knobs=knobs) for knobs in (None, KNOB)
        )
        self.workspace = np.full(self.first.workspace_size, GARBAGE, np.uint8)

    def run(self, plan: rd.ExecutionPlan) -> dict[str, np.ndarray]:
        """What it makes, of memory that no one checks before."""
        for array in self.outputs.values():
            array.fill(7)
        pack = {tensor: address(value) for tensor, value in self.pack.items()}
        plan.execute(pack, workspace=self.workspace)
        return {name: array.copy() for name, array in self.outputs.items()}

    def tables(self) -> dict[rd.TensorAttributes, np.ndarray]:
        """Offsets and lengths."""
        found = {
            tensor: value
            for tensor, value in self.pack.items()
            if isinstance(value, np.ndarray) and value.dtype.kind == "i"
        }
        assert found
        return found

    def forget_tables(self) -> None:
        """No sequence has rows any more."""
        for table in self.tables().values():
            table.fill(0)


def assert_same(results, expected) -> None:
    assert results.keys() == expected.keys()
    for name, array in expected.items():
        assert_same_bits(results[name], array, name)


def differ(results, expected) -> bool:
    return any((results[n].view(np.uint8) != expected[n].view(np.uint8)).any() for n in expected)


@pytest.mark.parametrize("case", [CASE, MANY], ids=["mixed", "many"])
@pytest.mark.parametrize("name", ["forward", "backward"])
def test_what_is_there_is_taken(engine, name, case):
    one = Pass(name, case, engine)
    expected = one.run(one.first)
    one.forget_tables()
    for _ in range(3):
        assert_same(one.run(one.again), expected)
    # Without the knob, they are read.
    assert differ(one.run(one.first), expected)


@pytest.mark.parametrize("begin", [0, 64], ids=["all", "all-but-its-beginning"])
@pytest.mark.parametrize("name", ["forward", "backward"])
def test_what_is_not_there_is_made(engine, name, begin):
    """The workspace's beginning says what is there."""
    one = Pass(name, CASE, engine)
    expected = one.run(one.again)
    one.forget_tables()
    assert_same(one.run(one.again), expected)
    one.workspace[begin:] = GARBAGE
    assert differ(one.run(one.again), expected)


@pytest.mark.parametrize("name", ["forward", "backward"])
@pytest.mark.parametrize("other", ["forward", "backward"])
def test_another_graph_s_is_not_taken(engine, name, other):
    one, two = Pass(name, CASE, engine), Pass(other, OTHER, engine)
    shared = np.full(max(x.workspace.nbytes for x in (one, two)), GARBAGE, np.uint8)
    one.workspace = two.workspace = shared
    expected = one.run(one.first), two.run(two.first)
    for x, results in zip((one, two) * 2, expected * 2, strict=True):
        assert_same(x.run(x.again), results)


@pytest.mark.parametrize("name", ["forward", "backward"])
def test_tables_elsewhere_are_others(engine, name):
    one = Pass(name, CASE, engine)
    expected = one.run(one.first)
    one.pack.update({tensor: np.zeros_like(table) for tensor, table in one.tables().items()})
    assert differ(one.run(one.again), expected)


def test_new_lengths_are_those_of_the_last_execute_without_the_knob(engine):
    one = Pass("forward", CASE, engine)
    one.run(one.first)
    one.forget_tables()
    nothing = one.run(one.first)
    assert_same(one.run(one.again), nothing)


def test_a_saved_plan_keeps_the_knob(engine):
    one = Pass("forward", CASE, engine)
    expected = one.run(one.first)
    one.forget_tables()
    restored = rd.ExecutionPlan.deserialize(one.again.serialize(), rd.Handle())
    assert_same(one.run(restored), expected)


def test_faults_are_those_of_the_execute_that_read_the_tables(engine):
    one = Pass("forward", replace(CASE, offset_unit="element", index_dtype="int64"), engine)
    put(FAULTS[0], "q", one.graph, one.pack)
    one.run(one.first)
    fault = one.first.metadata_faults(one.workspace)
    assert fault
    one.forget_tables()
    one.run(one.again)
    assert one.again.metadata_faults(one.workspace) == fault
    one.run(one.first)
    assert one.first.metadata_faults(one.workspace) is None


@pytest.mark.parametrize("value", [2, -1])
def test_the_knob_is_0_or_1(engine, value):
    graph = sdpa_graph(make_problem(CASE)).graph
    with pytest.raises(rd.InvalidValueError, match=f"'reuse_schedule' is {value}, expected 0 or 1"):
        graph.build(engine=engine, knobs={"reuse_schedule": value})


def test_engines_without_schedules_have_no_such_knob():
    graph = sdpa_graph(make_problem(CASE)).graph
    for engine in ("RAGGEDDNN_CPU_ENGINE", "RAGGEDDNN_REFERENCE_ENGINE"):
        with pytest.raises(rd.InvalidValueError, match="has no knob 'reuse_schedule'"):
            graph.build(engine=engine, knobs=KNOB)
