"""Offsets and lengths come from the variant pack: one that a node of the graph writes is refused.

They are read before the first node runs, so that whatever an output's memory happens to hold would
say how far the others reach. That the reference engine refuses such bytes by itself is checked in
``cpp/test_given_extents.cpp``, as are the C API and the C++ Graph.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import fb_builder as fb
import numpy as np
import pytest
import raggeddnn as rd
from engine_builds import build_or_skip
from fuzz.samples import op_graph

F32, I32 = rd.DataType.FLOAT, rd.DataType.INT32
RELU, ADD = rd.PointwiseMode.RELU_FWD, rd.PointwiseMode.ADD


class Written:
    """A graph with three integers of which a node makes three others, ``made``."""

    def __init__(self) -> None:
        self.graph = rd.Graph(io_data_type=F32)
        self.given = self.integers("given", 3)
        self.made = self.graph.pointwise(ADD, self.given, self.given).set_output(True)
        self.made.set_name("made").set_data_type(I32)

    def integers(self, name: str, count: int) -> rd.TensorAttributes:
        return self.graph.tensor(name=name, dim=[count, 1, 1, 1], data_type=I32)

    def rows(self, name: str, aux: rd.TensorAttributes | None = None) -> rd.TensorAttributes:
        more: dict[str, Any] = {} if aux is None else {"ragged_offset_multiplier": 16}
        return self.graph.tensor(name=name, dim=[2, 2, 4, 8], ragged_offset=aux, **more)


def of_an_input(w: Written) -> None:
    w.graph.pointwise(RELU, w.rows("x", w.made)).set_output(True).set_name("y")


def of_a_result(w: Written) -> None:
    y = w.graph.pointwise(RELU, w.rows("x", w.given)).set_output(True).set_name("y")
    y.set_ragged_offset(w.made).set_ragged_offset_multiplier(16)


def of_an_earlier_node(w: Written) -> None:
    """The offsets' writer comes last in the graph; order says nothing."""
    w.graph.pointwise(RELU, w.rows("x", w.given)).set_output(True)
    late = w.graph.pointwise(ADD, w.given, w.given).set_output(True).set_data_type(I32)
    w.graph.pointwise(RELU, w.rows("z", late)).set_output(True)


def lengths(side: str, is_backward: bool) -> Callable[[Written], None]:
    def add(w: Written) -> None:
        made = w.graph.pointwise(ADD, w.integers("n", 2), w.integers("m", 2))
        made.set_output(True).set_data_type(I32).set_name("made lengths")
        both = {"seq_len_q": w.integers("lq", 2), "seq_len_kv": w.integers("lkv", 2)}
        both[side] = made
        q, k, v, o, do = (w.rows(name) for name in ("q", "k", "v", "o", "do"))
        if is_backward:
            stats = w.graph.tensor(name="stats", dim=[2, 2, 4, 1])
            results = w.graph.sdpa_backward(q, k, v, o, do, stats, **both)
        else:
            results = w.graph.sdpa(q, k, v, **both)[:1]
        for result in results:
            if result is not None:
                result.set_output(True)

    return add


WRITTEN = {
    "of an input": (of_an_input, "'x' .* has the ragged offset tensor 'made'", 0),
    "of a result": (of_a_result, "'y' .* has the ragged offset tensor 'made'", 0),
    "by a later node": (of_an_earlier_node, "'z' .* has the ragged offset .*'pointwise::out'", 2),
    **{
        f"{side} of {'sdpa_backward' if backward else 'sdpa'}": (
            lengths(side, backward),
            f"node 2 has the {side} tensor 'made lengths'",
            1,
        )
        for side in ("seq_len_q", "seq_len_kv")
        for backward in (False, True)
    },
}


@pytest.mark.parametrize("look", ["validate", "explain", "build", "serialize"])
@pytest.mark.parametrize("case", WRITTEN)
def test_what_a_node_writes_says_nothing_of_extents(case, look):
    add, words, writer = WRITTEN[case]
    w = Written()
    add(w)
    message = rf"{words}.*, which is a result of node {writer}, expected a tensor that no node"
    with pytest.raises(rd.InvalidValueError, match=message):
        getattr(w.graph, look)()


