"""A saved plan that was damaged is refused, or runs as it did: no byte of it makes a check lie."""

from __future__ import annotations

import numpy as np
import pytest
import raggeddnn as rd

HEADS, DIM = 2, 4
LENGTHS = [3, 0, 2]
GUARD = 64


def saved() -> tuple[bytes, dict[int, object], np.ndarray]:
    graph = rd.Graph("saved", io_data_type=rd.DataType.FLOAT)
    aux = graph.tensor(
        name="offsets", dim=[len(LENGTHS) + 1, 1, 1, 1], data_type=rd.DataType.INT32, uid=5
    )
    more = {"ragged_offset": aux, "ragged_offset_multiplier": HEADS * DIM}
    q, k, v = (
        graph.tensor(name=name, dim=[len(LENGTHS), HEADS, 4, DIM], uid=uid, **more)
        for name, uid in (("q", 1), ("k", 2), ("v", 3))
    )
    scale = rd.TensorAttributes().set_uid(9).set_data_type(rd.DataType.FLOAT)
    o, _ = graph.sdpa(q, k, v, attn_scale=graph.tensor(scale.set_as_runtime_parameter()))
    o.set_output(True).set_uid(4).set_ragged_offset(aux)
    o.set_ragged_offset_multiplier(HEADS * DIM)
    plan = graph.build(engine="reference")
    x = np.random.default_rng(0).standard_normal((sum(LENGTHS), HEADS, DIM), dtype=np.float32)
    offsets = np.cumsum([0, *LENGTHS]).astype(np.int32)
    # Alone in its array: an engine that is told of more memory than that writes past it.
    pack: dict[int, object] = {1: x, 2: x.copy(), 3: x.copy(), 5: offsets, 9: np.float32(0.5)}
    expected = np.empty_like(x)
    plan.execute({**pack, 4: expected})
    return plan.serialize(), pack, expected


def run(data: bytes, pack: dict[int, object], expected: np.ndarray) -> bool:
    """Whether the bytes were taken; then they must give the same."""
    buffer = np.full(expected.size + 2 * GUARD, 77.0, np.float32)
    o = buffer[GUARD:-GUARD]
    try:
        plan = rd.ExecutionPlan.deserialize(data)
        plan.execute({**pack, 4: o, 9: np.full(1, 0.5, np.float32)})
    except rd.Error:
        assert (buffer == 77.0).all()
        return False
    assert o.tobytes() == expected.tobytes()
    assert (buffer[:GUARD] == 77.0).all() and (buffer[-GUARD:] == 77.0).all()
    return True


def test_whole_bytes_give_the_same():
    data, pack, expected = saved()
    assert run(data, pack, expected)


@pytest.mark.parametrize("mask", [0x01, 0x20, 0x80, 0xFF], ids=hex)
def test_no_single_byte_makes_a_plan_do_something_else(mask):
    data, pack, expected = saved()
    taken = 0
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= mask
        taken += run(bytes(damaged), pack, expected)
    assert taken < len(data) / 2, "most damage must be noticed"


def test_another_graph_in_the_container_is_refused():
    data, _pack, _expected = saved()
    at = data.find(b"saved")
    damaged = data[:at] + b"other" + data[at + 5 :]
    with pytest.raises(rd.InvalidValueError, match=r"container: it is damaged.*expected"):
        rd.ExecutionPlan.deserialize(damaged)


def test_an_output_needs_memory_of_its_own():
    data, pack, _expected = saved()
    plan = rd.ExecutionPlan.deserialize(data)
    with pytest.raises(rd.InvalidValueError, match=r"is an output and got the same memory as"):
        plan.execute({**pack, 4: pack[3]})


def test_elements_of_an_output_may_not_overlap():
    graph = rd.Graph(io_data_type=rd.DataType.FLOAT)
    q, k, v = (graph.tensor(name=name, dim=[2, 2, 5, 4]) for name in "qkv")
    o, _ = graph.sdpa(q, k, v)
    o.set_output(True).set_dim([2, 2, 5, 4]).set_stride([1, 1, 1, 1])
    with pytest.raises(rd.InvalidValueError, match=r"strides \[1, 1, 1, 1\].*may not overlap"):
        graph.validate()
