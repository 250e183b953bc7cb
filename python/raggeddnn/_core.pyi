"""
The compiled core of raggeddnn; use the names of the package itself.
"""

from __future__ import annotations
import collections.abc
import enum
import typing

class DataType(enum.IntEnum):
    """
    Element types, by hipDNN's frontend numbers.
    """

    NOT_SET = 0
    FLOAT = 1
    HALF = 2
    BFLOAT16 = 3
    DOUBLE = 4
    UINT8 = 5
    INT32 = 6
    INT8 = 7
    FP8_E4M3 = 8
    FP8_E5M2 = 9
    FP8_E8M0 = 10
    FP4_E2M1 = 11
    INT4 = 12
    FP6_E2M3 = 13
    FP6_E3M2 = 14
    INT64 = 15
    BOOLEAN = 16
    FP8_E4M3_FNUZ = 17
    FP8_E5M2_FNUZ = 18

class ScalarType(enum.Enum):
    """
    Whether a scalar is a runtime parameter with a default, or a constant.
    """

    RUNTIME_PARAM = 0
    COMPILE_TIME_CONST = 1

class DiagonalAlignment(enum.Enum):
    """
    Where the diagonal of a band mask starts: row 0 sees key 0, or the last row sees the last key.
    """

    TOP_LEFT = 0
    BOTTOM_RIGHT = 1

class TensorAttributes:
    """
    A tensor of a graph: dims and strides in elements, type, raggedness, and for scalars one of three by-value states. Setters return the tensor.
    """

    @typing.overload
    def __init__(self) -> None: ...
    @typing.overload
    def __init__(self, scalar: typing.Any) -> None:
        """
        A compile-time constant.
        """

    @typing.overload
    def __init__(self, scalar: typing.Any, type: ScalarType) -> None:
        """
        RUNTIME_PARAM: a runtime scalar with this default; COMPILE_TIME_CONST: a constant.
        """

    def __repr__(self) -> str: ...
    def clear_uid(self) -> TensorAttributes: ...
    def get_alignment(self) -> int: ...
    def get_compile_time_constant(self) -> typing.Any:
        """
        The value of a compile-time constant; None in every other state.
        """

    def get_data_type(self) -> DataType: ...
    def get_dim(self) -> list[int]: ...
    def get_has_compile_time_constant(self) -> bool: ...
    def get_is_pass_by_value(self) -> bool:
        """
        True in all three by-value states.
        """

    def get_is_runtime_pass_by_value(self) -> bool: ...
    def get_is_virtual(self) -> bool: ...
    def get_name(self) -> str: ...
    def get_pass_by_value(self) -> typing.Any:
        """
        The default of a runtime scalar; None in every other state.
        """

    def get_ragged_offset(self) -> TensorAttributes | None: ...
    def get_ragged_offset_multiplier(self) -> int: ...
    def get_stride(self) -> list[int]: ...
    def get_uid(self) -> int: ...
    def get_value_variant(self) -> typing.Any:
        """
        The stored value whatever the state, or None.
        """

    def get_volume(self) -> int:
        """
        Product of dims.
        """

    def has_ragged_offset(self) -> bool: ...
    def has_uid(self) -> bool: ...
    def set_alignment(
        self, alignment: typing.SupportsInt | typing.SupportsIndex
    ) -> TensorAttributes:
        """
        Least alignment of the base address, in bytes (default 16).
        """

    def set_as_runtime_parameter(self) -> TensorAttributes:
        """
        A scalar that the variant pack supplies; clears any value.
        """

    def set_compile_time_constant(self, value: typing.Any) -> TensorAttributes:
        """
        The same as set_value; None does nothing.
        """

    def set_data_type(self, data_type: DataType) -> TensorAttributes: ...
    def set_dim(
        self, dim: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]
    ) -> TensorAttributes: ...
    def set_is_pass_by_value(self, is_pass_by_value: bool) -> TensorAttributes:
        """
        Sets the runtime flag and touches no value.
        """

    def set_is_virtual(self, is_virtual: bool) -> TensorAttributes: ...
    def set_name(self, name: str) -> TensorAttributes: ...
    def set_output(self, is_output: bool) -> TensorAttributes: ...
    def set_ragged_offset(self, ragged_offset: TensorAttributes | None) -> TensorAttributes:
        """
        The tensor of B+1 offsets where each batch begins: [B+1, 1, 1, 1] or [B+1], INT32 or INT64, in elements times the multiplier. None: not ragged.
        """

    def set_ragged_offset_multiplier(
        self, multiplier: typing.SupportsInt | typing.SupportsIndex
    ) -> TensorAttributes:
        """
        Element offset = stored offset * multiplier (default 1).
        """

    def set_stride(
        self, stride: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]
    ) -> TensorAttributes: ...
    def set_uid(self, uid: typing.SupportsInt | typing.SupportsIndex) -> TensorAttributes: ...
    def set_value(self, value: typing.Any, data_type: DataType | None = None) -> TensorAttributes:
        """
        A compile-time constant, in data_type, else the type set before, else the number's own.
        """

    def validate(self) -> None:
        """
        Raises InvalidValueError naming the tensor, got and expected.
        """