def test_results_beside_given_extents_are_results_like_any_other(engine):
    w = Written()
    w.graph.pointwise(RELU, w.rows("x", w.given)).set_output(True).set_name("y")
    x, y = (next(t for t in w.graph.tensors if t.get_name() == name) for name in "xy")
    plan = build_or_skip(w.graph, engine)
    data, out = (np.full(48, value, np.float32) for value in (3, 0))
    made = np.zeros(3, np.int32)
    plan.execute({w.given: np.array([0, 1, 3], np.int32), w.made: made, x: data, y: out})
    assert made.tolist() == [0, 2, 6] and (out == 3).all()


# ---- received ----


def bytes_of(aux: int) -> bytes:
    """off(1) -> node 0 -> made(2); x(3), ragged by `aux`, -> node 1 -> y(4)."""
    dims = [2, 2, 4, 8]
    ragged = {"ragged_offset_tensor_uid": aux, "ragged_offset_multiplier": 16}
    strides = fb.bshd_strides(dims)
    tensors = [
        fb.tensor(1, "off", [3, 1, 1, 1], data_type=fb.INT32),
        fb.tensor(2, "made", [3, 1, 1, 1], data_type=fb.INT32),
        fb.tensor(3, "x", dims, strides, **ragged),
        fb.tensor(4, "y", dims, strides, **ragged),
    ]
    identity = int(rd.PointwiseMode.IDENTITY.value)

    def node(source: int, target: int) -> fb.Slots:
        slots = {0: ("int8", identity), 5: ("int64", source), 8: ("int64", target)}
        return fb.node(fb.POINTWISE_NODE, slots)

    return fb.build(fb.graph(tensors, [node(1, 2), node(3, 4)]))


def test_received_bytes_are_refused_alike():
    rd.Graph.deserialize(bytes_of(1)).build(engine="reference")
    message = r"'x' \(uid 3\) has the ragged offset tensor 'made' .* a result of node 0"
    for data in (bytes_of(2), fb.build_container(bytes_of(2))):
        with pytest.raises(rd.InvalidValueError, match=message):
            rd.Graph.deserialize(data)


LENGTHS = ("seq_len_q", "seq_len_kv")
EXTENTS = [
    *(("SdpaAttributes", role) for role in LENGTHS),
    *(("SdpaBackwardAttributes", role) for role in LENGTHS),
    *((f"MoeGroupedMatmul{way}Attributes", "first_token_offset") for way in ("", "Bwd")),
]


def with_writer(op: str, role: str) -> str:
    """JSON of one operation, and of another that writes what the first reads as `role`."""
    document = json.loads(rd.Graph.deserialize(op_graph(op, "full")).to_json())
    uid = 99
    document["tensors"].append({**document["tensors"][0], "uid": uid, "name": "made"})
    assert f"{role}_tensor_uid" in document["nodes"][0]["inputs"]
    document["nodes"][0]["inputs"][f"{role}_tensor_uid"] = uid
    writer = json.loads(rd.Graph.deserialize(bytes_of(1)).to_json())["nodes"][0]
    writer["outputs"]["out_0_tensor_uid"] = uid
    document["nodes"].append(writer)
    return json.dumps(document)


@pytest.mark.parametrize(("op", "role"), EXTENTS)
def test_every_length_of_a_received_graph_is_looked_at(op, role):
    with pytest.raises(rd.InvalidValueError, match=f"node 0 has the {role} tensor 'made'.* node 1"):
        rd.Graph.from_json(with_writer(op, role))


@pytest.mark.parametrize("role", ["attn_mask", "seed", "offset"])
def test_other_operands_may_be_results(role):
    """The offset of the random generator places nothing."""
    rd.Graph.from_json(with_writer("SdpaAttributes", role))
