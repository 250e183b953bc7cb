"""Backward graphs of the named cases, their variant packs, and runs with pre-fills and guards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import raggeddnn as rd

from .cases import numpy_dtype
from .checks import PREFILLS, assert_same_bits, is_reference
from .gradients import (
    GRADIENTS,
    BackwardProblem,
    bias_gradient,
    check_bias_gradient,
    check_sequence_gradients,
    is_well_posed,
)
from .graphs import SdpaGraph, _Builder, graph_dtype
from .oracle import Array

GUARD = 64  # elements before and after each output


@dataclass
class SdpaBackwardGraph(SdpaGraph):
    """A backward graph; ``tensors`` also has do, stats, dstats, dq, dk, dv, dbias where it uses
    them.
    """

    guards: list[Array] = field(default_factory=list)

    def inputs(self, back: BackwardProblem) -> dict[rd.TensorAttributes, Any]:
        """The part of the variant pack that the backward pass reads."""
        problem = back.forward
        pack = self.pack(problem, {})
        for name, rows in (("o", back.o), ("do", back.do)):
            pack[self.tensors[name]] = self.to_memory(rows, problem)
        pack[self.tensors["stats"]] = self.stats_to_memory(back.lse, problem)
        if back.dstats is not None:
            pack[self.tensors["dstats"]] = self.stats_to_memory(back.dstats, problem)
        return pack

    def new_gradients(self, back: BackwardProblem, fill: float) -> dict[str, Array]:
        """Outputs full of ``fill`` (clipped to the type), each between guards of the same."""
        problem, case = back.forward, back.case
        if case.dtype == "float16" and np.isfinite(fill):
            fill = min(fill, 6e4)
        shapes = {"dq": problem.q.shape, "dk": problem.k.shape, "dv": problem.v.shape}
        if problem.bias is not None and "dbias" in self.tensors:
            shapes["dbias"] = problem.bias.shape
        found = {}
        if not case.is_ragged and case.memory == "bhsd":
            for name in GRADIENTS:
                rows, heads, dim = shapes[name]
                shapes[name] = (self.batch, heads, rows // self.batch, dim)
        for name, shape in shapes.items():
            count = int(np.prod(shape))
            flat = np.full(count + 2 * GUARD, fill, dtype=numpy_dtype(case.dtype))
            self.guards.extend((flat[:GUARD], flat[GUARD + count :]))
            found[name] = flat[GUARD : GUARD + count].reshape(shape)
        return found

    def gradient_rows(self, gradients: dict[str, Array], back: BackwardProblem) -> dict[str, Array]:
        """dq, dk, dv as rows (R, H, D), whatever the memory order."""
        case = back.case
        if case.is_ragged or case.memory == "bshd":
            return {name: gradients[name] for name in GRADIENTS}
        rows = {}
        for name in GRADIENTS:
            x = gradients[name].transpose(0, 2, 1, 3)
            rows[name] = x.reshape(-1, *x.shape[2:])
        return rows

    def run_backward(
        self, plan: rd.ExecutionPlan, back: BackwardProblem, fill: float
    ) -> dict[str, Array]:
        """Execute on fresh outputs filled with ``fill``; checks the guards round them."""
        self.guards.clear()
        gradients = self.new_gradients(back, fill)
        before = [guard.copy() for guard in self.guards]
        outputs = {self.tensors[name]: array for name, array in gradients.items()}
        plan.execute({**self.inputs(back), **outputs})
        for guard, kept in zip(self.guards, before, strict=True):
            assert_same_bits(guard, kept, f"{back.case.name}: guard")
        return gradients


def sdpa_backward_graph(back: BackwardProblem, *, with_dbias: bool = True) -> SdpaBackwardGraph:
    """The backward graph of a problem, ready to build; ``with_dbias``: it asks for the gradient of
    a bias that it has.
    """
    problem, case = back.forward, back.case
    builder = _Builder(problem)
    tensors = builder.tensors
    sizes = {
        "q": (case.heads[0], case.d),
        "k": (case.heads[1], case.d),
        "v": (case.heads[2], case.value_dim),
    }
    sides = {"q": problem.side_q, "k": problem.side_kv, "v": problem.side_kv}
    for name, (heads, dim) in sizes.items():
        builder.add_input(name, heads, sides[name].s_max, dim)
    for name in ("o", "do"):
        builder.add_input(name, case.heads[0], problem.side_q.s_max, case.value_dim)
    for name in ("stats", "dstats") if back.dstats is not None else ("stats",):
        attributes = rd.TensorAttributes().set_data_type(graph_dtype(back.lse.dtype.name))
        tensor = builder.graph.tensor(attributes)
        builder.set_output(name, tensor, 1)
    results = builder.graph.sdpa_backward(
        *(tensors[name] for name in ("q", "k", "v", "o", "do", "stats")),
        dstats=tensors.get("dstats"),
        generate_dbias=with_dbias and problem.bias is not None,
        **builder.options(),
    )
    for name, gradient, (heads, dim) in zip(GRADIENTS, results, sizes.values(), strict=False):
        builder.set_output(name, gradient, dim, heads)
    if with_dbias and problem.bias is not None:
        tensors["dbias"] = results[3].set_name("dbias").set_output(True)
    return SdpaBackwardGraph(
        graph=builder.graph,
        case=case,
        tensors=tensors,
        offsets=builder.offsets,
        batch=problem.batch,
        capacity_q=problem.side_q.s_max,
        capacity_kv=problem.side_kv.s_max,
    )


def check_written_gradients(
    graph: SdpaBackwardGraph, back: BackwardProblem, got: dict[str, Array], fill: float, engine: str
) -> None:
    """Check rule 7 of the contract: rows past the last block keep the pre-fill; slack and padding
    keeps it under the reference engine and is exactly 0 under every other.
    """
    before = graph.new_gradients(back, fill)
    rows, rows_before = graph.gradient_rows(got, back), graph.gradient_rows(before, back)
    for name in GRADIENTS:
        side = back.forward.side_q if name == "dq" else back.forward.side_kv
        end = side.offsets[-1]
        label = f"{back.case.name} {engine}: {name}"
        assert_same_bits(rows[name][end:], rows_before[name][end:], f"{label} past the last block")
        slack = ~side.written[:end]
        kept = rows_before[name][:end][slack]
        cleared = kept if is_reference(engine) else np.zeros_like(kept)
        assert_same_bits(rows[name][:end][slack], cleared, f"{label} in slack")
    if "dbias" in got:
        lens = zip(back.forward.side_q.lens, back.forward.side_kv.lens, strict=True)
        heads = back.case.heads[0]
        zeros = {b: np.zeros((heads, *n), np.float32) for b, n in enumerate(lens)}
        _, written = bias_gradient(back, zeros, np.dtype(np.float32))
        kept = before["dbias"][~written]
        cleared = kept if is_reference(engine) else np.zeros_like(kept)
        assert_same_bits(got["dbias"][~written], cleared, f"{back.case.name} {engine}: dBias")


def run_and_check_backward(
    graph: SdpaBackwardGraph, plan: rd.ExecutionPlan, back: BackwardProblem
) -> dict[str, Array]:
    """Run twice with different pre-fills; check guards, bits, written rows and closeness.

    Returns dq, dk, dv as rows, and dbias, of the first run.
    """
    engine = plan.engine_name
    first, second = (graph.run_backward(plan, back, fill) for fill in PREFILLS)
    for gradients, fill in zip((first, second), PREFILLS, strict=True):
        check_written_gradients(graph, back, gradients, fill, engine)
    rows, again = graph.gradient_rows(first, back), graph.gradient_rows(second, back)
    for name in GRADIENTS:
        valid = (back.forward.side_q if name == "dq" else back.forward.side_kv).written
        label = f"{back.case.name} {engine}: {name} of two runs"
        assert_same_bits(rows[name][valid], again[name][valid], label)
    if is_well_posed(back):
        check_sequence_gradients(back, rows, engine)
        if "dbias" in first:
            check_bias_gradient(back, first["dbias"], engine)
    return {**rows, **{name: first[name] for name in first if name == "dbias"}}