class Handle:
    """
    A device and a stream. Use one from one thread at a time; without one, each thread has its own.
    """

    def __init__(self, stream: typing.Any = None, device: str = "cpu") -> None:
        """
        stream: an address, or an object with cuda_stream. device: 'cpu', 'hip' or 'cuda'.
        """

    @property
    def device(self) -> str: ...
    @property
    def stream(self) -> int: ...
    @stream.setter
    def stream(self, arg1: typing.Any) -> None: ...

class EngineInfo:
    """
    An engine, or a plugin file that could not be loaded.
    """

    def __repr__(self) -> str: ...
    @property
    def api_version(self) -> str: ...
    @property
    def available(self) -> bool: ...
    @property
    def device(self) -> str:
        """
        Where its buffers live; empty: unstated.
        """

    @property
    def id(self) -> typing.Any:
        """
        64-bit FNV-1a of the name; None if not loaded.
        """

    @property
    def name(self) -> str: ...
    @property
    def plugin(self) -> str: ...
    @property
    def reason(self) -> str:
        """
        Why it is not available.
        """

    @property
    def version(self) -> str: ...

class Verdict:
    """
    What is said of one engine about one graph.
    """

    def __repr__(self) -> str: ...
    @property
    def api_version(self) -> str: ...
    @property
    def applicable(self) -> bool: ...
    @property
    def engine(self) -> str: ...
    @property
    def plugin(self) -> str: ...
    @property
    def reason(self) -> str:
        """
        Why not; of an applicable engine, remarks.
        """

class ExecutionPlan:
    """
    A graph compiled by one engine; execute it many times, from any thread.
    """

    @staticmethod
    def deserialize(data: bytes, handle: Handle | None = None) -> ExecutionPlan:
        """
        A plan from bytes of serialize, or from a bare plan. Raises NotSupportedError with the reason for another engine version, architecture or device.
        """

    def execute(
        self,
        variant_pack: dict[typing.Any, typing.Any],
        workspace: typing.Any = None,
        stream: typing.Any = None,
        overrides: dict[typing.Any, typing.Any] | None = None,
    ) -> None:
        """
        Runs the plan. variant_pack: {tensor or uid: array, int pointer, or, for a runtime scalar, a number}. Raises InvalidValueError before anything is written when a buffer, an offset or a length is wrong. overrides: {tensor or uid: (dims, strides)}, for a graph with overridable shapes.
        """

    def serialize(self) -> bytes:
        """
        The plan and its graph as bytes. Raises NotSupportedError for an engine that cannot save its plans.
        """

    def serialize_bare(self) -> bytes:
        """
        The plan alone, as hipDNN saves it: its tensors are known by uid only.
        """

    @property
    def device(self) -> str: ...
    @property
    def engine_id(self) -> int: ...
    @property
    def engine_name(self) -> str: ...
    @property
    def workspace_size(self) -> int:
        """
        In bytes.
        """

