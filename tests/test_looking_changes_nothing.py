"""Setters decide what a graph is, whether or not somebody looked at it in between."""

from __future__ import annotations

import json
from typing import Any

import pytest
import raggeddnn as rd
from hypothesis import example, given, settings
from hypothesis import strategies as st

Types = rd.DataType
LOOKS = (
    "validate", "explain", "render", "draft_json", "min_required_engine_api_version",
    "min_reader_version",
)  # fmt: skip


class Subject:
    """A product, what it is squeezed to, its sum, and attention's gradients, by name."""

    def __init__(self) -> None:
        # Inner tensors are FLOAT, others HALF.
        self.graph = g = rd.Graph(io_data_type=Types.HALF)
        ints = {"dim": [3, 1, 1, 1]}
        off = g.tensor(name="off", data_type=Types.INT32, **ints)
        off2 = g.tensor(name="off2", data_type=Types.INT64, **ints)
        ragged = {"ragged_offset": off, "ragged_offset_multiplier": 16}
        a = g.tensor(name="a", dim=[2, 2, 4, 8], **ragged)
        b = g.tensor(name="b", dim=[8, 4])
        s = g.tensor(rd.TensorAttributes().set_name("s").set_as_runtime_parameter())
        c = g.matmul(a, b)
        d = g.pointwise(rd.PointwiseMode.MUL, c, s)
        e = g.reduction(rd.ReductionMode.ADD, d).set_output(True)
        q = g.tensor(name="q", dim=[2, 2, 4, 8])
        self.stats = g.tensor(name="stats", dim=[2, 2, 4, 1], data_type=Types.FLOAT)
        f, *others = g.sdpa_backward(a, q, q, a, a, self.stats)
        for t in (f, *others):
            t.set_output(True)
        self.tensors = {
            "off": off, "off2": off2, "a": a, "b": b, "s": s, "c": c, "d": d, "e": e, "q": q,
            "f": f,
        }  # fmt: skip

    def add_node(self, of: str) -> None:
        """Gradients of a tensor, and another in its place; gradients take their operands' types."""
        for gradient in self.graph.sdpa_backward(*[self.tensors[of]] * 5, self.stats):
            gradient.set_output(True)
        self.tensors[of] = self.graph.pointwise(rd.PointwiseMode.RELU_FWD, self.tensors[of])

    def look(self, what: str) -> None:
        """What a look says of an unfinished graph is no matter here."""
        try:
            result = getattr(self.graph, what)
            if callable(result):
                result()
        except rd.Error:
            pass

    def change(self, of: str, setter: str, *arguments: Any) -> None:
        if setter == "add_node":
            return self.add_node(of)
        if setter == "set_ragged_offset" and arguments[0]:
            arguments = (self.tensors[arguments[0]],)
        try:
            getattr(self.tensors[of], setter)(*arguments)
        except rd.Error:  # of a number that the type set before cannot hold
            self.tensors[of].set_name("refused")

    def outcome(self) -> Any:
        """The finished graph but for its random id, or why there is none."""
        try:
            document = json.loads(self.graph.to_json())
        except rd.Error as error:
            return str(error)
        del document["id"]
        return document


def outcome_of(steps: list[tuple[str, ...]], looks: bool) -> Any:
    subject = Subject()
    for step in steps:
        if step[0] != "look":
            subject.change(*step)
        elif looks:
            subject.look(step[1])
    return subject.outcome()


