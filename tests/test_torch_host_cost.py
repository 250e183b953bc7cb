"""What the torch functions cost on the host (contract, rule 17): with hardly anything to compute,
and beside ops of the same signature and registration that compute nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import raggeddnn.torch as rt
import torch
from raggeddnn.torch import _kernels, _ops, _statements
from torch import Tensor

CU = torch.tensor([0, 1], dtype=torch.int32)


def best_of(call: Callable[[], Any], calls: int = 100, runs: int = 60) -> float:
    """Seconds of one call: the best of many short runs, since the machine may be busy."""
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - start) / calls)
    return best


def own_time_of_the_engine() -> float:
    """Of one execute, forward: what the plan takes when it is run by itself."""
    q = torch.randn(1, 1, 8)
    tensors = (q, q, q, CU, CU, None, None, None, None)
    facts = _kernels.TensorFacts(tensors, 3)
    options = (-1, -1, False, 0.0, False, 2, None, (1, 1))
    plan, _ = _kernels._find(_statements.VARLEN_FORWARD, tensors, facts, options, "varlen_attn")
    outputs = (torch.empty(1, 1, 8), torch.empty(1, 1))
    addresses = tuple(x.data_ptr() for x in outputs)
    return best_of(lambda: plan.run(facts, addresses, 0.3))


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


def test_a_call_from_python_costs_at_most_ten_microseconds():
    q = torch.randn(1, 1, 8)
    own = own_time_of_the_engine()
    rows = {"flash_attn_varlen_func": rt.flash_attn_varlen_func, "varlen_attn": rt.varlen_attn}
    costs = {
        name: best_of(lambda call=call: call(q, q, q, CU, CU, 1, 1)) for name, call in rows.items()
    }
    dense = q[None]
    costs["scaled_dot_product_attention"] = best_of(
        lambda: rt.scaled_dot_product_attention(dense, dense, dense)
    )
    for name, cost in costs.items():
        print(f"{name}: {cost * 1e6:.2f} us per call, {own * 1e6:.2f} us of them the plan's")
    assert max(costs.values()) - own <= 10e-6


def test_autograd_costs_at_most_fifteen_microseconds_more_than_an_empty_op():
    library = empty_ops()
    q, gradient = torch.randn(1, 1, 8, requires_grad=True), torch.ones(1, 1, 8)
    rest = (CU, CU, None, None, None, 1, 1, 0.3, -1, -1, False, 0.0, False, "varlen_attn")

    def run(op: Callable[..., Any], *arguments: Any) -> None:
        op(q, q, q, *arguments)[0].backward(gradient)

    def flash(*arguments: Any) -> Any:
        return rt.flash_attn_varlen_func(*arguments, return_attn_probs=True)

    empty = torch.ops.raggeddnn_empty.varlen_fwd.default
    # In turns, so that a busy spell of the machine meets both.
    empty_cost = full_cost = float("inf")
    for _ in range(30):
        empty_cost = min(empty_cost, best_of(lambda: run(empty, *rest), 30, 4))
        full_cost = min(full_cost, best_of(lambda: run(flash, CU, CU, 1, 1), 30, 4))
    own = 2 * own_time_of_the_engine()
    print(
        f"forward and backward: {full_cost * 1e6:.2f} us, an empty op {empty_cost * 1e6:.2f} us, "
        f"about {own * 1e6:.2f} us the plans'"
    )
    del library
    assert full_cost - empty_cost - own <= 15e-6
