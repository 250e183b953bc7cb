"""What a serialized graph must pass before it is believed, and what survives a round trip.

The bytes come from fb_builder, which knows the wire format but none of our code.
"""

from __future__ import annotations

import json
import random
import struct
import subprocess
import sys
from pathlib import Path

import fb_builder as fb
import numpy as np
import pytest
import raggeddnn as rd
from plugins.fakes import load, root_field, small, verdicts, with_default
from plugins.fakes import runtime as runtime_scalar
from raggeddnn._core import describe_blob

ENGINE_VERSIONS = [(1, 0, 0), (1, 2, 0), (1, 4, 0)]


def refusal(data: bytes, error: type[rd.Error] = rd.InvalidValueError) -> str:
    with pytest.raises(error) as caught:
        rd.Graph.deserialize(data)
    return str(caught.value)


def described(data: bytes) -> dict:
    graph: dict = json.loads(describe_blob(data))["graph"]
    return graph


# ---- stamps ----


def reader_stamp(data: bytes) -> int:
    at = root_field(data, 10)
    return 0 if at is None else struct.unpack_from("<I", data, at)[0]


def engine_stamp(data: bytes) -> tuple[int, ...]:
    at = root_field(data, 8)
    assert at is not None
    return struct.unpack_from("<III", data, at)


def id_stamp(data: bytes) -> bytes:
    at = root_field(data, 9)
    assert at is not None
    return data[at : at + 16]


@pytest.mark.parametrize(
    ("options", "reader", "engine", "is_ragged"),
    [
        ({}, 0, (1, 0, 0), False),
        ({"scale": rd.TensorAttributes(0.5)}, 0, (1, 0, 0), False),
        ({"scale": runtime_scalar()}, 1, (1, 2, 0), False),
        ({"scale": with_default()}, 1, (1, 2, 0), False),
        ({"ragged": True}, 0, (1, 3, 0), True),
        ({"ragged": True, "multiplier": 16}, 0, (1, 4, 0), True),
    ],
    ids=["number", "constant", "runtime", "default", "ragged", "multiplier"],
)
def test_the_stamps_of_a_graph(options, reader, engine, is_ragged):
    graph = small(**options).graph
    assert graph.min_reader_version == reader
    assert graph.min_required_engine_api_version == engine
    data = graph.serialize()
    assert reader_stamp(data) == reader
    assert engine_stamp(data) == engine
    flag = root_field(data, 11)
    assert (flag is not None and data[flag] == 1) == is_ragged


def test_the_id_is_minted_once_and_kept():
    graph = small().graph
    first = graph.serialize()
    assert len(set(id_stamp(first))) > 1
    assert graph.serialize() == first
    again = rd.Graph.deserialize(first)
    again.build()
    assert id_stamp(again.serialize()) == id_stamp(first)
    assert id_stamp(small().graph.serialize()) != id_stamp(first)
    # RFC 4122, version 4.
    assert id_stamp(first)[6] >> 4 == 4 and id_stamp(first)[8] >> 6 == 2


@pytest.mark.parametrize("stamp", [0, 1, rd.K_GRAPH_READER_VERSION])
def test_a_reader_version_that_is_known_loads(stamp):
    graph = rd.Graph.deserialize(fb.build_sdpa_graph(scale=0.5, min_reader_version=stamp))
    assert graph.min_reader_version == stamp
    assert graph.build(engine="reference").engine_name == "RAGGEDDNN_REFERENCE_ENGINE"


@pytest.mark.parametrize("stamp", [3, 4_000_000_000])
def test_a_newer_reader_version_is_refused_before_anything_else_is_read(stamp):
    # The unknown enum would be an InvalidValueError if it were looked at.
    slots = {"q": {2: ("int8", 99)}}
    data = fb.build_sdpa_graph(min_reader_version=stamp, tensor_slots=slots)
    text = refusal(data, rd.NotSupportedError)
    assert f"min_reader_version is {stamp}, expected at most 2" in text
    assert rd.K_GRAPH_READER_VERSION == 2


