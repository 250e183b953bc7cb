"""Attention through the graph API, on every engine that does not refuse the case."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import raggeddnn as rd
from raggeddnn.testing import CASES, Case, assert_sdpa_close, case_named, make_problem
from raggeddnn.testing.checks import assert_same_bits, is_reference, run_and_check
from raggeddnn.testing.graphs import sdpa_graph


def test_the_reference_engine_is_among_those_tested():
    assert any(is_reference(e.name) and e.available for e in rd.engines())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(build, case):
    problem = make_problem(case)
    sdpa = sdpa_graph(problem)
    run_and_check(sdpa, build(sdpa), problem)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_default_scale_is_one_over_the_root_of_d(build, dtype):
    base = Case("scale-of-d", (5, 9), (7, 4), dtype=dtype)
    baked = replace(base, scale_state="baked", scale=0.25)
    outputs = []
    for case in (base, baked):
        problem = make_problem(case)
        sdpa = sdpa_graph(problem)
        outputs.append(run_and_check(sdpa, build(sdpa), problem))
    for name in ("o", "stats"):
        assert_same_bits(outputs[0][name], outputs[1][name], name)


def test_a_runtime_scale_changes_with_the_pack(build):
    problem = make_problem(Case("scale-in-pack", (5, 9), (7, 4), scale_state="runtime", scale=1.0))
    sdpa = sdpa_graph(problem)
    plan = build(sdpa)
    for scale in (1.0, -2.0, 0.0, 30.0):
        again = make_problem(replace(problem.case, scale=scale))
        run_and_check(sdpa, plan, again)


@pytest.mark.parametrize("value", [np.float32(0.5), np.array(0.5, np.float32), 0.5])
def test_a_runtime_scale_may_be_a_number_or_a_host_array(build, value):
    problem = make_problem(Case("scale-kinds", (5, 9), (7, 4), scale_state="runtime", scale=0.5))
    sdpa = sdpa_graph(problem)
    plan = build(sdpa)
    outputs = sdpa.new_outputs(problem, np.nan)
    plan.execute({**sdpa.pack(problem, outputs), sdpa.tensors["scale"]: value})
    assert_sdpa_close(sdpa.o_rows(outputs, problem), sdpa.lse_rows(outputs, problem), problem)


@pytest.mark.parametrize("state", ["runtime_default", "baked_tensor"])
def test_a_pack_entry_for_a_valued_scale_is_inert(build, state):
    problem = make_problem(Case("scale-inert", (5, 9), (7, 4), scale_state=state, scale=0.5))
    sdpa = sdpa_graph(problem)
    plan = build(sdpa)
    plain = sdpa.run(plan, problem, np.nan)
    outputs = sdpa.new_outputs(problem, np.nan)
    plan.execute({**sdpa.pack(problem, outputs), sdpa.tensors["scale"]: 7.0})
    for name in ("o", "stats"):
        assert_same_bits(outputs[name], plain[name], name)


def test_a_missing_runtime_scale_is_an_error_before_any_write(build):
    problem = make_problem(Case("scale-missing", (5, 9), (7, 4), scale_state="runtime", scale=0.5))
    sdpa = sdpa_graph(problem)
    plan = build(sdpa)
    outputs = sdpa.new_outputs(problem, np.nan)
    pack = sdpa.pack(problem, outputs)
    del pack[sdpa.tensors["scale"]]
    with pytest.raises(rd.Error, match="scale"):
        plan.execute(pack)
    assert np.isnan(outputs["o"]).all() and np.isnan(outputs["stats"]).all()


@pytest.mark.parametrize(
    "name", ["edges", "tiles-causal-br", "gqa-k-v-differ", "window", "bfloat16", "half"]
)
def test_a_sequence_has_the_same_bits_alone_and_in_company(build, name):
    problem = make_problem(case_named(name))
    sdpa = sdpa_graph(problem)
    together = sdpa.run(build(sdpa), problem, np.nan)
    o, lse = sdpa.o_rows(together, problem), sdpa.lse_rows(together, problem)
    for batch in range(problem.batch):
        rows = problem.rows_of(batch)[0]
        if rows.start == rows.stop:
            continue
        lone = _alone(problem, batch)
        single = sdpa_graph(lone)
        got = single.run(build(single), lone, np.nan)
        assert_same_bits(single.o_rows(got, lone), o[rows], f"{name} sequence {batch} O")
        assert_same_bits(single.lse_rows(got, lone), lse[:, rows], f"{name} sequence {batch} LSE")


def _alone(problem, batch):
    """The problem of one sequence, with the very numbers it has in the batch."""
    case = problem.case
    lone = make_problem(replace(case, lens_q=(case.lens_q[batch],), lens_kv=(case.lens_kv[batch],)))
    at_q, at_kv = problem.rows_of(batch)
    lone.q[:], lone.k[:], lone.v[:] = problem.q[at_q], problem.k[at_kv], problem.v[at_kv]
    return lone


def test_a_wider_capacity_gives_the_same_bits(build):
    case = Case("capacity", (5, 17), (33, 8), causal=True, alignment="bottom_right")
    results = []
    for capacity in (33, 200):
        problem = make_problem(replace(case, capacity=capacity))
        sdpa = sdpa_graph(problem)
        results.append(run_and_check(sdpa, build(sdpa), problem))
    for name in ("o", "stats"):
        assert_same_bits(results[0][name], results[1][name], name)


def test_layouts_of_the_same_numbers_agree_bitwise(build):
    case = Case("layouts", (5, 0, 17), (9, 4, 8), heads=(4, 2, 2), causal=True)
    packed = make_problem(case)
    results = []
    for layout, memory in (
        ("packed", "bshd"),
        ("slack", "bshd"),
        ("padded", "bshd"),
        ("padded", "bhsd"),
    ):
        problem = make_problem(replace(case, layout=layout, memory=memory, poison="nan"))
        for batch in range(problem.batch):
            for name, at in zip(("q", "k", "v"), (0, 1, 1), strict=True):
                source = getattr(packed, name)[packed.rows_of(batch)[at]]
                getattr(problem, name)[problem.rows_of(batch)[at]] = source
        sdpa = sdpa_graph(problem)
        outputs = run_and_check(sdpa, build(sdpa), problem)
        valid = problem.side_q.written
        lse = sdpa.lse_rows(outputs, problem)
        results.append((sdpa.o_rows(outputs, problem)[valid], lse[:, valid]))
    for o, lse in results[1:]:
        assert_same_bits(o, results[0][0], "O")
        assert_same_bits(lse, results[0][1], "LSE")


# A block is between two offsets: its message may name either of them, or the sequence.
BAD_OFFSETS = [
    ("not starting at 0", [1, 7, 20], "0"),
    ("decreasing", [0, 12, 8], "[12]"),
    ("beyond the buffer", [0, 7, 25], "[12]"),
    ("longer than S_max", [0, 2, 20], "[12]"),
    ("negative", [0, -3, 13], "[01]"),
]


@pytest.mark.parametrize(("what", "values", "index"), BAD_OFFSETS, ids=str)
@pytest.mark.parametrize("side", ["q", "k"])
@pytest.mark.parametrize("integers", ["int32", "int64"])
def test_bad_offsets_are_named_before_any_write(build, what, values, index, *, side, integers):
    problem = make_problem(Case("bad-offsets", (7, 13), (7, 13), index_dtype=integers))
    sdpa = sdpa_graph(problem)
    plan = build(sdpa)
    outputs = sdpa.new_outputs(problem, np.nan)
    aux, _ = sdpa.offsets[side]
    pack = {**sdpa.pack(problem, outputs), aux: np.array(values, dtype=integers)}
    name = "offset_q" if side == "q" else "offset_kv"
    with pytest.raises(rd.InvalidValueError, match=rf"{name}.*\b{index}\b"):
        plan.execute(pack)
    assert np.isnan(outputs["o"]).all() and np.isnan(outputs["stats"]).all(), what


def test_an_offset_inside_a_row_is_an_error(build):
    case = Case("split-row", (7, 13), (7, 13), offset_unit="element")
    problem = make_problem(case)
    sdpa = sdpa_graph(problem)
    plan = build(sdpa)
    outputs = sdpa.new_outputs(problem, np.nan)
    aux, unit = sdpa.offsets["k"]
    pack = {**sdpa.pack(problem, outputs), aux: np.array([0, 7 * unit + 1, 20 * unit], np.int32)}
    with pytest.raises(rd.InvalidValueError, match="offset_k"):
        plan.execute(pack)
    assert np.isnan(outputs["o"]).all()


@pytest.mark.parametrize("name", ["q", "o", "stats", "k", "v"])
def test_boundaries_of_one_side_agree_between_its_tensors(build, name):
    # Each tensor has offsets of its own; those of one move a boundary by a row.
    problem = make_problem(Case("boundaries", (7, 13), (7, 13), offset_unit="element"))
    sdpa = sdpa_graph(problem)
    plan = build(sdpa)
    outputs = sdpa.new_outputs(problem, np.nan)
    aux, unit = sdpa.offsets[name]
    pack = {**sdpa.pack(problem, outputs), aux: np.array([0, 8, 20], np.int32) * np.int32(unit)}
    with pytest.raises(rd.InvalidValueError, match=r"offset_\w+.*index [12].* rows, expected \d+"):
        plan.execute(pack)
    assert np.isnan(outputs["o"]).all() and np.isnan(outputs["stats"]).all()


@pytest.mark.parametrize(("values", "index"), [([-1, 13], 0), ([7, 40], 1)])
@pytest.mark.parametrize("side", ["q", "kv"])
@pytest.mark.parametrize("layout", ["slack", "padded"])
def test_bad_lengths_are_named_before_any_write(build, values, index, side, layout):
    problem = make_problem(Case("bad-lengths", (7, 13), (7, 13), layout=layout))
    sdpa = sdpa_graph(problem)
    plan = build(sdpa)
    outputs = sdpa.new_outputs(problem, np.nan)
    bad = {sdpa.tensors[f"seq_{side}"]: np.array(values, dtype=np.int32)}
    with pytest.raises(rd.InvalidValueError, match=rf"seq_{side}.*\b{index}\b"):
        plan.execute({**sdpa.pack(problem, outputs), **bad})
    assert np.isnan(outputs["o"]).all() and np.isnan(outputs["stats"]).all()


def test_offsets_need_a_newer_plugin_api_than_padding(engine):
    ragged = sdpa_graph(make_problem(Case("needs", (3, 2), (3, 2))))
    padded = sdpa_graph(make_problem(Case("needs", (3, 2), (3, 2), layout="padded")))
    assert ragged.graph.min_required_engine_api_version >= (1, 3, 0)
    assert padded.graph.min_required_engine_api_version < (1, 3, 0)
    assert engine in {verdict.engine for verdict in ragged.graph.explain()}
