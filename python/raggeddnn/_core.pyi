"""
The compiled core of raggeddnn; use the names of the package itself.
"""

from __future__ import annotations
import collections.abc
import enum
import numpy
import numpy.typing
import typing
import typing_extensions

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
        stream: an address, or a stream of PyTorch, CuPy, cuda-bindings or hip-python, or what else has __cuda_stream__; None: the default stream. device: 'cpu', 'hip' or 'cuda'.
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
    def path(self) -> str:
        """
        The plugin's file.
        """

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

    def __repr__(self) -> str: ...
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

    def explain_kernel(self) -> str:
        """
        Which kernels run, their tile sizes, and why these: a line for each node, as the engine tells it.
        """

    def metadata_faults(
        self, workspace: typing.Any = None, stream: typing.Any = None
    ) -> str | None:
        """
        What was wrong with the offsets and lengths of this plan's last execute with that workspace (None: the one kept for this thread), as one sentence naming tensor, index, what was got and what was expected: the first fault by batch. None when all was well, and of engines on host memory, whose execute raises instead. Waits for the stream, which execute does not. Raises InvalidValueError where the workspace has been used by another plan since, NotSupportedError for a provider that cannot tell.
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

class TensorFacts:
    """
    What plans depend on in some tensors (or None), read once.
    """

    def __init__(
        self, tensors: tuple[typing.Any, ...], free: typing.SupportsInt | typing.SupportsIndex
    ) -> None: ...
    def check_sequences(
        self,
        tables: typing.SupportsInt | typing.SupportsIndex,
        limit_q: typing.SupportsInt | typing.SupportsIndex,
        limit_k: typing.SupportsInt | typing.SupportsIndex,
        words: tuple[typing.Any, ...],
    ) -> tuple[int, int, bool, bool, bool]:
        """
        Of q, k, v and, from index `tables` on, cumulative and valid lengths: checks those in host memory against rows and longest lengths. Returns S_max of both sides, whether every row of q and of k is a sequence's, and whether there is anything to compute. Raises InvalidValueError in the `words` of the caller's arguments.
        """

    @property
    def key(self) -> bytes:
        """
        Equal for tensors that one plan serves: types, devices, dims, strides, alignments.
        """

class PlanCall:
    """
    A plan, executed by the addresses of a kind of call.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        inputs: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex | None],
        outputs: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        scale: typing.SupportsInt | typing.SupportsIndex,
    ) -> None: ...
    def run(
        self,
        facts: TensorFacts,
        outputs: tuple[typing.Any, ...],
        scale: typing.SupportsFloat | typing.SupportsIndex,
        workspace: typing.SupportsInt | typing.SupportsIndex = 0,
        stream: typing.SupportsInt | typing.SupportsIndex = 0,
        sizes: tuple[typing.Any, ...] = (),
    ) -> None: ...
    @property
    def clears(self) -> bool:
        """
        Whether run() may be given sizes: then it also clears, of ragged outputs, what no sequence has.
        """

    @property
    def workspace_size(self) -> int:
        """
        In bytes.
        """

class ArrayFacts:
    """
    An array of any library on any device, looked at.
    """

    def is_on(self, device: str) -> bool:
        """
        PyTorch and __cuda_array_interface__ say cuda of AMD's memory, too.
        """

    @property
    def address(self) -> int: ...
    @property
    def data_type(self) -> DataType:
        """
        NOT_SET for one that no tensor can have.
        """

    @property
    def device(self) -> str:
        """
        'cpu', 'cuda' or 'hip'.
        """

    @property
    def is_read_only(self) -> bool: ...
    @property
    def shape(self) -> tuple[typing.Any, ...]: ...
    @property
    def strides(self) -> tuple[typing.Any, ...]:
        """
        In elements.
        """

    @property
    def type_name(self) -> str:
        """
        As the array's library calls it.
        """