@pytest.mark.parametrize("stamp", [None, (1, 0, 0), (1, 2, 0), (1, 4, 0)])
def test_an_engine_api_version_that_is_known_loads(stamp):
    graph = rd.Graph.deserialize(fb.build_sdpa_graph(scale=0.5, stamp=stamp))
    assert graph.min_required_engine_api_version == (stamp or (1, 0, 0))


@pytest.mark.parametrize("stamp", [(1, 5, 0), (2, 0, 0), (0, 9, 0), (1, 4, 1), (1, 1001, 0)])
def test_an_engine_api_version_that_is_unknown_is_refused(stamp):
    text = refusal(fb.build_sdpa_graph(stamp=stamp), rd.NotSupportedError)
    got = ".".join(map(str, stamp))
    assert f"min_required_engine_api_version is {got}, expected at most 1.4.0" in text


@pytest.mark.parametrize(
    ("options", "version", "reader"),
    [
        # A stamp above what the features need, and features above the stamp.
        ({"scale": 0.5, "stamp": (1, 3, 0)}, (1, 3, 0), 0),
        ({"ragged": True, "stamp": (1, 0, 0)}, (1, 3, 0), 0),
        ({"ragged": True, "multiplier": 16, "stamp": (1, 3, 0)}, (1, 4, 0), 0),
        ({"runtime_scale": True, "stamp": (1, 0, 0), "min_reader_version": 0}, (1, 2, 0), 1),
        ({"scale": 0.5, "min_reader_version": 1}, (1, 0, 0), 1),
    ],
)
def test_where_stamp_and_features_disagree_the_stricter_holds(options, version, reader):
    load("fake_1_0_0")
    load("fake_1_2_0")
    slots = {0: ("string", "fake")}
    graph = rd.Graph.deserialize(fb.build_sdpa_graph(**options, graph_slots=slots))
    assert graph.min_required_engine_api_version == version
    assert graph.min_reader_version == reader
    said = verdicts(graph)
    assert said["FAKE_1_0_0_ENGINE"].applicable == (version <= (1, 0, 0))
    assert said["FAKE_1_2_0_ENGINE"].applicable == (version <= (1, 2, 0))


def test_the_ragged_flag_counts_without_ragged_tensors():
    load("fake_1_2_0")
    slots = {0: ("string", "fake"), 11: ("bool", True)}
    graph = rd.Graph.deserialize(fb.build_sdpa_graph(scale=0.5, graph_slots=slots))
    assert graph.min_required_engine_api_version == (1, 3, 0)
    assert not verdicts(graph)["FAKE_1_2_0_ENGINE"].applicable


def test_the_ragged_flag_cannot_be_set():
    for kind in (rd.Graph, rd.TensorAttributes):
        assert not [n for n in dir(kind) if "ragged" in n and "enabled" in n]
    header = (Path(rd.__file__).parent / "include/raggeddnn/backend").glob("*.h")
    text = "".join(path.read_text(encoding="utf-8") for path in header)
    assert "HIPDNN_ATTR_TENSOR_RAGGED_OFFSET" in text and "RAGGED_TENSOR_ENABLED" not in text


# ---- legacy ----


def test_a_legacy_graph_is_a_constant_and_runs_on_the_first_provider():
    load("fake_1_0_0")
    # Neither stamp nor flag, nothing beyond the slots of the first format.
    data = fb.build_sdpa_graph(scale=0.75, graph_slots={0: ("string", "fake")})
    assert root_field(data, 8) is None and root_field(data, 10) is None
    graph = rd.Graph.deserialize(data)
    assert graph.min_required_engine_api_version == (1, 0, 0) and graph.min_reader_version == 0
    (scale,) = [t for t in graph.tensors if t.get_name() == "scale"]
    assert scale.get_is_pass_by_value() and scale.get_has_compile_time_constant()
    assert not scale.get_is_runtime_pass_by_value()
    assert scale.get_compile_time_constant() == 0.75 and scale.get_pass_by_value() is None
    graph.validate()
    arrays = {uid: np.zeros((2, 4, 2, 8), np.float32) for uid in (1, 2, 3, 4)}
    graph.build(engine="FAKE_1_0_0_ENGINE").execute(arrays)
    assert (arrays[4] == 0.75).all()
    assert graph.serialize() == data


