"""Reading graphs from bytes: what is accepted, kept, refused, and how the refusal reads.

The bytes come from fb_builder, which knows the wire format but none of our code.
"""

from __future__ import annotations

import json
import struct
import time

import fb_builder as fb
import pytest
import raggeddnn as rd


def refusal(data: bytes) -> str:
    with pytest.raises(rd.InvalidValueError) as caught:
        rd.Graph.deserialize(data)
    return str(caught.value)


def test_a_graph_reads_and_prints_with_the_keys_of_the_format() -> None:
    data = fb.build_sdpa_graph(
        ragged=True, multiplier=16, causal=True, stats=True, scale=0.5, runtime_scale=True
    )
    graph = json.loads(rd.Graph.deserialize(data).to_json())
    (node,) = graph["nodes"]
    assert node["type"] == "SdpaAttributes"
    assert (node["inputs"]["q_tensor_uid"], node["outputs"]["o_tensor_uid"]) == (1, 4)
    assert node["attributes"]["right_bound"] == 0
    tensors = {tensor["name"]: tensor for tensor in graph["tensors"]}
    assert tensors["q"]["data_type"] == "float"
    assert tensors["q"]["strides"] == [64, 8, 16, 1]
    assert tensors["q"]["ragged_offset_tensor_uid"] == 5
    assert tensors["q"]["ragged_offset_multiplier"] == 16
    assert "ragged_offset_tensor_uid" not in tensors["stats"]
    assert tensors["scale"]["is_runtime_pass_by_value"] is True
    assert (tensors["scale"]["value_type"], tensors["scale"]["value"]) == ("Float32Value", 0.5)


@pytest.mark.parametrize("cut", [0, 3, 11, 100, 300, 600])
def test_truncated_bytes_are_refused(cut: int) -> None:
    refusal(fb.build_sdpa_graph()[:cut])


def test_an_enum_out_of_range_names_field_and_tensor() -> None:
    text = refusal(fb.build_sdpa_graph(tensor_slots={"k": {2: ("int8", 99)}}))
    assert all(part in text for part in ("tensors[1].data_type", "'k'", "99"))


def test_an_unknown_op_is_refused() -> None:
    data = fb.build(fb.graph([fb.tensor(1)], [fb.node(77, {}, name="odd")]))
    text = refusal(data)
    assert all(part in text for part in ("nodes[0].attributes", "'odd'", "77"))


@pytest.mark.parametrize(("slot", "words"), [(3, "no value"), (2, "no type")])
def test_a_union_needs_both_halves(slot: int, words: str) -> None:
    slots = fb.sdpa_graph_slots()
    del slots[5][1][0][slot]
    assert words in refusal(fb.build(slots))


def test_misaligned_elements_are_refused() -> None:
    """A vector of 64-bit elements may only lie where a 64-bit load may go."""
    data = bytearray(fb.build_sdpa_graph())
    # The dims of q: their length, then the elements. Moved by four bytes, within the buffer.
    pattern = struct.pack("<I4q", 4, 2, 2, 4, 8)
    start = data.index(pattern)
    moved = start + 4
    for position in range(0, len(data) - 4, 4):
        if position + int.from_bytes(data[position : position + 4], "little") == start:
            data[position : position + 4] = (moved - position).to_bytes(4, "little")
            data[moved : moved + 4] = (1).to_bytes(4, "little")
            break
    assert "multiple of 8" in refusal(bytes(data))


def test_aliased_offsets_are_refused_at_once() -> None:
    """Fifty thousand offsets to one tensor would unpack to a gigabyte."""
    data = fb.build_aliased_graph()
    begin = time.perf_counter()
    text = refusal(data)
    assert time.perf_counter() - begin < 1.0
    assert "same place" in text


@pytest.mark.parametrize("version", [3, 4_000_000_000])
def test_a_newer_reader_version_is_refused(version: int) -> None:
    # The guard comes first: the tensor's type is one that only a newer reader knows.
    data = fb.build_sdpa_graph(min_reader_version=version, tensor_slots={"q": {2: ("int8", 99)}})
    with pytest.raises(rd.NotSupportedError, match=f"min_reader_version is {version}.*at most 2"):
        rd.Graph.deserialize(data)


@pytest.mark.parametrize("stamp", [(1, 5, 0), (1, 1001, 0), (2, 0, 0), (0, 9, 0)])
def test_a_newer_or_foreign_api_stamp_is_refused(stamp: tuple[int, int, int]) -> None:
    text = ".".join(map(str, stamp))
    with pytest.raises(rd.NotSupportedError, match=text):
        rd.Graph.deserialize(fb.build_sdpa_graph(stamp=stamp))


@pytest.mark.parametrize("stamp", [(1, 0, 0), (1, 3, 0), (1, 4, 0)])
def test_known_api_stamps_are_accepted(stamp: tuple[int, int, int]) -> None:
    rd.Graph.deserialize(fb.build_sdpa_graph(stamp=stamp))