class Graph:
    """
    Operations over tensors. Build it once, execute the plan with any buffers, offsets, lengths and runtime scalars.
    """

    @staticmethod
    def deserialize(data: bytes) -> Graph:
        """
        A graph from bytes of serialize or of a container; it can be built, not changed. Raises InvalidValueError for damaged bytes, NotSupportedError for a graph that needs a newer reader.
        """

    @staticmethod
    def from_json(text: str) -> Graph:
        """
        A graph from the JSON of to_json or of hipDNN; it can be built, not changed. Keys that are missing take their defaults. Raises InvalidValueError, naming the path, for damaged text, unknown keys and values out of range; NotSupportedError for a graph that needs a newer reader.
        """

    def __init__(
        self,
        name: str = "",
        io_data_type: DataType = DataType.BFLOAT16,
        intermediate_data_type: DataType = DataType.FLOAT,
        compute_data_type: DataType = DataType.FLOAT,
    ) -> None: ...
    def build(
        self,
        handle: Handle | None = None,
        *,
        engine: str | None = None,
        knobs: dict[typing.Any, typing.Any] | None = None,
    ) -> ExecutionPlan:
        """
        Validates, chooses an engine (by name: 'reference', 'cpu', 'hip', or any plugin's), and returns the plan. The graph is final from then on. Raises NotSupportedError when no engine can run it.
        """

    def execute(
        self,
        variant_pack: dict[typing.Any, typing.Any],
        workspace: typing.Any = None,
        handle: Handle | None = None,
        overrides: dict[typing.Any, typing.Any] | None = None,
    ) -> None:
        """
        Runs the plan that build made last.
        """

    def explain(self, handle: Handle | None = None) -> list[Verdict]:
        """
        One verdict per engine: whether it can run the graph, and why not.
        """

    def sdpa(
        self,
        q: TensorAttributes,
        k: TensorAttributes,
        v: TensorAttributes,
        *,
        attn_scale: typing.Any = None,
        bias: TensorAttributes | None = None,
        seq_len_q: TensorAttributes | None = None,
        seq_len_kv: TensorAttributes | None = None,
        causal_mask: bool = False,
        diagonal_alignment: DiagonalAlignment = DiagonalAlignment.TOP_LEFT,
        left_bound: typing.SupportsInt | typing.SupportsIndex | None = None,
        right_bound: typing.SupportsInt | typing.SupportsIndex | None = None,
        dropout_probability: typing.SupportsFloat | typing.SupportsIndex | None = None,
        seed: TensorAttributes | None = None,
        offset: TensorAttributes | None = None,
        generate_stats: bool = False,
        name: str = "",
    ) -> tuple[TensorAttributes, TensorAttributes | None]:
        """
        Scaled dot-product attention; returns (o, stats), stats None unless generate_stats. q [B,Hq,Sq,D], k [B,Hk,Skv,D], v [B,Hv,Skv,Dv], o [B,Hq,Sq,Dv], stats [B,Hq,Sq,1] FLOAT: natural log-sum-exp. attn_scale: a number, a scalar tensor, or None (1/sqrt(D)). Key c is visible to row r when r + offset - left_bound <= c <= r + offset + right_bound; offset is 0 for TOP_LEFT and valid_kv - valid_q of the batch for BOTTOM_RIGHT; None or negative: open.
        """

    def serialize(self) -> bytes:
        """
        FlatBuffers bytes in hipDNN's wire format. The graph is final from then on.
        """

    def set_override_shape_enabled(self, value: bool) -> Graph:
        """
        True: each execute may give other dims and strides (overrides=).
        """

    def set_runtime_default_override(self, value: bool) -> Graph:
        """
        True: a variant-pack entry overrides a runtime default. False (default): it is inert.
        """

    @typing.overload
    def tensor(self, attributes: TensorAttributes) -> TensorAttributes:
        """
        Adds a tensor and returns it.
        """

    @typing.overload
    def tensor(self, scalar: typing.Any, type: ScalarType) -> TensorAttributes:
        """
        A scalar: RUNTIME_PARAM with this default, or COMPILE_TIME_CONST.
        """

    @typing.overload
    def tensor(
        self,
        *,
        dim: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        stride: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] | None = None,
        name: str = "",
        data_type: DataType | None = None,
        uid: typing.SupportsInt | typing.SupportsIndex | None = None,
        alignment: typing.SupportsInt | typing.SupportsIndex = 16,
        ragged_offset: TensorAttributes | None = None,
        ragged_offset_multiplier: typing.SupportsInt | typing.SupportsIndex = 1,
    ) -> TensorAttributes:
        """
        Adds a tensor. dim, stride: in elements (stride None: row-major, of a ragged tensor [S*H*D, D, H*D, 1]); data_type None: the graph's io_data_type; alignment: bytes.
        """

    def tensor_like(self, array: typing.Any, name: str = "") -> TensorAttributes:
        """
        A tensor with the dims, strides and type of an array; a host array of one element gives a runtime scalar.
        """

    def to_json(self) -> str:
        """
        JSON with hipDNN's keys. The graph is final from then on.
        """

    def validate(self) -> None:
        """
        Assigns uids, infers what was left out, checks everything.
        """

    @property
    def min_reader_version(self) -> int: ...
    @property
    def min_required_engine_api_version(self) -> tuple[int, int, int]: ...
    @property
    def name(self) -> str: ...
    @property
    def tensors(self) -> list[TensorAttributes]: ...

def add_plugin_path(path: str) -> None: ...
def describe_blob(data: bytes) -> str:
    """
    JSON of a serialized graph, plan or container: kind, graph, plan, warnings.
    """

def engines() -> list[EngineInfo]:
    """
    Every engine found, and every plugin file that could not be loaded.
    """

def plugin_search_paths() -> list[str]: ...

K_GRAPH_READER_VERSION: int = 2
__version__: str = "0.1.0"