class PointwiseMode(enum.IntEnum):
    """
    Elementwise functions, by hipDNN's numbers.
    """

    UNSET = 0
    ABS = 1
    ADD = 2
    ADD_SQUARE = 3
    BINARY_SELECT = 4
    CEIL = 5
    CMP_EQ = 6
    CMP_GE = 7
    CMP_GT = 8
    CMP_LE = 9
    CMP_LT = 10
    CMP_NEQ = 11
    DIV = 12
    ELU_BWD = 13
    ELU_FWD = 14
    ERF = 15
    EXP = 16
    FLOOR = 17
    GELU_APPROX_TANH_BWD = 18
    GELU_APPROX_TANH_FWD = 19
    GELU_BWD = 20
    GELU_FWD = 21
    GEN_INDEX = 22
    IDENTITY = 23
    LOG = 24
    LOGICAL_AND = 25
    LOGICAL_NOT = 26
    LOGICAL_OR = 27
    MAX_OP = 28
    MIN_OP = 29
    MUL = 30
    NEG = 31
    RECIPROCAL = 32
    RELU_BWD = 33
    RELU_FWD = 34
    RSQRT = 35
    SIGMOID_BWD = 36
    SIGMOID_FWD = 37
    SIN = 38
    SOFTPLUS_BWD = 39
    SOFTPLUS_FWD = 40
    SQRT = 41
    SUB = 42
    SWISH_BWD = 43
    SWISH_FWD = 44
    TAN = 45
    TANH_BWD = 46
    TANH_FWD = 47

class ReductionMode(enum.IntEnum):
    """
    How elements are combined, by hipDNN's numbers.
    """

    NOT_SET = 0
    ADD = 1
    MUL = 2
    MIN_OP = 3
    MAX_OP = 4
    AMAX = 5
    AVG = 6
    NORM1 = 7
    NORM2 = 8
    MUL_NO_ZEROS = 9

