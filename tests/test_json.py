"""Graphs as JSON: what is read, that nothing is lost either way, and how refusals read."""

from __future__ import annotations

import json
import re
from typing import Any

import fb_builder as fb
import pytest
import raggeddnn as rd
from fuzz import seeds
from fuzz.samples import OPS, content, op_graph, scalars_graph
from test_schema_slots import EXPECTED


def json_of(data: bytes) -> str:
    return str(rd.Graph.deserialize(data).to_json())


def bytes_of(text: str) -> bytes:
    return bytes(rd.Graph.from_json(text).serialize())


def sdpa_json(**overrides: Any) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(json_of(fb.build_sdpa_graph(**overrides)))
    return read


# --- nothing is lost -----------------------------------------------------------------------------


@pytest.mark.parametrize("fill", ["full", "unset", "zero"])
@pytest.mark.parametrize("op", OPS)
def test_every_op_survives_the_way_there_and_back(op: str, fill: str) -> None:
    data = op_graph(op, fill)
    text = json_of(data)
    back = bytes_of(text)
    assert content(back) == content(data)
    assert json_of(back) == text


def test_unset_zero_and_full_are_three_different_things() -> None:
    for op in OPS:
        texts = {json_of(op_graph(op, fill)) for fill in ("full", "unset", "zero")}
        has_optional = "null" in {slot.default for slot in EXPECTED[op]}
        assert len(texts) == (3 if has_optional else 2), op


def test_scalars_of_every_kind_keep_their_bits() -> None:
    data = scalars_graph()
    assert content(bytes_of(json_of(data))) == content(data)


def test_every_field_of_graph_and_tensor_survives() -> None:
    more = {
        6: ("int64", -(2**63)),
        7: ("bool", True),
        9: ("struct", fb.Struct(bytes(range(240, 256)), 1)),
        11: ("bool", True),
        12: ("bool", True),
    }
    data = fb.build_sdpa_graph(
        ragged=True,
        multiplier=16,
        alignment=64,
        scale=0.5,
        runtime_scale=True,
        stamp=(1, 1000, 0),
        min_reader_version=2,
        graph_slots=more,
    )
    text = json_of(data)
    assert '"id":"f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff"' in text
    assert content(bytes_of(text)) == content(data)


def test_a_graph_built_here_keeps_id_and_stamps() -> None:
    g = rd.Graph(name="g")
    q, k, v = (g.tensor(dim=[1, 2, 3, 8], name=name) for name in "qkv")
    g.sdpa(q, k, v, causal_mask=True)[0].set_output(True)
    text = g.to_json()
    read = rd.Graph.from_json(text)
    assert read.to_json() == text
    assert content(read.serialize()) == content(g.serialize())
    assert [t.get_name() for t in read.tensors] == [t.get_name() for t in g.tensors]
    assert read.build(engine="reference") is not None


def test_the_seeds_of_the_fuzzers_are_accepted() -> None:
    """A fuzzer that starts from refused inputs sees little of what comes after the refusal."""
    for data in seeds.inputs("graph"):
        assert content(bytes_of(json_of(data))) == content(data)
    for data in seeds.inputs("container"):
        if data not in seeds.plans():
            json_of(data)
    *graphs, _plan = seeds.inputs("json")
    for data in graphs:
        assert rd.Graph.from_json(data).to_json() == data.decode()


def test_names_may_hold_any_text() -> None:
    name = 'quote " slash \\ newline \n nul \0 accent \u00e9 emoji \U0001f600'
    graph = sdpa_json()
    graph["tensors"][0]["name"] = name
    read = rd.Graph.from_json(json.dumps(graph))
    assert read.tensors[0].get_name() == name
    assert json.loads(read.to_json())["tensors"][0]["name"] == name


def test_the_order_of_keys_and_white_space_do_not_matter() -> None:
    text = json_of(fb.build_sdpa_graph(causal=True, scale=0.5))
    shuffled = json.dumps(json.loads(text), sort_keys=True, indent=3)
    assert rd.Graph.from_json(shuffled).to_json() == text


# --- older texts, and unset fields ---------------------------------------------------------------


