"""The GPU engine on a GPU: every named attention case but those in double, in all types, forward
(backward: ``test_gpu_backward.py``). Needs PyTorch for device memory; ``pytest -m gpu``.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import raggeddnn as rd
from growing_scores import growing_scores
from metadata_faults import CASE, FILL, SINGLE, host_message, name_of, put, rows_of_batch
from raggeddnn.testing import CASES, Problem, assert_sdpa_close, make_problem
from raggeddnn.testing.checks import PREFILLS, assert_same_bits, check_written_rows
from raggeddnn.testing.graphs import SdpaGraph, sdpa_graph

pytestmark = pytest.mark.gpu
ENGINE = "RAGGEDDNN_HIP_ENGINE"
TOO_LOUD = "very-loud"  # in half types: its products exceed float, in which the kernels sum
READ = [
    replace(case, name=f"{case.name}-{dtype}", dtype=dtype)
    for case in CASES
    for dtype in ("float32", "bfloat16", "float16")
    if case.dtype == "float32" and (dtype == "float32" or case.name != TOO_LOUD)
]


def on_device(torch: Any, array: Any) -> Any:
    if not isinstance(array, np.ndarray) or array.ndim == 0:
        return array
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).cuda().view(torch.bfloat16)
    return torch.from_numpy(array).cuda()


def to_host(torch: Any, tensor: Any, like: Any) -> Any:
    if like.dtype.name == "bfloat16":
        return tensor.view(torch.int16).cpu().numpy().view(like.dtype)
    return tensor.cpu().numpy()


class OnDevice:
    """A case's graph, built once for the GPU, and its runs."""

    def __init__(self, problem: Problem) -> None:
        self.torch = pytest.importorskip("torch")
        self.sdpa: SdpaGraph = sdpa_graph(problem)
        handle = rd.Handle(device="cuda")
        try:
            self.plan = self.sdpa.graph.build(handle, engine=ENGINE)
        except rd.NotSupportedError as refusal:
            pytest.skip(str(refusal))
        size = max(self.plan.workspace_size, 1)
        self.workspace = self.torch.full((size,), 0xA5, dtype=self.torch.uint8, device="cuda")

    def run(
        self, problem: Problem, fill: float, change: Callable[[dict[Any, Any]], None] | None = None
    ) -> dict[str, Any]:
        """Outputs; ``change`` is made to the host's pack before."""
        outputs = self.sdpa.new_outputs(problem, fill)
        host = self.sdpa.pack(problem, outputs)
        if change is not None:
            change(host)
        pack = {t: on_device(self.torch, a) for t, a in host.items()}
        self.plan.execute(pack, workspace=self.workspace)
        self.torch.cuda.synchronize()
        tensors = self.sdpa.tensors
        return {n: to_host(self.torch, pack[tensors[n]], a) for n, a in outputs.items()}


def check(problem: Problem, name: str) -> None:
    device = OnDevice(problem)
    first, second = (device.run(problem, fill) for fill in PREFILLS)
    for outputs, fill in zip((first, second), PREFILLS, strict=True):
        check_written_rows(device.sdpa, problem, outputs, fill, reference=False)
    valid = problem.side_q.written
    o, lse = device.sdpa.o_rows(first, problem), device.sdpa.lse_rows(first, problem)
    assert_same_bits(o[valid], device.sdpa.o_rows(second, problem)[valid], name)
    assert_sdpa_close(o, lse, problem, label=ENGINE)


@pytest.mark.parametrize("case", READ, ids=lambda case: case.name)
def test_case(case):
    check(make_problem(case), case.name)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("width", [64, 96, 128])
def test_largest_scores_grow_by_little_and_by_much(width, dtype):
    check(growing_scores(width, dtype), "growing")


def test_what_is_not_read_is_refused():
    refused = [
        (replace(CASES[0], dtype="float64"), "data type DOUBLE, expected FLOAT, HALF or BFLOAT16"),
        (replace(CASES[0], d=257), "has width 257, expected at most 256"),
    ]
    for case, words in refused:
        graph = sdpa_graph(make_problem(case)).graph
        verdicts = {v.engine: v for v in graph.explain(rd.Handle(device="cuda"))}
        assert not verdicts[ENGINE].applicable and words in verdicts[ENGINE].reason


# ---- bad offsets and lengths ----


@pytest.fixture(scope="module")
def faulty():
    problem = make_problem(CASE)
    device = OnDevice(problem)
    return device, problem, device.run(problem, FILL)


@pytest.mark.parametrize(("fault", "tensor"), SINGLE, ids=name_of)
def test_a_fault_is_reported_and_harms_no_other_batch(faulty, fault, tensor):
    device, problem, good = faulty
    messages = []

    def change(pack):
        put(fault, tensor, device.sdpa, pack)
        messages.append(host_message(device.sdpa, pack))

    made = device.run(problem, FILL, change)
    assert device.plan.metadata_faults(device.workspace) == messages[0]
    o, lse = device.sdpa.o_rows(made, problem), device.sdpa.lse_rows(made, problem)
    good_o, good_lse = device.sdpa.o_rows(good, problem), device.sdpa.lse_rows(good, problem)
    for batch in set(range(problem.batch)) - set(fault.batches):
        rows = rows_of_batch(problem, batch)
        assert_same_bits(o[rows], good_o[rows], f"{fault.name} of {tensor}: O of {batch}")
        assert_same_bits(lse[:, rows], good_lse[:, rows], f"{fault.name}: LSE of {batch}")
    device.run(problem, FILL)
    assert device.plan.metadata_faults(device.workspace) is None