def test_a_graph_without_any_scale_says_so():
    data = fb.build_sdpa_graph()
    graph = rd.Graph.deserialize(data)
    (verdict,) = [v for v in graph.explain() if v.engine == "RAGGEDDNN_REFERENCE_ENGINE"]
    assert verdict.applicable and "attn_scale is absent" in verdict.reason


# ---- round trips ----


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scale": None},
        {"scale": rd.TensorAttributes(0.5)},
        {"scale": with_default()},
        {"scale": runtime_scalar(rd.DataType.HALF)},
        {"ragged": True, "multiplier": 16, "generate_stats": True, "causal_mask": True},
    ],
)
def test_serialize_and_deserialize_give_equal_bytes(options):
    data = small(**options).graph.serialize()
    again = rd.Graph.deserialize(data)
    assert again.serialize() == data
    assert rd.Graph.deserialize(again.serialize()).serialize() == data


def test_the_by_value_states_survive_a_round_trip():
    g = rd.Graph(io_data_type=rd.DataType.FLOAT)
    states = {
        "runtime": runtime_scalar(),
        "default": with_default(0.25),
        "constant": rd.TensorAttributes(0.125),
        "ordinary": rd.TensorAttributes().set_dim([1]).set_stride([1]),
    }
    for name, state in states.items():
        g.tensor(state.set_name(name))
    q, k, v = (g.tensor(name=n, dim=[1, 1, 4, 8]) for n in "qkv")
    o, _ = g.sdpa(q, k, v)
    o.set_output(True)
    tensors = {t.get_name(): t for t in rd.Graph.deserialize(g.serialize()).tensors}

    def row(t):
        return (
            t.get_is_pass_by_value(),
            t.get_pass_by_value(),
            t.get_compile_time_constant(),
            t.get_is_runtime_pass_by_value(),
            t.get_value_variant(),
        )

    assert row(tensors["runtime"]) == (True, None, None, True, None)
    assert row(tensors["default"]) == (True, 0.25, None, True, 0.25)
    assert row(tensors["constant"]) == (True, None, 0.125, False, 0.125)
    assert row(tensors["ordinary"]) == (False, None, None, False, None)


@pytest.mark.parametrize(
    ("slots", "place"),
    [
        ({"graph_slots": {40: ("int64", 7)}}, "Graph slot 40"),
        ({"node_slots": {60: ("bool", True)}}, "SdpaAttributes slot 60"),
        ({"tensor_slots": {"k": {20: ("string", "news")}}}, "TensorAttributes slot 20"),
    ],
)
def test_unknown_slots_survive_and_are_mentioned(slots, place):
    data = fb.build_sdpa_graph(scale=0.5, **slots)
    graph = rd.Graph.deserialize(data)
    assert graph.serialize() == data
    for verdict in graph.explain():
        if verdict.applicable:
            assert f"unknown to this reader: {place}" in verdict.reason
    assert place in "".join(json.loads(describe_blob(data))["warnings"])
    graph.build(engine="reference")
    assert graph.serialize() == data


@pytest.mark.parametrize("override", [False, True])
def test_a_value_of_another_type_than_its_tensor_is_no_garbage(override):
    # A double whose union member is a float: refused, or delivered as the number it is.
    load("fake_1_2_0")
    data = fb.build_sdpa_graph(
        scale=0.5,
        runtime_scale=True,
        graph_slots={0: ("string", "fake"), 12: ("bool", override)},
        tensor_slots={"scale": {2: ("int8", fb.DOUBLE)}},
    )
    arrays = {uid: np.zeros((2, 4, 2, 8), np.float32) for uid in (1, 2, 3, 4)}
    try:
        plan = rd.Graph.deserialize(data).build(engine="FAKE_1_2_0_ENGINE")
    except rd.InvalidValueError as error:
        assert "'scale'" in str(error)
        return
    plan.execute(arrays)
    assert (arrays[4] == 0.5).all()


