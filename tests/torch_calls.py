"""The named attention cases through the torch ops: forward, backward, and the checks of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import raggeddnn.torch  # noqa: F401  (defines the ops)
import torch
from raggeddnn.testing import Case, assert_sdpa_close
from raggeddnn.testing.cases import DROPOUT_OFFSET, DROPOUT_SEED, numpy_dtype
from raggeddnn.testing.gradients import (
    GRADIENTS,
    BackwardProblem,
    check_bias_gradient,
    check_sequence_gradients,
    is_well_posed,
    make_backward,
)
from raggeddnn.testing.oracle import Array
from raggeddnn.torch import _ops
from torch import Tensor

CALLER = "flash_attn_varlen_func"


def to_torch(x: Array) -> Tensor:
    if x.dtype == numpy_dtype("bfloat16"):
        return torch.from_numpy(x.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(x.copy())


def to_numpy(x: Tensor) -> Array:
    x = x.detach().contiguous()
    if x.dtype == torch.bfloat16:
        return x.view(torch.int16).numpy().view(numpy_dtype("bfloat16"))
    found: Array = x.numpy()
    return found


@dataclass
class Results:
    """Rows (R,H,D) of the output and of the gradients, and the log-sum-exp (Hq,R)."""

    o: Array
    lse: Array
    gradients: dict[str, Array]


def is_varlen(case: Case) -> bool:
    """Can the packed op state it?"""
    return case.is_ragged and case.bias is None


def is_dense(case: Case) -> bool:
    return not case.is_ragged


def options_of(case: Case) -> tuple[Any, ...]:
    """scale, left, right, is_top_left, dropout, is_deterministic, caller."""
    scale = case.d**-0.5 if case.scale is None else case.scale
    left, right = (-1 if bound is None else bound for bound in (case.left_bound, case.right_bound))
    right = 0 if case.causal else right
    return (scale, left, right, case.alignment == "top_left", case.dropout, False, CALLER)


def seeds_of(case: Case) -> Tensor | None:
    return torch.tensor([DROPOUT_SEED, DROPOUT_OFFSET]) if case.dropout > 0 else None


def lengths_of(back: BackwardProblem, always: bool = False) -> list[Tensor | None]:
    sides = (back.forward.side_q, back.forward.side_kv)
    if not (back.case.gives_lengths or always):
        return [None, None]
    dtype = getattr(torch, back.case.index_dtype)
    return [torch.tensor(side.lens, dtype=dtype) for side in sides]


def offsets_of(back: BackwardProblem) -> list[Tensor]:
    dtype = getattr(torch, back.case.index_dtype)
    return [
        torch.tensor(s.offsets, dtype=dtype) for s in (back.forward.side_q, back.forward.side_kv)
    ]


def run_varlen(back: BackwardProblem) -> Results:
    """A packed case, its inputs as they are: poison and all."""
    problem = back.forward
    leaves = [to_torch(x).requires_grad_() for x in (problem.q, problem.k, problem.v)]
    limits = (problem.side_q.s_max, problem.side_kv.s_max)
    arguments = (*offsets_of(back), *lengths_of(back), seeds_of(back.case), *limits)
    o, lse = _ops.varlen_fwd(*leaves, *arguments, *options_of(back.case))
    outputs, incoming = [o], [to_torch(back.do)]
    if back.dstats is not None:
        outputs.append(lse)
        incoming.append(to_torch(back.dstats).to(lse.dtype))
    gradients = torch.autograd.grad(outputs, leaves, incoming)
    named = dict(zip(GRADIENTS, map(to_numpy, gradients), strict=True))
    return Results(to_numpy(o), to_numpy(lse), named)


def _batched(rows: Array, batch: int, memory: str) -> Tensor:
    """(B * S, H, D) rows as [B,H,S,D] in the memory order that the case asks for."""
    x = to_torch(rows).unflatten(0, (batch, -1)).transpose(1, 2)
    return x.contiguous() if memory == "bhsd" else x


def _rows(x: Tensor) -> Array:
    return to_numpy(x.transpose(1, 2).flatten(0, 1))


def run_dense(back: BackwardProblem) -> Results:
    """A padded or dense case, bias included."""
    problem, case, batch = back.forward, back.case, back.forward.batch
    leaves = [
        _batched(x, batch, case.memory).requires_grad_() for x in (problem.q, problem.k, problem.v)
    ]
    bias = None if problem.bias is None else to_torch(problem.bias).requires_grad_()
    rest = (*lengths_of(back), seeds_of(case), *options_of(case))
    o, lse = _ops.dense_fwd(*leaves, bias, *rest)
    outputs, incoming = [o], [_batched(back.do, batch, case.memory)]
    if back.dstats is not None:
        stats = to_torch(back.dstats).unflatten(1, (batch, -1)).transpose(0, 1)
        outputs.append(lse)
        incoming.append(stats.to(lse.dtype))
    wanted = leaves if bias is None else [*leaves, bias]
    gradients = torch.autograd.grad(outputs, wanted, incoming)
    named = {n: _rows(x) for n, x in zip(GRADIENTS, gradients, strict=False)}
    if bias is not None:
        named["dbias"] = to_numpy(gradients[3])
    return Results(_rows(o), to_numpy(lse.transpose(0, 1).flatten(1)), named)


def check_results(back: BackwardProblem, got: Results) -> None:
    """Valid rows against the oracle, all others exactly 0, their log-sum-exp -inf."""
    problem = back.forward
    assert_sdpa_close(got.o, got.lse, problem, label="torch")
    unwritten = ~problem.side_q.written
    assert not got.o[unwritten].any() and np.isneginf(got.lse[:, unwritten]).all()
    for name in GRADIENTS:
        side = problem.side_q if name == "dq" else problem.side_kv
        assert not got.gradients[name][~side.written].any(), name
    if not is_well_posed(back):
        return
    check_sequence_gradients(back, got.gradients, "torch")
    if "dbias" in got.gradients:
        check_bias_gradient(back, got.gradients["dbias"], "torch")


def run_and_check(source: Any) -> tuple[BackwardProblem, Results]:
    """Run a case, or a problem of one that was changed since, and check all of it."""
    back = make_backward(source)
    got = run_varlen(back) if back.case.is_ragged else run_dense(back)
    check_results(back, got)
    return back, got


def cumulative(lengths: Any, dtype: torch.dtype = torch.int32) -> Tensor:
    return torch.tensor([0, *np.cumsum(lengths).tolist()], dtype=dtype)


CU_Q, CU_K = cumulative((3, 0, 2)), cumulative((2, 1, 4))


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Random numbers that require a gradient; the same ones on every run."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, dtype=dtype).requires_grad_()


def packed(dtype: torch.dtype = torch.float64, extra: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v of the sequences of CU_Q and CU_K, with rows past the last one."""
    return (
        draw(5 + extra, 2, 4, dtype=dtype),
        draw(7 + extra, 1, 4, dtype=dtype, seed=1),
        draw(7 + extra, 1, 3, dtype=dtype, seed=2),
    )