def test_an_older_text_gets_the_defaults() -> None:
    graph = sdpa_json()
    graph = {key: graph[key] for key in ("tensors", "nodes")}
    for tensor in graph["tensors"]:
        for newer in ("is_runtime_pass_by_value", "alignment", "ragged_offset_multiplier"):
            del tensor[newer]
    node = graph["nodes"][0]
    node["inputs"] = {key: uid for key, uid in node["inputs"].items() if uid is not None}
    node["outputs"] = {"o_tensor_uid": node["outputs"]["o_tensor_uid"]}
    del node["attributes"]
    read = json.loads(rd.Graph.from_json(json.dumps(graph)).to_json())
    assert read["io_data_type"] == "unset"
    assert "min_reader_version" not in read
    assert read["tensors"][0]["alignment"] == 16
    assert read["tensors"][0]["ragged_offset_multiplier"] == 1
    assert read["nodes"][0]["inputs"]["scale_tensor_uid"] is None
    assert read["nodes"][0]["attributes"]["generate_stats"] is None


def test_null_and_a_missing_key_both_leave_an_optional_field_unset() -> None:
    graph = sdpa_json()
    attributes = graph["nodes"][0]["attributes"]
    assert attributes["right_bound"] is None
    with_null = rd.Graph.from_json(json.dumps(graph)).serialize()
    del attributes["right_bound"]
    without = rd.Graph.from_json(json.dumps(graph)).serialize()
    attributes["right_bound"] = 0
    with_zero = rd.Graph.from_json(json.dumps(graph)).serialize()
    assert content(with_null) == content(without) != content(with_zero)


# --- guards --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("min_reader_version", 3, "min_reader_version is 3, expected at most 2"),
        (
            "min_required_engine_api_version",
            {"major": 1, "minor": 5, "patch": 0},
            "version is 1.5.0, expected",
        ),
    ],
)
def test_a_newer_graph_is_refused_before_anything_else_is_read(
    key: str, value: Any, words: str
) -> None:
    text = json.dumps({"tensors": [{"of the": "future"}], "nodes": 3, "new": 1, key: value})
    with pytest.raises(rd.NotSupportedError, match=words):
        rd.Graph.from_json(text)


# --- hostile texts -------------------------------------------------------------------------------

TENSOR = '{"uid": 1}'


def tensors(inside: str) -> str:
    return f'{{"tensors": [{inside}], "nodes": []}}'


def tensor(*members: str) -> str:
    return tensors("{" + ", ".join(['"uid": 1', *members]) + "}")


def nodes(inside: str) -> str:
    return f'{{"tensors": [], "nodes": [{inside}]}}'


def graph(*members: str) -> str:
    return "{" + ", ".join(['"tensors": []', '"nodes": []', *members]) + "}"


SDPA = '"type": "SdpaAttributes"'
SDPA_INPUTS = '"inputs": {"q_tensor_uid": 1, "k_tensor_uid": 2, "v_tensor_uid": 3'
VERSION = '"min_required_engine_api_version"'

