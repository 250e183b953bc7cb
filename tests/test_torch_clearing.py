"""Rows of packed outputs that belong to no sequence: an engine that clears them within its own
kernels (the GPU engine, here on emulated waves) gets memory that nothing was written to before.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import raggeddnn as rd
import raggeddnn.torch as rt
import torch
from plugins.fakes import load
from raggeddnn.torch import _kernels, _statements

ENGINE = "EMULATED_NVIDIA_ENGINE"
ROWS, HEADS = 70, 2


@pytest.fixture(autouse=True)
def engine():
    load("emulated_nvidia")
    rt.set_engine(ENGINE)
    yield
    rt.set_engine(None)


@pytest.fixture(params=["float16", "float32"])
def qkv(request):
    torch.manual_seed(0)
    return [torch.randn(ROWS, HEADS, 24, dtype=getattr(torch, request.param)) for _ in range(3)]


def run(kind: Any, tensors: Any, cu: Any, outputs: list[torch.Tensor], count: int) -> None:
    """A call with outputs that hold something, past the checks of offsets in host memory."""
    tensors = (*tensors, cu, cu, None, None, None, None)
    facts = _kernels.TensorFacts(tensors, kind.rows)
    options = (-1, -1, False, 0.0, False, count, ENGINE, (64, 64))
    plan, facts = _kernels._find(kind, tensors, facts, options, "varlen_attn")
    assert plan.clears
    addresses = tuple(x.data_ptr() for x in outputs)
    plan.run(facts, addresses, 0.3, sizes=tuple(x.nbytes for x in outputs))


OFFSETS = {
    "a tail": ([0, 5, 47], [(0, 47)]),
    "a tail of an odd row": ([0, 0, 1], [(0, 1)]),
    "nothing": ([0, 0, 0], []),
    "everything": ([0, 6, 70], [(0, 70)]),
    "backwards": ([0, 20, 10], [(0, 20)]),
    "a block too long": ([0, 3, 70], [(0, 3)]),
    "below 0": ([0, -4, 9], []),
    "not from 0": ([2, 5, 9], [(5, 9)]),
}


@pytest.mark.parametrize("case", OFFSETS.values(), ids=OFFSETS)
def test_what_no_block_covers_is_cleared(qkv, case):
    offsets, covered = case
    cu = torch.tensor(offsets, dtype=torch.int32)
    mask = torch.zeros(ROWS, dtype=torch.bool)
    for begin, end in covered:
        mask[begin:end] = True
    filled = [torch.full_like(qkv[0], 7), torch.full((ROWS, HEADS), 7.0).t()]
    out, lse = filled
    run(_statements.VARLEN_FORWARD, qkv, cu, filled, 2)
    assert not out[~mask].any() and (lse[:, ~mask] == -math.inf).all()
    assert out[mask].abs().amax((1, 2)).all() and lse[:, mask].isfinite().all()
    gradients = [torch.full_like(x, 7) for x in qkv]
    d_o = torch.ones_like(out)
    inputs = (*qkv, out, lse, d_o, None)
    run(_statements.VARLEN_BACKWARD, inputs, cu, gradients, 3)
    for gradient in gradients:
        assert not gradient[~mask].any() and (gradient != 7).all()
    assert gradients[2][mask].abs().amax((1, 2)).all()


def test_calls_hand_out_memory_that_is_cleared(qkv, monkeypatch):
    """As where lengths are on a GPU, where nobody can tell which rows are a sequence's."""
    made = []

    def empty(like: torch.Tensor, shape: Any, is_full: bool) -> torch.Tensor:
        assert is_full
        made.append(like.new_full(shape, 7))
        return made[-1]

    monkeypatch.setattr(_kernels, "_new", empty)
    leaves = [x.requires_grad_() for x in qkv]
    cu = torch.tensor([0, 5, 47], dtype=torch.int32)
    out = rt.varlen_attn(*leaves, cu, cu, 64, 64)
    gradients = torch.autograd.grad(out.float().sum(), leaves)
    assert len(made) == 4
    for x in (out, *gradients):
        assert not x[47:].any() and (x != 7).all()


def test_what_an_engine_does_not_clear_is_cleared_before(qkv):
    cu = torch.tensor([0, 5, 47], dtype=torch.int32)
    tensors = (*qkv, cu, cu, None, None, None, None)
    facts = _kernels.TensorFacts(tensors, 3)
    options = (-1, -1, False, 0.0, False, 2, "reference", (64, 64))
    rt.set_engine("reference")
    plan, _ = _kernels._find(_statements.VARLEN_FORWARD, tensors, facts, options, "varlen_attn")
    assert not plan.clears
    out = rt.varlen_attn(*qkv, cu, cu, 64, 64)
    assert not out[47:].any() and out[:47].any()
    outputs = (torch.empty_like(qkv[0]), torch.empty(ROWS, HEADS))
    addresses = tuple(x.data_ptr() for x in outputs)
    with pytest.raises(rd.InvalidValueError, match="got 1 sizes, expected 2"):
        plan.run(facts, addresses, 0.3, sizes=(4,))
