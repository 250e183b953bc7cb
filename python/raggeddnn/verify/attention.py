"""Attention problems as subjects, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ..testing.cases import Case, Problem, in_other_order, make_problem
from ..testing.gradients import (
    GRADIENTS,
    BackwardProblem,
    expected_bias_gradient,
    expected_gradients,
    make_backward,
)
from ..testing.graphs import SdpaGraph, sdpa_graph
from ..testing.graphs_backward import SdpaBackwardGraph, sdpa_backward_graph
from ..testing.oracle import Array
from ..testing.tolerance import Expected, expected_sequence
from .subject import Call, Subject, in_memory, split_pack


def _zeros(*shape: int, like: Array) -> Expected:
    return Expected(np.zeros(shape, like.dtype), np.zeros(shape, like.dtype))


def _wide(array: Array) -> Array:
    wide: Array = array.astype(np.longdouble if array.dtype == np.float64 else np.float64)
    return wide[:0]


def _keeps_bits(problem: Problem) -> bool:
    """Has a sequence the same bits in any position? Dropout is drawn by the position, and another
    order comes with another scale where that is given at run time.
    """
    return problem.case.dropout == 0 and problem.case.scale_state != "runtime"


def _marks(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float64).reshape(shape)


def forward_subject(problem: Problem) -> Subject:
    """The forward pass of a problem: O, and the log-sum-exp where the case asks for it. Called with
    the sequences in two orders.
    """
    sdpa, heads = sdpa_graph(problem), problem.case.heads[0]
    marks_o = _marks(problem.side_q.rows, heads, problem.case.value_dim)
    marks_lse = _marks(heads, problem.side_q.rows)
    moved, rows, _ = in_other_order(problem)
    first = _forward_call(sdpa, problem, marks_o, marks_lse)
    second = _forward_call(sdpa, moved, marks_o[rows], marks_lse[:, rows])
    return Subject(sdpa.graph, [first, second])


def _forward_call(sdpa: SdpaGraph, problem: Problem, marks_o: Array, marks_lse: Array) -> Call:
    wide = _wide(problem.q)
    o, lse = _zeros(*marks_o.shape, like=wide), _zeros(*marks_lse.shape, like=wide)
    for batch, (q, k, v, bias) in problem.sequences():
        at = problem.rows_of(batch)[0]
        part_o, part_lse = expected_sequence(
            (q, k, v), problem.options, bias=bias, dropout=problem.dropout_of(batch)
        )
        for total, part in ((o.values, part_o.values), (o.bounds, part_o.bounds)):
            total[at] = part.transpose(1, 0, 2)
        lse.values[:, at], lse.bounds[:, at] = part_lse.values, part_lse.bounds
    inputs, scalars = split_pack(sdpa.pack(problem, {}))
    call = Call(inputs, {}, scalars)
    for name, found, marks, to_memory in (
        ("o", o, marks_o, sdpa.to_memory),
        ("stats", lse, marks_lse, sdpa.stats_to_memory),
    ):
        if name not in sdpa.tensors:
            continue
        tensor, in_order = sdpa.tensors[name], partial(_in_order, to_memory, problem)
        call.expected[tensor] = in_memory(found, in_order)
        if _keeps_bits(problem):
            call.marks[tensor] = np.ravel(in_order(marks))
    return call


def _in_order(to_memory: Callable[[Array, Problem], Array], problem: Problem, rows: Array) -> Array:
    return to_memory(rows, problem)


def any_position_subject() -> Subject:
    """Scores whose terms are 2^32 and cancel, so that another order of summation gives other bits
    in any arithmetic in use. Nothing but these is judged.
    """
    problem = make_problem(Case("any-position", (5, 17, 3), (9, 20, 33), heads=(2, 1, 1), d=24))
    problem.q[..., :8] *= 2.0**32
    problem.q[..., 8:16], problem.k[..., 8:16] = -problem.q[..., :8], problem.k[..., :8]
    subject = forward_subject(problem)
    for call in subject.calls:
        for expected in call.expected.values():
            expected.bounds[:] = np.inf
    return subject


def backward_subject(problem: Problem) -> Subject:
    """The backward pass: dQ, dK, dV, and the bias's gradient where there is one. Called with the
    sequences in two orders.
    """
    back = make_backward(problem)
    graph = sdpa_backward_graph(back)
    moved, rows_q, rows_kv = in_other_order(problem)
    back_moved = make_backward(moved)
    back_moved.do = back.do[rows_q]
    if back.dstats is not None:
        back_moved.dstats = back.dstats[:, rows_q]
    if _keeps_bits(problem):  # and this exactly, whatever the oracle made of it
        back_moved.o, back_moved.lse = back.o[rows_q], back.lse[:, rows_q]
    marks = {name: _marks(*getattr(problem, name[1:]).shape) for name in GRADIENTS}
    marks_moved = {n: marks[n][rows_q if n == "dq" else rows_kv] for n in GRADIENTS}
    calls = [_backward_call(graph, back, marks), _backward_call(graph, back_moved, marks_moved)]
    return Subject(graph.graph, calls)


def _backward_call(
    graph: SdpaBackwardGraph, back: BackwardProblem, marks: dict[str, Array]
) -> Call:
    problem = back.forward
    found = {name: _zeros(*x.shape, like=_wide(problem.q)) for name, x in marks.items()}
    for batch in range(problem.batch):
        at_q, at_kv = problem.rows_of(batch)
        for name, part in expected_gradients(back, batch).items():
            at = at_q if name == "dq" else at_kv
            found[name].values[at] = part.values.transpose(1, 0, 2)
            found[name].bounds[at] = part.bounds.transpose(1, 0, 2)
    inputs, scalars = split_pack(graph.inputs(back))
    call = Call(inputs, {}, scalars)
    in_order = partial(_in_order, graph.to_memory, problem)
    for name in GRADIENTS:
        call.expected[graph.tensors[name]] = in_memory(found[name], in_order)
        if _keeps_bits(problem):
            call.marks[graph.tensors[name]] = np.ravel(in_order(marks[name]))
    if problem.bias is not None:  # a sum over sequences, perhaps, so in their order
        gradient, _ = expected_bias_gradient(back)
        call.expected[graph.tensors["dbias"]] = in_memory(gradient, lambda array: array)
    return call


def _lengths(case: Case) -> str:
    spans = [f"{min(lens)}-{max(lens)}" for lens in (case.lens_q, case.lens_kv)]
    return f"{len(case.lens_q)} sequences, {spans[0]} queries, {spans[1]} keys"


def describe(case: Case) -> str:
    """What a case checks, in one line."""
    heads = ":".join(map(str, case.heads if case.heads[1] != case.heads[2] else case.heads[:2]))
    bounds = ["open" if b is None else b for b in (case.left_bound, case.right_bound)]
    stats = {"none": "no stats", "dense": "dense stats", "ragged": ""}[case.stats]
    said = (
        (True, f"{case.layout}, {case.dtype}, {_lengths(case)}, heads {heads}, size {case.d}"),
        (case.d_v, f"values of {case.d_v}"),
        (case.causal, "causal"),
        (bounds != ["open", "open"], f"window {bounds[0]} to {bounds[1]}"),
        (case.alignment == "bottom_right", "bottom-right"),
        (case.scale is not None, f"scale {case.scale} {case.scale_state.replace('_', ' ')}"),
        (case.bias, f"bias {case.bias} {case.bias_fill}"),
        (case.dropout, f"dropout {case.dropout}"),
        (case.is_ragged and case.offset_unit == "element", "offsets in elements"),
        (case.index_dtype == "int64" and case.layout != "dense", "int64 indices"),
        (case.index_stride != 1, f"indices {case.index_stride} apart"),
        (not case.is_ragged, f"{case.memory} memory"),
        (stats, stats),
        (case.dstats, "gradient of stats"),
        (case.amplitude != 1, f"values about {case.amplitude:g}"),
        (case.poison, f"{case.poison} in unused rows"),
    )
    return ", ".join(text for is_said, text in said if is_said)