def test_a_workspace_that_no_execute_used_has_no_record():
    device = OnDevice(make_problem(CASE))
    with pytest.raises(rd.InvalidValueError, match="no record of this plan"):
        device.plan.metadata_faults(device.workspace)


# ---- the order of work ----


def test_what_an_execute_has_left_is_taken_as_it_is():
    problem = make_problem(replace(CASE, d=128, d_v=128, dtype="bfloat16"))
    device = OnDevice(problem)
    torch, sdpa, handle = device.torch, device.sdpa, rd.Handle(device="cuda")
    again = sdpa.graph.build(handle, engine=ENGINE, knobs={"reuse_schedule": 1})
    outputs = sdpa.new_outputs(problem, FILL)
    host = sdpa.pack(problem, outputs)
    pack = {t: on_device(torch, a) for t, a in host.items()}

    def run(plan):
        for name in outputs:
            pack[sdpa.tensors[name]].fill_(FILL)
        plan.execute(pack, workspace=device.workspace)
        return {name: pack[sdpa.tensors[name]].clone() for name in outputs}

    def same(made):
        return all(torch.equal(made[name], expected[name]) for name in outputs)

    expected = run(device.plan)
    for t, a in host.items():
        if isinstance(a, np.ndarray) and a.dtype.kind == "i":
            pack[t].zero_()
    for _ in range(3):
        assert same(run(again))
    device.workspace.fill_(0xA5)
    assert not same(run(again))


# ---- saved plans ----


def test_a_saved_plan_gives_the_same_bits():
    problem = make_problem(replace(CASE, scale_state="runtime", scale=0.5))
    device = OnDevice(problem)
    first = device.run(problem, FILL)
    saved = device.plan.serialize()
    with pytest.raises(rd.NotSupportedError, match="runs on cuda, the handle's device is cpu"):
        rd.ExecutionPlan.deserialize(saved)
    bare = device.plan.serialize_bare()
    device.plan = rd.ExecutionPlan.deserialize(saved, handle=rd.Handle(device="cuda"))
    again = device.run(problem, FILL)
    for name, array in first.items():
        assert_same_bits(again[name], array, name)
    other = bare.replace(b"cuda/sm_", b"cuda/xy_")
    with pytest.raises(rd.NotSupportedError, match=r"target is cuda/xy_\d+, expected cuda/sm_"):
        rd.ExecutionPlan.deserialize(other, handle=rd.Handle(device="cuda"))


# ---- through raggeddnn.torch ----

LENS = [100, 1, 0, 77, 513]
WIDTH, HEADS = 128, 8


def packed(torch):
    torch.manual_seed(0)
    total = sum(LENS)
    offsets = torch.tensor([0, *LENS]).cumsum(0).int().cuda()
    shape = (total, HEADS, WIDTH)
    return offsets, [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3)]


def assert_like_sdpa(torch, out, qkv, lens):
    """Each sequence against PyTorch in float; both round once, and so differ by a few roundings."""
    start = 0
    for n in lens:
        rows = slice(start, start + n)
        q, k, v = (x[rows].float().transpose(0, 1)[None] for x in qkv)
        if n:
            want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            got = out[rows].float().transpose(0, 1)[None]
            assert (got - want).abs().max() <= 4 * torch.finfo(torch.bfloat16).eps * v.abs().max()
        start += n
    assert not out[start:].any()


def test_torch_tensors_on_the_device_without_a_synchronization():
    torch = pytest.importorskip("torch")
    import raggeddnn.torch as rt

    offsets, qkv = packed(torch)
    window = {"window_size": (-1, 0)}
    out = rt.varlen_attn(*qkv, offsets, offsets, 513, 513, **window)
    assert_like_sdpa(torch, out, qkv, LENS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the mode is a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        again = rt.varlen_attn(*qkv, offsets, offsets, 513, 513, **window)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(out, again)


def test_a_captured_graph_is_replayed_with_other_lengths():
    torch = pytest.importorskip("torch")
    import raggeddnn.torch as rt

    offsets, qkv = packed(torch)
    window = {"window_size": (-1, 0)}
    with torch.cuda.stream(torch.cuda.Stream()):  # warm up, as capturing asks for
        rt.varlen_attn(*qkv, offsets, offsets, 513, 513, **window)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = rt.varlen_attn(*qkv, offsets, offsets, 513, 513, **window)
    rng = np.random.default_rng(0)
    for _ in range(100):
        lens = rng.integers(0, sum(LENS) // len(LENS), len(LENS)).tolist()
        offsets.copy_(torch.tensor([0, *lens]).cumsum(0).int())
        graph.replay()
        assert_like_sdpa(torch, out, qkv, lens)


FIRST = """
import torch, raggeddnn.torch as rt
torch.manual_seed(0)
cu = torch.tensor([0, 5, 105, 300], dtype=torch.int32, device="cuda")
q, k, v = (torch.randn(300, 4, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
do = torch.randn_like(q)
def step():
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    out = rt.varlen_attn(*leaves, cu, cu, 256, 256, window_size=(-1, 0))
    return out, *torch.autograd.grad(out, leaves, do)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    made = step()
graph.replay()
for got, want in zip(made, step()):
    assert got.abs().max() > 0 and torch.equal(got, want)
print("captured")
"""


def test_the_first_call_of_a_process_may_be_captured():
    """Kernels are loaded, and asked what they need, within the capture."""
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", FIRST], capture_output=True, text=True, check=False
    )
    assert done.stdout == "captured\n", done.stderr