ANY, RESULTS = st.sampled_from("abcdefqs"), st.sampled_from("cdef")
OFFSETS = st.sampled_from(["off", "off2", None])
DIMS = [[], [2, 2, 4, 8], [2, 2, 4, 4], [2, 2, 6, 8], [8, 4], [8, 6], [2, 2, 4, 1], [2, 2, 1, 1]]
STRIDES = [[], [32, 4, 8, 1], [32, 16, 4, 1], [64, 8, 16, 1], [1, 1, 1, 1]]
SETTERS = st.one_of(
    st.tuples(ANY, st.just("set_dim"), st.sampled_from(DIMS)),
    st.tuples(RESULTS, st.just("set_stride"), st.sampled_from(STRIDES)),
    st.tuples(ANY, st.just("set_ragged_offset"), OFFSETS),
    st.tuples(ANY, st.just("set_ragged_offset_multiplier"), st.sampled_from([1, 2, 4, 8, 16])),
    st.tuples(ANY, st.just("set_data_type"), st.sampled_from([Types.HALF, Types.FLOAT])),
    st.tuples(ANY, st.just("set_output"), st.booleans()),
    st.tuples(ANY, st.just("set_uid"), st.integers(1, 14)),
    st.tuples(ANY, st.just("clear_uid")),
    st.tuples(st.sampled_from("sc"), st.just("set_value"), st.sampled_from([0.1, 3, True])),
    st.tuples(st.sampled_from("sc"), st.just("set_as_runtime_parameter")),
    st.tuples(ANY, st.just("add_node")),
)
STEPS = st.lists(SETTERS | st.tuples(st.just("look"), st.sampled_from(LOOKS)), max_size=8)
EQUAL_TO_INFERRED = [
    ("c", "set_ragged_offset", "off"),
    ("c", "set_ragged_offset_multiplier", 8),
    ("a", "set_ragged_offset", "off2"),
]


@settings(max_examples=400, deadline=None, derandomize=True)
@given(STEPS)
@example([("look", "validate"), *EQUAL_TO_INFERRED])
@example([("look", "validate"), ("f", "set_uid", 1)])
@example([("look", "explain"), ("s", "set_value", 3)])
@example([("q", "add_node"), ("look", "validate"), ("q", "add_node")])
def test_the_same_setters_give_the_same_graph(steps):
    assert outcome_of(steps, looks=True) == outcome_of(steps, looks=False)


def test_most_of_these_graphs_can_be_finished():
    """Else the property would compare refusals only."""
    plain = [("look", "validate"), ("c", "set_data_type", Types.FLOAT), ("f", "set_uid", 1)]
    for steps in ([], plain, [("c", "set_dim", [2, 2, 4, 4])], 2 * [("q", "add_node")]):
        assert isinstance(outcome_of(steps, looks=True), dict), outcome_of(steps, looks=True)


def shown(t: rd.TensorAttributes) -> tuple[Any, ...]:
    aux = t.get_ragged_offset()
    return aux and aux.get_name(), t.get_ragged_offset_multiplier(), t.get_dim(), t.get_stride()


def test_what_was_set_is_kept_although_it_is_what_was_inferred():
    subject = Subject()
    c = subject.tensors["c"]
    subject.graph.validate()
    assert shown(c) == ("off", 8, [2, 2, 4, 4], [32, 4, 8, 1])
    for step in EQUAL_TO_INFERRED:
        subject.change(*step)
    subject.look("validate")
    assert shown(c)[:2] == ("off", 8)


def test_a_multiplier_that_was_inferred_goes_with_its_offsets():
    subject = Subject()
    c = subject.tensors["c"]
    subject.graph.validate()
    c.set_ragged_offset(subject.tensors["off2"])
    assert shown(c)[:2] == ("off2", 1)
    subject.look("validate")
    assert shown(c)[:2] == ("off2", 1)


@pytest.mark.parametrize("look", LOOKS)
def test_a_uid_that_nobody_set_makes_room(look):
    subject = Subject()
    subject.look(look)
    late = subject.graph.tensor(name="late", dim=[2], uid=1)
    subject.graph.validate()
    assert late.get_uid() == 1 and subject.tensors["off"].get_uid() == 2
    assert len({t.get_uid() for t in subject.graph.tensors}) == len(subject.graph.tensors)


def test_a_finished_graph_settles_its_tensors():
    """Another graph may then take one, with all that was inferred."""
    subject = Subject()
    subject.graph.serialize()
    e, uid = subject.tensors["e"], subject.tensors["e"].get_uid()
    other = rd.Graph(io_data_type=Types.FLOAT)
    other.pointwise(rd.PointwiseMode.RELU_FWD, other.tensor(e)).set_output(True)
    other.validate()
    assert (e.get_dim(), e.get_data_type(), e.get_uid()) == ([1, 1, 1, 1], Types.HALF, uid)