# ---- plans as bytes ----


def bare(container: bytes) -> bytes:
    """The plan in a graph-and-plan container, without its graph."""
    at = root_field(container, 1)
    assert at is not None
    at += struct.unpack_from("<I", container, at)[0]
    size = struct.unpack_from("<I", container, at)[0]
    return container[at + 4 : at + 4 + size]


def test_a_provider_s_payload_keeps_its_runtime_scalars():
    load("fake_saves")
    sdpa = small(scale=runtime_scalar().set_uid(42))
    saved = sdpa.graph.build(engine="FAKE_SAVES_ENGINE").serialize()
    whole, lone = (rd.ExecutionPlan.deserialize(data) for data in (saved, bare(saved)))
    assert whole.engine_name == lone.engine_name == "FAKE_SAVES_ENGINE"
    for plan in (whole, lone):
        assert (sdpa.run(plan, scale=np.array([0.625], np.float32)) == 0.625).all()
        with pytest.raises(rd.InvalidValueError, match="42"):
            sdpa.run(plan)
    assert (sdpa.run(whole, scale=0.5) == 0.5).all()
    with pytest.raises(rd.InvalidValueError, match="uid 42"):
        sdpa.run(lone, scale=0.5)  # a number, and no graph to say its type


def test_a_provider_refuses_a_payload_that_it_cannot_read():
    load("fake_saves")
    load("fake_1_2_0")
    (row,) = [row for row in rd.engines() if row.name == "FAKE_SAVES_ENGINE"]
    for payload in (struct.pack("<I", 2) + bytes(200), b"", b"\x01\0\0\0"):
        data = fb.build_plan(engine_id=row.id, payload=payload)
        with pytest.raises(rd.InvalidValueError, match="ENGINE: the payload is not of version 1"):
            rd.ExecutionPlan.deserialize(data)
    plan = small().graph.build(engine="FAKE_1_2_0_ENGINE")
    with pytest.raises(rd.NotSupportedError, match=r"FAKE_1_2_0_ENGINE .*cannot save its plans"):
        plan.serialize()


# ---- damage ----

RICH = {
    "ragged": True,
    "multiplier": 16,
    "runtime_scale": True,
    "scale": 0.5,
    "stats": True,
    "causal": True,
    "stamp": (1, 4, 0),
    "min_reader_version": 1,
}


def test_every_truncation_is_refused():
    data = fb.build_sdpa_graph(**RICH)
    for size in range(0, len(data), 3):
        refusal(data[:size])


