"""What the torch functions cost on the host (contract, rule 17), with hardly anything to compute:
beside custom ops of the same signature and registration that compute nothing. How many microseconds
that is depends on the machine; -s prints them.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import raggeddnn.torch as rt
import torch
from raggeddnn.torch import _kernels, _ops, _statements
from torch import Tensor

CU = torch.tensor([0, 1], dtype=torch.int32)
# Of varlen_fwd, after q, k and v.
REST = (CU, CU, None, None, None, 1, 1, 0.3, -1, -1, False, 0.0, False, "varlen_attn")


class Best:
    """Seconds of one call of each function, least of the short runs so far, in turns: a busy spell
    of the machine meets all, and what it adds is gone once a quiet one has met all.
    """

    def __init__(self, **calls: Callable[[], Any]) -> None:
        self.calls = calls
        self.seconds = dict.fromkeys(calls, float("inf"))

    def reach(self, holds: Callable[[dict[str, float]], bool], rounds: int = 400) -> dict[str, Any]:
        """Measure for some rounds, and on until ``holds`` or the rounds are over. As timeit does,
        without the garbage collector, whose cost is that of all that the process holds.
        """
        gc.disable()
        try:
            return self._reach(holds, rounds)
        finally:
            gc.enable()

    def _reach(self, holds: Callable[[dict[str, float]], bool], rounds: int) -> dict[str, Any]:
        for done in range(rounds):
            if done >= rounds // 10 and holds(self.seconds):
                break
            for name, call in self.calls.items():
                start = time.perf_counter()
                for _ in range(50):
                    call()
                seconds = (time.perf_counter() - start) / 50
                self.seconds[name] = min(self.seconds[name], seconds)
        return self.seconds


def plan_alone() -> Callable[[], None]:
    """The engine's part of a forward call: its plan, run by itself."""
    q = torch.randn(1, 1, 8)
    tensors = (q, q, q, CU, CU, None, None, None, None)
    facts = _kernels.TensorFacts(tensors, 3)
    options = (-1, -1, False, 0.0, False, 2, None, (1, 1))
    plan, _ = _kernels._find(_statements.VARLEN_FORWARD, tensors, facts, options, "varlen_attn")
    outputs = (torch.empty(1, 1, 8), torch.empty(1, 1))

    def run() -> None:
        plan.run(facts, tuple(x.data_ptr() for x in outputs), 0.3)

    return run


def show(seconds: dict[str, float]) -> None:
    for name, cost in seconds.items():
        print(f"{name}: {cost * 1e6:.2f} us per call")


def empty_ops() -> Any:
    """``varlen_fwd`` and ``varlen_bwd`` again, registered alike, without the work."""
    library = torch.library.Library("raggeddnn_empty", "DEF")
    for op in (_ops.varlen_fwd, _ops.varlen_bwd):
        library.define(str(op._schema).removeprefix("raggeddnn::"))

    def forward(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
        return q.new_empty(q.shape), q.new_empty(q.shape[:2], dtype=torch.float32)

    def backward(dout: Any, dlse: Any, q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Any:
        return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)

    def gradients(ctx: Any, dout: Any, dlse: Any) -> Any:
        op = torch.ops.raggeddnn_empty.varlen_bwd.default
        nothing = (None,) * (5 + len(ctx.rest))
        return (*op(dout, dlse, *ctx.saved_tensors, *ctx.rest), *nothing)

    library.impl("varlen_fwd", forward, "CPU")
    library.impl("varlen_bwd", backward, "CPU")
    register = torch.library.register_autograd
    register(
        "raggeddnn_empty::varlen_fwd", gradients, setup_context=_ops._varlen_setup, lib=library
    )
    register(
        "raggeddnn_empty::varlen_bwd",
        _ops._no_double_backward,
        setup_context=_ops._save_nothing,
        lib=library,
    )
    return library


class EmptyOp:
    """An op of ``varlen_fwd``'s signature and registration that does nothing."""

    def __init__(self) -> None:
        self.library = empty_ops()
        self.op = torch.ops.raggeddnn_empty.varlen_fwd.default
        self.q, self.gradient = torch.randn(1, 1, 8, requires_grad=True), torch.ones(1, 1, 8)

    def both_passes(self) -> None:
        self.op(self.q, self.q, self.q, *REST)[0].backward(self.gradient)


def test_a_call_costs_a_tenth_of_an_empty_op_with_its_gradient():
    """Beyond its plan: ten microseconds where that op takes a hundred."""
    q = torch.randn(1, 1, 8)
    dense = q[None]
    best = Best(
        plan=plan_alone(),
        empty=EmptyOp().both_passes,
        flash_attn_varlen_func=lambda: rt.flash_attn_varlen_func(q, q, q, CU, CU, 1, 1),
        varlen_attn=lambda: rt.varlen_attn(q, q, q, CU, CU, 1, 1),
        scaled_dot_product_attention=lambda: rt.scaled_dot_product_attention(dense, dense, dense),
    )

    def excess(seconds: dict[str, float]) -> float:
        return max(v for k, v in seconds.items() if k != "empty") - seconds["plan"]

    seconds = best.reach(lambda x: excess(x) <= x["empty"] / 10)
    show(seconds)
    assert excess(seconds) <= seconds["empty"] / 10


def test_autograd_costs_no_more_than_that_of_an_empty_op():
    empty = EmptyOp()

    def run_full() -> None:
        out, *_ = rt.flash_attn_varlen_func(
            empty.q, empty.q, empty.q, CU, CU, 1, 1, return_attn_probs=True
        )
        out.backward(empty.gradient)

    best = Best(empty=empty.both_passes, full=run_full)
    seconds = best.reach(lambda x: x["full"] <= x["empty"])
    show(seconds)
    assert seconds["full"] <= seconds["empty"]