class NormFwdPhase(enum.IntEnum):
    """
    Whether a normalization also gives the statistics for its gradients.
    """

    NOT_SET = 0
    INFERENCE = 1
    TRAINING = 2

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
    def _repr_svg_(self) -> str:
        """
        The drawing that notebooks show.
        """

    def batchnorm(
        self,
        x: TensorAttributes,
        scale: TensorAttributes,
        bias: TensorAttributes,
        in_running_mean: TensorAttributes | None = None,
        in_running_var: TensorAttributes | None = None,
        epsilon: TensorAttributes | None = None,
        momentum: TensorAttributes | None = None,
        peer_stats: collections.abc.Sequence[TensorAttributes] = [],
        *,
        name: str = "",
    ) -> tuple[
        TensorAttributes,
        TensorAttributes,
        TensorAttributes,
        TensorAttributes | None,
        TensorAttributes | None,
    ]:
        """
        Normalizes x [N,C,...] per channel with the batch's own mean and variance; everything else is [1,C,1,...]. Returns (y, mean, inv_variance, next_running_mean, next_running_var): inv_variance is 1/sqrt(variance + epsilon), next = (1 - momentum) * running + momentum * batch, of the variance divided by n - 1; the last two are None without running statistics. epsilon, momentum: pass-by-value scalars. x may be ragged [B,H,S,D], and y then is: channels are the heads, n counts the rows that the batches have. Of no elements: mean and inv_variance are NaN, running statistics stay.
        """

    def batchnorm_backward(
        self,
        dy: TensorAttributes,
        x: TensorAttributes,
        scale: TensorAttributes,
        mean: TensorAttributes,
        inv_variance: TensorAttributes,
        peer_stats: collections.abc.Sequence[TensorAttributes] = [],
        *,
        name: str = "",
    ) -> tuple[TensorAttributes, TensorAttributes, TensorAttributes]:
        """
        Gradients (dx, dscale, dbias) of batchnorm from its mean and inv_variance; dx with dims of x [N,C,...], dscale and dbias [1,C,1,...]. x, dy and dx are ragged [B,H,S,D], or none is.
        """

    def batchnorm_inference(
        self,
        x: TensorAttributes,
        mean: TensorAttributes,
        inv_variance: TensorAttributes,
        scale: TensorAttributes,
        bias: TensorAttributes,
        *,
        name: str = "",
    ) -> TensorAttributes:
        """
        y = (x - mean) * inv_variance * scale + bias per channel of x [N,C,...]; the others are [1,C,1,...]; inv_variance is 1/sqrt(variance + epsilon). x may be ragged [B,H,S,D], and y then is.
        """

    def batchnorm_inference_variance_ext(
        self,
        x: TensorAttributes,
        mean: TensorAttributes,
        variance: TensorAttributes,
        scale: TensorAttributes,
        bias: TensorAttributes,
        epsilon: TensorAttributes,
        *,
        name: str = "",
    ) -> TensorAttributes:
        """
        batchnorm_inference from the variance and epsilon, a pass-by-value scalar.
        """

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

    def draft_json(self) -> str:
        """
        JSON with hipDNN's keys of the graph as it stands, unchecked. The graph is not changed: uids that it lacks, and what can be inferred, are in the text only. Raises InvalidValueError for two tensors with one uid and for an offset of another graph.
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

    def layernorm(
        self,
        x: TensorAttributes,
        scale: TensorAttributes,
        bias: TensorAttributes,
        epsilon: TensorAttributes,
        *,
        norm_forward_phase: NormFwdPhase = NormFwdPhase.INFERENCE,
        normalized_dim_count: typing.SupportsInt | typing.SupportsIndex = 0,
        name: str = "",
    ) -> tuple[TensorAttributes, TensorAttributes | None, TensorAttributes | None]:
        """
        y = (x - mean) / sqrt(variance + epsilon) * scale + bias over the last normalized_dim_count dims (0: those that scale spans). Returns (y, mean, inv_variance): inv_variance is 1/sqrt(variance + epsilon); both FLOAT, with dims of x but 1 where normalized; None unless TRAINING. x may be ragged [B,H,S,D], and y then is.
        """

    def layernorm_backward(
        self,
        dy: TensorAttributes,
        x: TensorAttributes,
        scale: TensorAttributes,
        mean: TensorAttributes | None = None,
        inv_variance: TensorAttributes | None = None,
        *,
        epsilon: TensorAttributes | None = None,
        normalized_dim_count: typing.SupportsInt | typing.SupportsIndex = 0,
        name: str = "",
    ) -> tuple[TensorAttributes, TensorAttributes, TensorAttributes]:
        """
        Gradients (dx, dscale, dbias) of layernorm, from its mean and inv_variance, or from epsilon, which makes them again; dx with dims of x, dscale and dbias with those of scale.
        """

    def matmul(
        self, a: TensorAttributes, b: TensorAttributes, *, name: str = ""
    ) -> TensorAttributes:
        """
        a [..., M, K] times b [..., K, N]; returns c [..., M, N]. Leading dims broadcast. Of ragged [B,H,S,D] tensors: c has the rows of a, and is ragged where a is (it shares the offsets of a unless given its own); the sum goes over the rows of b, beside as many columns of a, and over no rows gives 0.
        """

    def pointwise(
        self,
        mode: PointwiseMode,
        a: TensorAttributes,
        b: TensorAttributes | None = None,
        c: TensorAttributes | None = None,
        *,
        relu_lower_clip: typing.SupportsFloat | typing.SupportsIndex | None = None,
        relu_upper_clip: typing.SupportsFloat | typing.SupportsIndex | None = None,
        relu_lower_clip_slope: typing.SupportsFloat | typing.SupportsIndex | None = None,
        swish_beta: typing.SupportsFloat | typing.SupportsIndex | None = None,
        elu_alpha: typing.SupportsFloat | typing.SupportsIndex | None = None,
        softplus_beta: typing.SupportsFloat | typing.SupportsIndex | None = None,
        axis: typing.SupportsInt | typing.SupportsIndex | None = None,
        name: str = "",
    ) -> TensorAttributes:
        """
        Elementwise; returns the result, of the dims that the operands broadcast to (dims of size 1, missing leading dims, and pass-by-value scalars broadcast). Gradients (modes *_BWD) take a = dy and b = the input of the activation; BINARY_SELECT gives a where c is not zero, else b; GEN_INDEX the index over `axis`. Real results are computed in double and rounded once; integers exactly, kept within the range of the type. Over ragged [B,H,S,D] tensors: every row of every batch, and nothing past the last.
        """

    def reduction(
        self,
        mode: ReductionMode,
        x: TensorAttributes,
        *,
        is_deterministic: bool = False,
        name: str = "",
    ) -> TensorAttributes:
        """
        Reduces x over the dims in which the result has size 1: all of them, unless the result's set_dim says otherwise. Of a ragged x [B,H,S,D]: over the rows that the batches have; a result that keeps S keeps B and is ragged (it shares the offsets of x unless given its own), any other is dense. Where S is 1 a result is dense unless given offsets. Nothing gives 0 for sums, norms and AMAX, 1 for products, inf (MIN_OP), -inf (MAX_OP), in integer types the limit, and NaN for AVG (0 in integer types).
        """

    def render(self, format: str = "text") -> str:
        """
        A drawing of the graph as it stands, as 'text', 'mermaid' or 'svg' (raggeddnn.diagram). The graph is not changed. Raises InvalidValueError for another format.
        """

    def rmsnorm(
        self,
        x: TensorAttributes,
        scale: TensorAttributes,
        epsilon: TensorAttributes,
        bias: TensorAttributes | None = None,
        *,
        norm_forward_phase: NormFwdPhase = NormFwdPhase.INFERENCE,
        name: str = "",
    ) -> tuple[TensorAttributes, TensorAttributes | None]:
        """
        y = x / sqrt(mean(x^2) + epsilon) * scale + bias, the mean over the dims that scale spans (scale: 1 or the size of x in each). Returns (y, inv_rms): inv_rms is 1/sqrt(mean(x^2) + epsilon), FLOAT, with dims of x but 1 where normalized; None unless TRAINING. epsilon: a pass-by-value scalar. x may be ragged [B,H,S,D], and y then is.
        """

    def rmsnorm_backward(
        self,
        dy: TensorAttributes,
        x: TensorAttributes,
        scale: TensorAttributes,
        inv_rms: TensorAttributes,
        *,
        has_dbias: bool = False,
        name: str = "",
    ) -> tuple[TensorAttributes, TensorAttributes, TensorAttributes | None]:
        """
        Gradients (dx, dscale, dbias) of rmsnorm from its inv_rms; dx with dims of x, dscale and dbias with those of scale; dbias None unless has_dbias.
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
        Scaled dot-product attention; returns (o, stats), stats None unless generate_stats. q [B,Hq,Sq,D], k [B,Hk,Skv,D], v [B,Hv,Skv,Dv], o [B,Hq,Sq,Dv], stats [B,Hq,Sq,1] FLOAT: natural log-sum-exp. attn_scale: a number, a scalar tensor, or None (1/sqrt(D)). Key c is visible to row r when r + offset - left_bound <= c <= r + offset + right_bound; offset is 0 for TOP_LEFT and valid_kv - valid_q of the batch for BOTTOM_RIGHT; None or negative: open. dropout_probability (0 <= p < 1) drops probabilities by seed and offset, INT32 or INT64 scalars or tensors of one element; stats do not see it.
        """

    def sdpa_backward(
        self,
        q: TensorAttributes,
        k: TensorAttributes,
        v: TensorAttributes,
        o: TensorAttributes,
        do: TensorAttributes,
        stats: TensorAttributes,
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
        dstats: TensorAttributes | None = None,
        generate_dbias: bool = False,
        name: str = "",
    ) -> tuple[TensorAttributes, ...]:
        """
        The gradients (dq, dk, dv) of sdpa with the same options, and dbias as a fourth result with generate_dbias. o and stats are what sdpa wrote, do is the gradient of o, dstats that of stats (an extension: other readers and engines refuse such a graph). A gradient has the dims and type of its operand; unless it is given strides it lies as its operand does, ragged offset and multiplier included. dbias has the dims of bias, summed over broadcast axes.
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
        Assigns uids, infers what was left out, checks everything. What it chose is shown by the tensors, and chosen anew the next time: until the graph is final, even a uid may change.
        """

    @property
    def min_reader_version(self) -> int: ...
    @property
    def min_required_engine_api_version(self) -> tuple[int, int, int]: ...
    @property
    def name(self) -> str: ...
    @property
    def tensors(self) -> list[TensorAttributes]: ...

class TensorIndices:
    """
    Iterates over the indices of a tensor.
    """

    def __iter__(self) -> typing.Any: ...
    def __next__(self) -> tuple[typing.Any, ...]: ...

class TensorData:
    """
    What the classes of raggeddnn.tensor hold.
    """

    @staticmethod
    def aux(array: typing.Any) -> TensorData: ...
    @staticmethod
    def dense(
        dims: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        strides: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] | None,
        data_type: DataType,
        device: str,
    ) -> TensorData: ...
    @staticmethod
    def ragged(
        dims: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        strides: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        seq_axis: typing.SupportsInt | typing.SupportsIndex,
        ragged_offset: TensorData,
        count: typing.SupportsInt | typing.SupportsIndex | None,
        data_type: DataType,
        multiplier: typing.SupportsInt | typing.SupportsIndex,
        device: str,
    ) -> TensorData: ...
    @staticmethod
    def shallow(
        array: typing.Any,
        dims: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        strides: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
    ) -> TensorData: ...
    @staticmethod
    def shallow_ragged(
        array: typing.Any,
        dims: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        strides: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        seq_axis: typing.SupportsInt | typing.SupportsIndex,
        ragged_offset: TensorData,
        count: typing.SupportsInt | typing.SupportsIndex | None,
        multiplier: typing.SupportsInt | typing.SupportsIndex,
    ) -> TensorData: ...
    def data_type(self) -> DataType: ...
    def device(self) -> str: ...
    def dims(self) -> list[int]: ...
    def dlpack(
        self, is_versioned: bool, stream: typing.SupportsInt | typing.SupportsIndex
    ) -> typing_extensions.CapsuleType: ...
    def dlpack_device(self) -> tuple[typing.Any, ...]: ...
    def element_count(self) -> int: ...
    def element_space(self) -> int: ...
    def fill_with_data(self, data: typing.Any) -> None: ...
    def fill_with_random_values(
        self,
        low: typing.SupportsFloat | typing.SupportsIndex | None,
        high: typing.SupportsFloat | typing.SupportsIndex | None,
        seed: typing.SupportsInt | typing.SupportsIndex,
    ) -> None: ...
    def fill_with_sentinel_value(self) -> None: ...
    def fill_with_value(self, value: typing.Any) -> None: ...
    def get_host_value(
        self, indices: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]
    ) -> typing.Any: ...
    def get_index(
        self, indices: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]
    ) -> int: ...
    def has_regular_dims(self) -> bool: ...
    def indices(self) -> TensorIndices: ...
    def is_packed(self) -> bool: ...
    def numpy(self) -> typing.Any: ...
    def set_host_value(
        self,
        value: typing.Any,
        indices: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
    ) -> None: ...
    def strides(self) -> list[int]: ...

class Harness:
    """
    What raggeddnn.testing's harness holds.
    """

    def __init__(
        self,
        *,
        graph: bytes,
        supplied: collections.abc.Mapping[typing.SupportsInt | typing.SupportsIndex, TensorData],
        scalars: dict[typing.Any, typing.Any],
        knobs: dict[typing.Any, typing.Any] | None,
        engine: str,
        reference_engine: str,
        device: str,
        seed: typing.SupportsInt | typing.SupportsIndex,
        range: typing.Annotated[
            collections.abc.Sequence[typing.SupportsFloat | typing.SupportsIndex], "FixedSize(2)"
        ],
        guard_elements: typing.SupportsInt | typing.SupportsIndex,
    ) -> None: ...
    def change_inputs(
        self,
        supplied: collections.abc.Mapping[typing.SupportsInt | typing.SupportsIndex, TensorData],
        scalars: dict[typing.Any, typing.Any],
    ) -> None: ...
    def engine_tensor(self, uid: typing.SupportsInt | typing.SupportsIndex) -> TensorData: ...
    def reference_tensor(self, uid: typing.SupportsInt | typing.SupportsIndex) -> TensorData: ...
    def verify(
        self,
        tolerances: collections.abc.Mapping[
            typing.SupportsInt | typing.SupportsIndex,
            tuple[
                typing.SupportsFloat | typing.SupportsIndex,
                typing.SupportsFloat | typing.SupportsIndex,
                typing.SupportsFloat | typing.SupportsIndex,
                typing.Annotated[numpy.typing.ArrayLike, numpy.float64] | None,
            ],
        ],
        threads: typing.SupportsInt | typing.SupportsIndex | None,
    ) -> dict[typing.Any, typing.Any]: ...
    @property
    def output_uids(self) -> list[int]: ...

class FpEnvironment:
    """
    The floating-point environment of this thread as it was when made.
    """

    LEFT_CHANGED: typing.ClassVar[str] = (
        "the floating-point environment (rounding, subnormals, traps) was left changed"
    )

    def __init__(self) -> None: ...
    def restore(self) -> bool:
        """
        Brings it back; was it another one?
        """

def add_plugin_path(path: str) -> None: ...
def compare_skip_sentinel(
    reference: TensorData,
    other: TensorData,
    absolute: typing.SupportsFloat | typing.SupportsIndex,
    relative: typing.SupportsFloat | typing.SupportsIndex,
    seq_axis: typing.SupportsInt | typing.SupportsIndex | None,
) -> dict[typing.Any, typing.Any]: ...
def describe_blob(data: bytes) -> str:
    """
    JSON of a serialized graph, plan or container: kind, graph, plan, warnings.
    """

def engines() -> list[EngineInfo]:
    """
    Every engine found, and every plugin file that could not be loaded.
    """

def fill_gpu_with_zeros(
    address: typing.SupportsInt | typing.SupportsIndex,
    bytes: typing.SupportsInt | typing.SupportsIndex,
    stream: typing.SupportsInt | typing.SupportsIndex,
) -> None:
    """
    In the order of the stream.
    """

def gpu_device() -> str:
    """
    'cuda' or 'hip', whose runtime this process uses. Raises NotSupportedError, with what was looked for, where there is none with a device.
    """

def plugin_search_paths() -> list[str]: ...
def random_ragged_layout(
    seed: typing.SupportsInt | typing.SupportsIndex,
    batches: typing.SupportsInt | typing.SupportsIndex,
    max_rows: typing.SupportsInt | typing.SupportsIndex,
    kind: str,
) -> tuple[typing.Any, ...]: ...
def read_array(
    array: typing.Any, what: str, stream: typing.SupportsInt | typing.SupportsIndex | None
) -> ArrayFacts | None:
    """
    None for what is no array. Raises InvalidValueError, naming `what`, for one that cannot be taken.
    """

def synchronize_gpu() -> None:
    """
    Waits for all work of the current device. Raises what has failed there.
    """

K_GRAPH_READER_VERSION: int = 2
__version__: str = "0.1.0"
