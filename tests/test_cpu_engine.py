"""The CPU engine's own promises: results that depend neither on what a sequence is packed with nor
on where, long sequences, every SIMD target, workspaces, and kernels that no linker can mix up.
"""

from __future__ import annotations

import re
from dataclasses import replace

import cpp_build
import numpy as np
import pytest
import raggeddnn as rd
from cpu_runs import DTYPES, ENGINE, in_types, long_cases, python, results_of
from plugins.fakes import verdicts
from raggeddnn.testing import Case, make_backward, make_problem
from raggeddnn.testing.checks import assert_same_bits, run_and_check
from raggeddnn.testing.gradients import GRADIENTS
from raggeddnn.testing.graphs import sdpa_graph
from raggeddnn.testing.graphs_backward import run_and_check_backward, sdpa_backward_graph
from raggeddnn.testing.reported import reported

TARGETS = ("avx512_bf16", "avx512", "avx2", "neon", "portable")
ODD_WIDTHS = (1, 3, 17, 65, 129, 255)
HEADS = (6, 3, 2)


def check_both(case):
    """Both passes against the float64 oracle."""
    problem = make_problem(case)
    sdpa = sdpa_graph(problem)
    run_and_check(sdpa, sdpa.build(ENGINE), problem)
    back = make_backward(case)
    graph = sdpa_backward_graph(back, with_dbias=False)
    run_and_check_backward(graph, graph.build(ENGINE), back)


LONG = [*in_types(long_cases(), DTYPES[:2]), *in_types(long_cases()[:1], DTYPES[2:])]


@pytest.mark.parametrize("case", LONG, ids=lambda c: f"{c.name}-{c.dtype}")
def test_long_sequences(case):
    check_both(case)


def test_wide_rows():
    """Sums over a wide row lie above their result on the way, and round there."""
    check_both(replace(reported("t14"), name="t14-d192", d=192))


def part_of(problem, lens_q, lens_kv, order):
    """A problem of some of the sequences of a packed one, in that order."""
    case = replace(problem.case, lens_q=lens_q, lens_kv=lens_kv)
    part = make_problem(case)
    rows = [problem.rows_of(batch) for batch in order]
    part.q[:] = np.concatenate([problem.q[at_q] for at_q, _ in rows])
    part.k[:] = np.concatenate([problem.k[at_kv] for _, at_kv in rows])
    part.v[:] = np.concatenate([problem.v[at_kv] for _, at_kv in rows])
    return part


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"causal": True, "alignment": "bottom_right"},
        {"left_bound": 100, "right_bound": 30},
    ],
    ids=["open", "causal", "window"],
)
def test_a_sequence_has_the_same_bits_alone_and_in_any_place(dtype, options):
    lens_q, lens_kv = (5, 600, 210), (600, 1300, 90)
    case = Case("places", lens_q, lens_kv, heads=HEADS, d=24, d_v=17, dtype=dtype, **options)
    packed = make_problem(case)
    turned = part_of(packed, lens_q[::-1], lens_kv[::-1], (2, 1, 0))
    whole, other = run_with_own_gradients(packed), run_with_own_gradients(turned)
    for batch in range(3):
        alone = part_of(packed, lens_q[batch : batch + 1], lens_kv[batch : batch + 1], (batch,))
        single = run_with_own_gradients(alone)
        for name, rows in single.items():
            side = 1 if name in ("k", "v", "dk", "dv") else 0
            label = f"{name} of sequence {batch}"
            assert_same_bits(whole[name][packed.rows_of(batch)[side]], rows, f"{label}, packed")
            at = turned.rows_of(2 - batch)[side]
            assert_same_bits(other[name][at], rows, f"{label}, turned")


def run_with_own_gradients(problem):
    """All results, rows first; the gradient of O is a part of Q, so that it moves with it."""
    width = problem.case.value_dim
    found = results_of(problem, do=problem.q[:, :, :width].copy())
    return {name: x.T if name == "lse" else x for name, x in found.items()}


def runnable_targets() -> list[str]:
    """Those that the engine names where it is asked for one that there is not."""
    reason = python(REASON, RAGGEDDNN_CPU_TARGET="sse9")
    found = re.search(
        r"RAGGEDDNN_CPU_TARGET is 'sse9', expected one that this machine runs: (.*)", reason
    )
    assert found, reason
    return found[1].strip().split(", ")


REASON = """
import cpu_runs
from plugins.fakes import verdicts
from raggeddnn.testing import case_named, make_problem
from raggeddnn.testing.graphs import sdpa_graph
verdict = verdicts(sdpa_graph(make_problem(case_named("edges"))).graph)[cpu_runs.ENGINE]
assert not verdict.applicable
print(verdict.reason)
"""


def test_an_unknown_target_is_refused_and_the_runnable_ones_are_named():
    targets = runnable_targets()
    assert targets[-1] == "portable" and set(targets) <= set(TARGETS)
    problem = make_problem(long_cases()[0])
    assert targets[0] in sdpa_graph(problem).build(ENGINE).explain_kernel()


def test_a_target_that_the_machine_does_not_run_is_refused():
    missing = [target for target in TARGETS if target not in runnable_targets()]
    assert missing  # no machine runs all: they are of two architectures
    reason = python(REASON, RAGGEDDNN_CPU_TARGET=missing[0])
    assert f"RAGGEDDNN_CPU_TARGET is '{missing[0]}', expected one" in reason


