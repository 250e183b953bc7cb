"""Attention cases as graphs: a case's tensors, its variant pack, and runs with chosen pre-fills.

The graph states the layout; the arrays bind memory. Tensor dims are logical [B,H,S,D], memory is
token-major (BSHD strides) unless the case says otherwise, and one plan serves any lengths within
its capacity, so :meth:`SdpaGraph.pack` takes the problem anew at each run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import raggeddnn as rd

from .._plans import data_type_of
from .cases import DROPOUT_OFFSET, DROPOUT_SEED, Case, Problem, numpy_dtype
from .oracle import Array

# Tensors whose rows are those of the keys.
KEY_SIDE = ("k", "v", "dk", "dv")


def graph_dtype(name: str) -> rd.DataType:
    """The graph's data type for NumPy's name of one."""
    found = data_type_of(name)
    if found is None:
        raise KeyError(name)
    return found


@dataclass
class SdpaGraph:
    """A forward graph built for a problem's case, batch size and capacities (``side.s_max``).

    ``tensors`` maps names (q, k, v, o, stats, bias, scale, seq_q, seq_kv) to graph tensors;
    ``offsets`` maps names (q, k, v, o, stats) to the offset tensor and the units of its values.
    """

    graph: rd.Graph
    case: Case
    tensors: dict[str, rd.TensorAttributes]
    offsets: dict[str, tuple[rd.TensorAttributes, int]]
    batch: int
    capacity_q: int
    capacity_kv: int

    def build(self, engine: str | None = None) -> rd.ExecutionPlan:
        """Build the plan; raises ``rd.NotSupportedError`` when the engine refuses the graph."""
        return self.graph.build(engine=engine)

    def pack(self, problem: Problem, outputs: dict[str, Array]) -> dict[rd.TensorAttributes, Any]:
        """The variant pack of ``problem`` (of the same batch, within the capacities) and
        ``outputs``.
        """
        case, sides = problem.case, {"q": problem.side_q, "kv": problem.side_kv}
        pack: dict[rd.TensorAttributes, Any] = {}
        for name, rows in (("q", problem.q), ("k", problem.k), ("v", problem.v)):
            pack[self.tensors[name]] = self.to_memory(rows, problem)
        for name, array in outputs.items():
            pack[self.tensors[name]] = array
        for name, (aux, unit) in self.offsets.items():
            side = sides["kv" if name in KEY_SIDE else "q"]
            pack[aux] = index_memory([row * unit for row in side.offsets], case)
        for name in ("q", "kv"):
            if f"seq_{name}" in self.tensors:
                pack[self.tensors[f"seq_{name}"]] = index_memory(sides[name].lens, case)
        if problem.bias is not None:
            pack[self.tensors["bias"]] = problem.bias
        if case.scale_state == "runtime":
            pack[self.tensors["scale"]] = case.scale
        if case.dropout > 0:
            pack[self.tensors["seed"]] = DROPOUT_SEED
            pack[self.tensors["offset"]] = DROPOUT_OFFSET
        return pack

    def new_outputs(self, problem: Problem, fill: float) -> dict[str, Array]:
        """Output arrays filled with ``fill`` (clipped to the type): o, and stats when asked for."""
        case, heads = problem.case, problem.case.heads[0]
        dtype = numpy_dtype(case.dtype)
        if case.dtype == "float16" and np.isfinite(fill):
            fill = min(fill, 6e4)
        o = np.full((problem.side_q.rows, heads, case.value_dim), fill, dtype=dtype)
        outputs = {"o": self.to_memory(o, problem)}
        if case.has_ragged_stats:
            outputs["stats"] = np.full((problem.side_q.rows, heads), fill, dtype=np.float32)
        elif case.stats != "none":
            shape = (self.batch, heads, self.capacity_q, 1)
            outputs["stats"] = np.full(shape, fill, dtype=np.float32)
        return outputs

    def o_rows(self, outputs: dict[str, Array], problem: Problem) -> Array:
        """The output as rows (Rq, Hq, Dv), whatever the memory order."""
        o = outputs["o"]
        if problem.case.is_ragged or problem.case.memory == "bshd":
            return o
        rows: Array = o.transpose(0, 2, 1, 3).reshape(problem.side_q.rows, *o.shape[1::2])
        return rows

    def lse_rows(self, outputs: dict[str, Array], problem: Problem) -> Array | None:
        """The log-sum-exp as (Hq, Rq), rows that dense stats do not cover as NaN; None without
        stats.
        """
        if "stats" not in outputs:
            return None
        stats = outputs["stats"]
        if problem.case.has_ragged_stats:
            token_major: Array = stats.T
            return token_major
        side = problem.side_q
        rows = np.full((problem.case.heads[0], side.rows), np.nan, dtype=np.float32)
        for batch, (start, block) in enumerate(zip(side.starts, side.blocks, strict=True)):
            rows[:, start : start + block] = stats[batch, :, :block, 0]
        return rows

    def run(self, plan: rd.ExecutionPlan, problem: Problem, fill: float) -> dict[str, Array]:
        """Execute on fresh outputs filled with ``fill``; returns them as the engine left them."""
        outputs = self.new_outputs(problem, fill)
        plan.execute(self.pack(problem, outputs))
        return outputs

    def to_memory(self, rows: Array, problem: Problem) -> Array:
        """Rows (R, H, D) as the graph's tensors of that side hold them."""
        if problem.case.is_ragged or problem.case.memory == "bshd":
            return rows
        batched = rows.reshape(self.batch, -1, *rows.shape[1:])
        return np.ascontiguousarray(batched.transpose(0, 2, 1, 3))

    def stats_to_memory(self, rows: Array, problem: Problem) -> Array:
        """The same of one number for each head and row (Hq, Rq); rows of dense stats that are none
        hold NaN.
        """
        side, heads = problem.side_q, problem.case.heads[0]
        if problem.case.has_ragged_stats:
            return np.ascontiguousarray(rows.T)
        dense = np.full((self.batch, heads, self.capacity_q, 1), np.nan, dtype=rows.dtype)
        for batch, (start, block) in enumerate(zip(side.starts, side.blocks, strict=True)):
            dense[batch, :, :block, 0] = rows[:, start : start + block]
        return dense


