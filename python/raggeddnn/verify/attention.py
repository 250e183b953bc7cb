"""Attention problems as subjects, forward and backward."""

from __future__ import annotations

import numpy as np

from ..testing.cases import Case, Problem
from ..testing.gradients import (
    GRADIENTS,
    expected_bias_gradient,
    expected_gradients,
    make_backward,
)
from ..testing.graphs import SdpaGraph, sdpa_graph
from ..testing.graphs_backward import sdpa_backward_graph
from ..testing.oracle import Array
from ..testing.tolerance import Expected, expected_sequence
from .subject import Subject, in_memory, split_pack


def _zeros(*shape: int, like: Array) -> Expected:
    return Expected(np.zeros(shape, like.dtype), np.zeros(shape, like.dtype))


def _wide(array: Array) -> Array:
    wide: Array = array.astype(np.longdouble if array.dtype == np.float64 else np.float64)
    return wide[:0]


def forward_subject(problem: Problem) -> Subject:
    """The forward pass of a problem: O, and the log-sum-exp where the case asks for it."""
    sdpa, case = sdpa_graph(problem), problem.case
    rows, heads, wide = problem.side_q.rows, case.heads[0], _wide(problem.q)
    o = _zeros(rows, heads, case.value_dim, like=wide)
    lse = _zeros(heads, rows, like=wide)
    for batch, (q, k, v, bias) in problem.sequences():
        at = problem.rows_of(batch)[0]
        part_o, part_lse = expected_sequence(
            (q, k, v), problem.options, bias=bias, dropout=problem.dropout_of(batch)
        )
        for total, part in ((o.values, part_o.values), (o.bounds, part_o.bounds)):
            total[at] = part.transpose(1, 0, 2)
        lse.values[:, at], lse.bounds[:, at] = part_lse.values, part_lse.bounds
    inputs, scalars = split_pack(sdpa.pack(problem, {}))
    expected = {sdpa.tensors["o"]: _rows_in_memory(sdpa, problem, o)}
    if "stats" in sdpa.tensors:
        expected[sdpa.tensors["stats"]] = in_memory(
            lse, lambda rows: sdpa.stats_to_memory(rows, problem)
        )
    return Subject(sdpa.graph, inputs, expected, scalars)


def _rows_in_memory(graph: SdpaGraph, problem: Problem, rows: Expected) -> Expected:
    return in_memory(rows, lambda array: graph.to_memory(array, problem))


def backward_subject(problem: Problem) -> Subject:
    """The backward pass: dQ, dK, dV, and the bias's gradient where there is one."""
    back = make_backward(problem)
    graph = sdpa_backward_graph(back)
    wide = _wide(problem.q)
    found = {
        name: _zeros(*x.shape, like=wide)
        for name, x in (("dq", problem.q), ("dk", problem.k), ("dv", problem.v))
    }
    for batch in range(problem.batch):
        at_q, at_kv = problem.rows_of(batch)
        for name, part in expected_gradients(back, batch).items():
            at = at_q if name == "dq" else at_kv
            found[name].values[at] = part.values.transpose(1, 0, 2)
            found[name].bounds[at] = part.bounds.transpose(1, 0, 2)
    expected = {
        graph.tensors[name]: _rows_in_memory(graph, problem, found[name]) for name in GRADIENTS
    }
    if problem.bias is not None:
        gradient, _ = expected_bias_gradient(back)
        expected[graph.tensors["dbias"]] = in_memory(gradient, lambda array: array)
    inputs, scalars = split_pack(graph.inputs(back))
    return Subject(graph.graph, inputs, expected, scalars)


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
        (case.offset_unit == "element", f"{case.index_dtype} offsets in elements"),
        (not case.is_ragged, f"{case.memory} memory"),
        (stats, stats),
        (case.dstats, "gradient of stats"),
        (case.amplitude != 1, f"values about {case.amplitude:g}"),
        (case.poison, f"{case.poison} in unused rows"),
    )
    return ", ".join(text for is_said, text in said if is_said)