def target_cases():
    """Few, but of every kind: odd widths, both masks, bias, dropout, several chunks."""
    band = {"left_bound": 9, "right_bound": 2}
    cases = [
        Case(f"width-{d}", (70, 1, 20), (90, 3, 0), heads=HEADS, d=d, d_v=1 + d // 2, **band)
        for d in ODD_WIDTHS
    ]
    cases += [
        Case("bias", (40, 9), (130, 20), d=8, bias="bhqk", bias_fill="holes", dstats=True),
        Case("poison", (60, 7), (70, 30), layout="slack", poison="nan", dropout=0.2),
    ]
    return [*in_types(cases), *in_types(long_cases()[1:2], DTYPES[:2])]


CHECK_TARGET = """
import test_cpu_engine as t
from raggeddnn.testing import make_problem
from raggeddnn.testing.graphs import sdpa_graph
for case in t.target_cases():
    t.check_both(case)
t.check_nan_stays_in_its_sequence()
print(sdpa_graph(make_problem(case)).build(t.ENGINE).explain_kernel())
"""


@pytest.mark.parametrize("target", TARGETS)
def test_every_target(target):
    if target not in runnable_targets():
        pytest.skip(f"this machine does not run {target}")
    assert f"forward, {target}:" in python(CHECK_TARGET, RAGGEDDNN_CPU_TARGET=target)


def check_nan_stays_in_its_sequence():
    """NaN of any bits: all rows that see it are NaN, all of other sequences as they were."""
    patterns = {"float32": (0xFFFFFFFF, 0x7F800001), "bfloat16": (0xFFFF,), "float16": (0x7C01,)}
    for dtype, numbers in patterns.items():
        case = Case("nan", (30, 20, 50), (30, 40, 50), heads=(2, 2, 2), d=20, dtype=dtype)
        clean = results_of(make_problem(case))
        for number in numbers:
            problem = make_problem(case)
            at_q, at_kv = problem.rows_of(1)
            words = problem.k.view(np.uint32 if dtype == "float32" else np.uint16)
            words[at_kv.start + 3, :, 7] = number
            got = results_of(problem)
            assert np.isnan(got["o"][at_q].astype(np.float32)).all()
            assert np.isnan(got["lse"][:, at_q]).all()
            for name in ("o", *GRADIENTS):
                at = at_q if name in ("o", "dq") else at_kv
                kept = np.ones(len(got[name]), bool)
                kept[at] = False
                assert_same_bits(got[name][kept], clean[name][kept], f"{name} beside NaN")


def long_problem(dtype="bfloat16"):
    return make_problem(replace(long_cases()[0], dtype=dtype))


@pytest.mark.parametrize("offset", [1, 3, 64])
def test_a_workspace_lies_anywhere(offset):
    problem = long_problem()
    sdpa = sdpa_graph(problem)
    plan = sdpa.build(ENGINE)
    want = sdpa.run(plan, problem, 0.0)
    memory = np.full(plan.workspace_size + offset, 0xFF, np.uint8)
    got = sdpa.new_outputs(problem, 0.0)
    plan.execute(sdpa.pack(problem, got), workspace=memory[offset:])
    for name, array in want.items():
        assert_same_bits(got[name], array, name)


def test_a_small_workspace_is_refused():
    problem = long_problem()
    sdpa = sdpa_graph(problem)
    plan = sdpa.build(ENGINE)
    small = np.zeros(plan.workspace_size - 1, np.uint8)
    words = f"workspace has {small.size} bytes, expected at least {plan.workspace_size}"
    outputs = sdpa.new_outputs(problem, 5.0)
    with pytest.raises(rd.InvalidValueError, match=words):
        plan.execute(sdpa.pack(problem, outputs), workspace=small)
    assert (outputs["o"] == 5).all()


@pytest.mark.parametrize("capacity", [2**31 - 1, 2**50])
def test_any_capacity_serves_float(capacity):
    case = Case("vast", (60, 3), (600, 5), heads=(2, 1, 1), d=8, capacity=capacity)
    check_both(case)


@pytest.mark.parametrize("capacity", [2**50, 2**56])
def test_absurd_capacities_are_an_error_for_narrow_types(capacity):
    """Sums of dq have room for as many rows as there may be: memory that cannot be had, or that no
    number counts.
    """
    case = Case(
        "vast", (60, 3), (600, 5), heads=(2, 1, 1), d=8, dtype="bfloat16", capacity=capacity
    )
    back = make_backward(case)
    graph = sdpa_backward_graph(back)
    verdict = verdicts(graph.graph)[ENGINE]
    if capacity == 2**50:
        plan = graph.build(ENGINE)
        with pytest.raises((rd.Error, MemoryError), match=r"memory|alloc"):
            graph.run_backward(plan, back, 0.0)
    else:
        assert not verdict.applicable
        assert re.search(r"expected less than 2\^63 bytes in all", verdict.reason)


@pytest.mark.skipif(bool(cpp_build.SANITIZE), reason="sanitizers add symbols of their own")
def test_nothing_in_the_kernels_can_be_shared_by_a_linker():
    """A weak or unique symbol of one target could replace that of another, whose instructions the
    machine may not have.
    """
    folder = cpp_build.build_target("raggeddnn_cpu") / "cpp/engines/cpu/CMakeFiles"
    objects = sorted((folder / "raggeddnn_cpu.dir/instances").glob("*.o"))
    assert len(objects) >= 2
    for path in objects:
        lines = cpp_build.run(["nm", "--defined-only", path]).splitlines()
        shared = [line.split()[-2:] for line in lines if line.split()[-2].isupper()]
        assert len(shared) == 1, f"{path.name}: {shared}"
        kind, name = shared[0]
        assert kind in "DR" and re.fullmatch(r"\w*_KERNELSE", name), f"{path.name}: {shared}"
