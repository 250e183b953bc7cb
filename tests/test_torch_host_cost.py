"""What the torch functions cost on the host (contract, rule 17): with hardly anything to compute,
and beside a function of autograd that computes nothing.
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


class Empty(torch.autograd.Function):
    """What autograd asks of ``varlen_fwd`` and its gradients, without the work."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        q = inputs[0]
        output = q.new_empty(q.shape), q.new_empty(q.shape[:2], dtype=torch.float32)
        _ops._varlen_setup(ctx, inputs, output)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        q, k, v, *_ = ctx.saved_tensors
        nothing = (None,) * (5 + len(ctx.rest))
        return (q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape), *nothing)


def test_a_call_from_python_costs_at_most_ten_microseconds():
    q = torch.randn(1, 1, 8)
    dense = q[None]
    best = Best(
        plan=plan_alone(),
        flash_attn_varlen_func=lambda: rt.flash_attn_varlen_func(q, q, q, CU, CU, 1, 1),
        varlen_attn=lambda: rt.varlen_attn(q, q, q, CU, CU, 1, 1),
        scaled_dot_product_attention=lambda: rt.scaled_dot_product_attention(dense, dense, dense),
    )
    seconds = best.reach(lambda x: max(x.values()) - x["plan"] <= 10e-6)
    for name, cost in seconds.items():
        print(f"{name}: {cost * 1e6:.2f} us per call")
    assert max(seconds.values()) - seconds["plan"] <= 10e-6


def test_autograd_costs_at_most_fifteen_microseconds_more_than_an_empty_function():
    q, gradient = torch.randn(1, 1, 8, requires_grad=True), torch.ones(1, 1, 8)
    rest = (CU, CU, None, None, None, 1, 1, 0.3, -1, -1, False, 0.0, False, "varlen_attn")

    def run_empty() -> None:
        Empty.apply(q, q, q, *rest)[0].backward(gradient)

    def run_full() -> None:
        out, *_ = rt.flash_attn_varlen_func(q, q, q, CU, CU, 1, 1, return_attn_probs=True)
        out.backward(gradient)

    def own_cost(seconds: dict[str, float]) -> float:
        return seconds["full"] - seconds["empty"] - 2 * seconds["plan"]

    best = Best(plan=plan_alone(), empty=run_empty, full=run_full)
    seconds = best.reach(lambda x: own_cost(x) <= 15e-6)
    for name, cost in seconds.items():
        print(f"{name}: {cost * 1e6:.2f} us per call")
    assert own_cost(seconds) <= 15e-6