HOSTILE = {
    "empty": ("", ["no JSON", "line 1"]),
    "cut off": ('{"tensors": [', ["no JSON", "column 14"]),
    "trailing text": (graph() + "x", ["no JSON", "last read"]),
    "a comment": (graph() + "// c", ["no JSON"]),
    "a list": ("[]", ["the text is a list of 0", "expected an object"]),
    "nothing": ("{}", ["tensors is missing", "expected a list"]),
    "no nodes": ('{"tensors": []}', ["nodes is missing"]),
    "tensors no list": ('{"tensors": {}, "nodes": []}', ["tensors is an object", "a list"]),
    "null tensors": ('{"tensors": null, "nodes": []}', ["tensors is null", "a list"]),
    "unknown key": (graph('"tensor": 1'), ["tensor is no known key", "expected name,"]),
    "a key twice": (graph('"nodes": []'), ["nodes is given twice"]),
    "a deep key twice": (
        tensors(f'{TENSOR}, {{"uid": 2, "dims": [1, 2], "uid": 3}}'),
        ["tensors[1].uid is given twice"],
    ),
    "deep": ("[" * 100_000, ["[0][0][0]", "nested deeper than 8"]),
    "deep objects": ('{"a":' * 100_000, ["a.a.a", "nested deeper than 8"]),
    "many keys": (
        "{" + ",".join(f'"k{i}": 0' for i in range(10_000)) + "}",
        ["k128 is key number 129", "at most 128"],
    ),
    "long": (" " * (16 << 20) + "{}", [str((16 << 20) + 2), "at most 16777216"]),
    "number beyond doubles": (graph('"min_reader_version": 1e999'), ["overflow", "1e999"]),
    "NaN literal": (tensor('"alignment": NaN'), ["no JSON"]),
    "half a surrogate pair": (graph('"name": "\\ud800"'), ["no JSON", "surrogate"]),
    "raw control character": (graph('"name": "\x01"'), ["no JSON", "control character"]),
    "long key": (graph(f'"{"k" * 5000}": 1'), ["k" * 80 + "... is no known key"]),
    "long string": (graph(f'"io_data_type": "{"s" * 5000}"'), ['"' + "s" * 80 + '..."']),
    # tensors
    "tensor no object": (tensors("7"), ["tensors[0] is 7", "an object"]),
    "no uid": (tensors("{}"), ["tensors[0].uid is missing", "an integer"]),
    "null uid": (tensors('{"uid": null}'), ["tensors[0].uid is null", "an integer"]),
    "uid a fraction": (tensors('{"uid": 1.0}'), ["tensors[0].uid is 1.0", "an integer"]),
    "uid a text": (tensors('{"uid": "1"}'), ['tensors[0].uid is "1"', "an integer"]),
    "uid too large": (tensors('{"uid": 9223372036854775808}'), ["9223372036854775808", "integer"]),
    "uid much too large": (tensors('{"uid": 1' + "0" * 40 + "}"), ["uid is 1e+40", "integer"]),
    "same uid twice": (tensors(f"{TENSOR}, {TENSOR}"), ["two tensors have uid 1"]),
    "unknown tensor key": (tensor('"dim": [1]'), ["tensors[0].dim is no known key", "dims"]),
    "dims no list": (tensor('"dims": 4'), ["tensors[0].dims is 4", "a list"]),
    "dims with null": (tensor('"dims": [1, null]'), ["tensors[0].dims[1] is null", "integer"]),
    "name a number": (tensor('"name": 4'), ["tensors[0].name is 4", "a string"]),
    "virtual a number": (tensor('"virtual": 1'), ["virtual is 1", "true or false"]),
    "upper-case type": (tensor('"data_type": "FLOAT"'), ['data_type is "FLOAT"', '"bfloat16"']),
    "type as number": (tensor('"data_type": 1'), ["data_type is 1", '"float"']),
    "null type": (tensor('"data_type": null'), ["data_type is null", '"float"']),
    "value alone": (tensor('"value": 1.0'), ["tensors[0].value is 1.0", "a value_type with it"]),
    "value_type alone": (
        tensor('"value_type": "Int32Value"'),
        ["tensors[0].value is missing", "Int32Value"],
    ),
    "unknown value_type": (
        tensor('"value_type": "Int8Value", "value": 1'),
        ['value_type is "Int8Value"', '"Float32Value", '],
    ),
    "value_type NONE": (tensor('"value_type": "NONE", "value": 1'), ['value_type is "NONE"']),
    "float overflow": (
        tensor('"value_type": "Float32Value", "value": 1e39'),
        ["tensors[0].value is 1e+39", "32-bit float"],
    ),
    "misspelt infinity": (
        tensor('"value_type": "Float64Value", "value": "inf"'),
        ['value is "inf"', '"Infinity"'],
    ),
    "bool as number": (
        tensor('"value_type": "BoolValue", "value": 1'),
        ["value is 1", "true or false"],
    ),
    "byte overflow": (
        tensor('"value_type": "Float8Value", "value": 256'),
        ["value is 256", "from 0 to 255"],
    ),
    "int32 overflow": (
        tensor('"value_type": "Int32Value", "value": -2147483649'),
        ["value is -2147483649", "from -2147483648 to 2147483647"],
    ),
    "missing ragged offset": (tensor('"ragged_offset_tensor_uid": 9'), ["ragged offset uid 9"]),
    # nodes
    "node no object": (nodes("[]"), ["nodes[0] is a list of 0", "an object"]),
    "no type": (nodes("{}"), ["nodes[0].type is missing"]),
    "unknown type": (nodes('{"type": "Sdpa"}'), ['nodes[0].type is "Sdpa"', '"SdpaAttributes"']),
    "no inputs": (nodes(f"{{{SDPA}}}"), ["nodes[0].inputs.q_tensor_uid is missing"]),
    "inputs no object": (nodes(f'{{{SDPA}, "inputs": 1}}'), ["nodes[0].inputs is 1"]),
    "required input null": (
        nodes(f'{{{SDPA}, "inputs": {{"q_tensor_uid": null}}}}'),
        ["nodes[0].inputs.q_tensor_uid is null"],
    ),
    "misplaced key": (
        nodes(f'{{{SDPA}, {SDPA_INPUTS}}}, "outputs": {{"o_tensor_uid": 4}}, "causal_mask": 1}}'),
        ["nodes[0].causal_mask is no known key", "attributes"],
    ),
    "output as input": (
        nodes(f'{{{SDPA}, {SDPA_INPUTS}, "o_tensor_uid": 4}}, "outputs": {{"o_tensor_uid": 4}}}}'),
        ["nodes[0].inputs.o_tensor_uid is no known key"],
    ),
    "enum as number": (
        nodes(
            f'{{{SDPA}, {SDPA_INPUTS}}}, "outputs": {{"o_tensor_uid": 4}}, '
            '"attributes": {"diagonal_alignment": 1}}'
        ),
        ["nodes[0].attributes.diagonal_alignment is 1", '"TOP_LEFT", "BOTTOM_RIGHT"'],
    ),
    "number for an enum's number": (
        nodes(
            '{"type": "ResampleFwdAttributes", "x_tensor_uid": 1, "y_tensor_uid": 2, '
            '"resample_mode": 9}'
        ),
        ["nodes[0].resample_mode is 9", "0 (NOT_SET)"],
    ),
    # graph
    "id no text": (graph('"id": 3'), ["id is 3", "hexadecimal digits"]),
    "id too short": (graph('"id": "00"'), ['id is "00"', "8-4-4-4-12"]),
    "negative reader": (graph('"min_reader_version": -1'), ["min_reader_version is -1", "from 0"]),
    "reader version a text": (graph('"min_reader_version": "1"'), ['min_reader_version is "1"']),
    "stamp half": (graph(f'{VERSION}: {{"major": 1}}'), ["version.minor is missing"]),
    "stamp no object": (graph(f'{VERSION}: "1.4.0"'), ['version is "1.4.0"', "an object"]),
    "stamp with more": (
        graph(f'{VERSION}: {{"major": 1, "minor": 4, "patch": 0, "tweak": 0}}'),
        ["version.tweak is no known key"],
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_refused_with_path_got_and_expected(name: str) -> None:
    text, parts = HOSTILE[name]
    with pytest.raises(rd.InvalidValueError) as caught:
        rd.Graph.from_json(text)
    said = str(caught.value)
    assert [part for part in parts if part not in said] == [], said
    assert len(said) < 1200


@pytest.mark.parametrize(
    "raw", [b'{"name": "\xff"}', b'{"\xc0\xaf": 1}', b'{"name": "\xed\xa0\x80"}', b"\xff\xfe{\0}\0"]
)
def test_what_is_no_utf_8_is_refused(raw: bytes) -> None:
    with pytest.raises(rd.InvalidValueError, match="no JSON"):
        rd.Graph.from_json(raw)


def test_names_that_are_no_utf_8_are_written_with_replacements() -> None:
    data = fb.build_sdpa_graph(tensor_slots={"q": {1: ("string", b"q\xff")}})
    text = json_of(data)
    assert json.loads(text)["tensors"][0]["name"] == "q\ufffd"
    assert rd.Graph.from_json(text).to_json() == text


def test_messages_show_names_that_are_no_utf_8() -> None:
    data = fb.build_sdpa_graph(
        tensor_slots={"q": {1: ("string", b"q\xff\x01" + b"x" * 5000), 2: ("int8", 99)}}
    )
    with pytest.raises(rd.InvalidValueError, match=re.escape("tensor 'q??xxx") + ".{60,100} is 99"):
        rd.Graph.deserialize(data)