def index_memory(numbers: Sequence[int], case: Case) -> Array:
    """Offsets or lengths in the case's type and stride; what lies between them is -1."""
    memory = np.full((len(numbers) - 1) * case.index_stride + 1, -1, dtype=case.index_dtype)
    memory[:: case.index_stride] = numbers
    return memory


def _strides(case: Case, heads: int, capacity: int, dim: int) -> list[int]:
    if not case.is_ragged and case.memory == "bhsd":
        return [heads * capacity * dim, capacity * dim, dim, 1]
    return [capacity * heads * dim, dim, heads * dim, 1]


class _Builder:
    """Adds the tensors of one problem to a graph."""

    def __init__(self, problem: Problem) -> None:
        case = problem.case
        compute = rd.DataType.DOUBLE if case.dtype == "float64" else rd.DataType.FLOAT
        self.problem, self.case = problem, case
        self.graph = rd.Graph(
            name=case.name,
            io_data_type=graph_dtype(case.dtype),
            intermediate_data_type=compute,
            compute_data_type=compute,
        )
        self.tensors: dict[str, rd.TensorAttributes] = {}
        self.offsets: dict[str, tuple[rd.TensorAttributes, int]] = {}
        self._shared: dict[str, rd.TensorAttributes] = {}

    def offset_for(self, name: str, row_elements: int) -> tuple[rd.TensorAttributes, int]:
        """The offset tensor of q, k, v, o or stats, and its multiplier. Row units share one per
        side.
        """
        side = "kv" if name in KEY_SIDE else "q"
        by_row = self.case.offset_unit == "row"
        key = side if by_row else name
        if key not in self._shared:
            self._shared[key] = self.graph.tensor(
                name=f"offset_{key}",
                dim=[self.problem.batch + 1, 1, 1, 1],
                stride=[self.case.index_stride, 1, 1, 1],
                data_type=graph_dtype(self.case.index_dtype),
            )
        self.offsets[name] = (self._shared[key], 1 if by_row else row_elements)
        return self._shared[key], row_elements if by_row else 1

    def add_input(self, name: str, heads: int, capacity: int, dim: int) -> None:
        ragged: dict[str, Any] = {}
        if self.case.is_ragged:
            aux, multiplier = self.offset_for(name, heads * dim)
            ragged = {"ragged_offset": aux, "ragged_offset_multiplier": multiplier}
        self.tensors[name] = self.graph.tensor(
            name=name,
            dim=[self.problem.batch, heads, capacity, dim],
            stride=_strides(self.case, heads, capacity, dim),
            data_type=graph_dtype(self.case.dtype),
            **ragged,
        )

    def add_lengths(self) -> None:
        for name in ("q", "kv"):
            self.tensors[f"seq_{name}"] = self.graph.tensor(
                name=f"seq_{name}",
                dim=[self.problem.batch, 1, 1, 1],
                stride=[self.case.index_stride, 1, 1, 1],
                data_type=graph_dtype(self.case.index_dtype),
            )

    def add_bias(self, bias: Array) -> None:
        strides = [stride // bias.itemsize for stride in bias.strides]
        self.tensors["bias"] = self.graph.tensor(
            name="bias",
            dim=list(bias.shape),
            stride=strides,
            data_type=graph_dtype(self.case.dtype),
        )

    def scale(self) -> float | rd.TensorAttributes | None:
        state, value = self.case.scale_state, self.case.scale
        if value is None or state == "baked":
            return value
        if state == "runtime":
            attributes = rd.TensorAttributes().set_name("scale").set_dim([1]).set_stride([1])
            attributes.set_data_type(rd.DataType.FLOAT).set_as_runtime_parameter()
            self.tensors["scale"] = self.graph.tensor(attributes)
        elif state == "runtime_default":
            self.tensors["scale"] = self.graph.tensor(value, rd.ScalarType.RUNTIME_PARAM)
        else:
            self.tensors["scale"] = self.graph.tensor(value, rd.ScalarType.COMPILE_TIME_CONST)
        return self.tensors["scale"]

    def options(self) -> dict[str, Any]:
        """The options that both passes share; adds their tensors."""
        case = self.case
        if case.gives_lengths:
            self.add_lengths()
        if self.problem.bias is not None:
            self.add_bias(self.problem.bias)
        if case.dropout > 0:
            for name in ("seed", "offset"):
                scalar = rd.TensorAttributes().set_name(name).set_dim([1]).set_stride([1])
                scalar.set_data_type(rd.DataType.INT64).set_as_runtime_parameter()
                self.tensors[name] = self.graph.tensor(scalar)
        return {
            "attn_scale": self.scale(),
            "bias": self.tensors.get("bias"),
            "seq_len_q": self.tensors.get("seq_q"),
            "seq_len_kv": self.tensors.get("seq_kv"),
            "causal_mask": case.causal,
            "diagonal_alignment": getattr(rd.DiagonalAlignment, case.alignment.upper()),
            "left_bound": case.left_bound,
            "right_bound": case.right_bound,
            "dropout_probability": case.dropout or None,
            "seed": self.tensors.get("seed"),
            "offset": self.tensors.get("offset"),
            "name": case.name,
        }

    def set_output(self, name: str, tensor: rd.TensorAttributes, dim: int, heads: int = 0) -> None:
        """State memory and offsets of O, of stats, or of a gradient (``heads`` 0: those of Q)."""
        heads = heads or self.case.heads[0]
        sides = {True: self.problem.side_kv, False: self.problem.side_q}
        capacity = sides[name in KEY_SIDE].s_max
        tensor.set_name(name).set_output(True)
        tensor.set_dim([self.problem.batch, heads, capacity, dim])
        is_stats = name in ("stats", "dstats")
        if is_stats and not self.case.has_ragged_stats:
            tensor.set_stride([heads * capacity, capacity, 1, 1])
        else:
            tensor.set_stride(_strides(self.case, heads, capacity, dim))
        is_ragged = self.case.has_ragged_stats if is_stats else self.case.is_ragged
        if is_ragged:
            aux, multiplier = self.offset_for(name, heads * dim)
            tensor.set_ragged_offset(aux).set_ragged_offset_multiplier(multiplier)
        self.tensors[name] = tensor


def sdpa_graph(problem: Problem) -> SdpaGraph:
    """The forward graph of a problem: its layout, masks, scale state, bias and stats, ready to
    build.
    """
    case, builder = problem.case, _Builder(problem)
    q_heads, k_heads, v_heads = case.heads
    builder.add_input("q", q_heads, problem.side_q.s_max, case.d)
    builder.add_input("k", k_heads, problem.side_kv.s_max, case.d)
    builder.add_input("v", v_heads, problem.side_kv.s_max, case.value_dim)
    tensors = builder.tensors
    o, stats = builder.graph.sdpa(
        tensors["q"],
        tensors["k"],
        tensors["v"],
        generate_stats=case.stats != "none",
        **builder.options(),
    )
    o.set_data_type(graph_dtype(case.dtype))
    builder.set_output("o", o, case.value_dim)
    if stats is not None:
        stats.set_data_type(rd.DataType.FLOAT)
        builder.set_output("stats", stats, 1)
    return SdpaGraph(
        graph=builder.graph,
        case=case,
        tensors=tensors,
        offsets=builder.offsets,
        batch=problem.batch,
        capacity_q=problem.side_q.s_max,
        capacity_kv=problem.side_kv.s_max,
    )