SURVIVES = """
import random, sys
import raggeddnn as rd
data = open(sys.argv[1], "rb").read()
rng = random.Random(int(sys.argv[2]))
loaded = refused = 0
for _ in range(int(sys.argv[3])):
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    try:
        graph = rd.Graph.deserialize(bytes(damaged))
        graph.to_json()
        graph.explain()
        graph.validate()
        loaded += 1
    except rd.Error as error:
        assert str(error), "an error without a text"
        refused += 1
print(loaded, refused)
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_flipped_bits_never_crash(seed, tmp_path: Path):
    # In a process of its own: a crash is a status, not the end of the test run.
    file = tmp_path / "graph.bin"
    file.write_bytes(fb.build_sdpa_graph(**RICH))
    done = subprocess.run(
        [sys.executable, "-c", SURVIVES, str(file), str(seed), "2000"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded, refused = map(int, done.stdout.split())
    assert loaded + refused == 2000 and loaded > 100 and refused > 100


def test_random_bytes_never_crash():
    rng = random.Random(3)
    for _ in range(500):
        refusal(rng.randbytes(rng.randrange(200)))


def test_names_that_are_no_text_do_not_hide_the_error():
    slots = {"k": {1: ("string", b"\xf2k"), 10: ("int64", 0)}}  # alignment 0
    data = fb.build_sdpa_graph(tensor_slots=slots, graph_slots={0: ("string", b"\xf2g")})
    graph = rd.Graph.deserialize(data)
    assert graph.name.endswith("g")
    assert graph.tensors[1].get_name().endswith("k") and "k" in repr(graph.tensors[1])
    with pytest.raises(rd.InvalidValueError, match=r"k.* has alignment 0"):
        graph.validate()
    assert all(isinstance(verdict.reason, str) for verdict in graph.explain())
    with pytest.raises(rd.NotSupportedError, match="alignment 0"):
        graph.build(engine="reference")


def test_an_unknown_union_tag_names_the_tensor():
    slots = {"scale": {6: ("uint8", 9)}}
    text = refusal(fb.build_sdpa_graph(scale=0.5, tensor_slots=slots))
    assert ".value of tensor 'scale' has type 9, expected 0 (NONE) to 8 (BoolValue)" in text


@pytest.mark.parametrize("number", [250, 99])
def test_an_enum_out_of_range_names_the_tensor(number):
    slots = {"v": {2: ("uint8", number)}}
    text = refusal(fb.build_sdpa_graph(tensor_slots=slots))
    got = number - 256 if number > 127 else number
    assert all(part in text for part in ("data_type", "'v'", str(got), "expected a DataType"))


@pytest.mark.parametrize("slot", [3, 4])
def test_a_tensor_without_dims_or_strides_is_refused_by_name(slot):
    slots = fb.sdpa_graph_slots()
    del slots[4][1][1][slot]
    graph = rd.Graph.deserialize(fb.build(slots))
    with pytest.raises(rd.InvalidValueError, match=r"\bk\b"):
        graph.validate()
    assert not any(verdict.applicable for verdict in graph.explain() if "REF" in verdict.engine)
    with pytest.raises(rd.Error):
        graph.build()


@pytest.mark.parametrize("slot", [4, 5])
def test_a_graph_without_tensors_or_nodes_cannot_be_built(slot):
    slots = fb.sdpa_graph_slots()
    del slots[slot]
    try:
        graph = rd.Graph.deserialize(fb.build(slots))
    except rd.InvalidValueError:
        return
    assert not any(verdict.applicable for verdict in graph.explain() if "REF" in verdict.engine)
    with pytest.raises(rd.Error):
        graph.build()


def test_duplicate_uids_are_refused():
    text = refusal(fb.build_sdpa_graph(tensor_slots={"k": {0: ("int64", 1)}}))
    assert "uid 1" in text and "unique" in text


def test_a_ragged_offset_that_is_ragged_itself_is_refused():
    # 5 names 6, and 6 names 5.
    cycle = {"ragged_q": {9: ("int64", 6)}, "ragged_kv": {9: ("int64", 5)}}
    text = refusal(fb.build_sdpa_graph(ragged=True, tensor_slots=cycle))
    assert "'ragged_" in text and "ragged itself" in text
    itself = {"ragged_q": {9: ("int64", 5)}}
    text = refusal(fb.build_sdpa_graph(ragged=True, tensor_slots=itself))
    assert "'ragged_q'" in text and "ragged itself" in text


def test_a_ragged_offset_that_is_not_in_the_graph_is_refused():
    slots = {"q": {9: ("int64", 77)}}
    text = refusal(fb.build_sdpa_graph(ragged=True, tensor_slots=slots))
    assert "'q'" in text and "77" in text


@pytest.mark.parametrize(("slot", "role"), [(0, "q"), (1, "k"), (2, "v"), (3, "o")])
@pytest.mark.parametrize("uid", [77, -1])
def test_an_operand_that_is_not_in_the_graph_is_named(slot, role, uid):
    graph = rd.Graph.deserialize(fb.build_sdpa_graph(node_slots={slot: ("int64", uid)}))
    with pytest.raises(rd.InvalidValueError) as caught:
        graph.validate()
    assert f"[sdpa] {role} is uid {uid}, which no tensor of the graph has" in str(caught.value)
    with pytest.raises(rd.NotSupportedError, match=f"uid {uid}"):
        graph.build(engine="reference")
