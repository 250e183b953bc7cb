"""Which calls need no dispatcher, whose work would be to find their kernel: those of ordinary
tensors that nobody watches. It and what it asks cost more than a short kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ._statements import MaybeTensor

# Looked up once: asked in every call.
_is_compiling = torch.compiler.is_compiling
_is_grad_enabled = torch.is_grad_enabled
_interpreter = torch._C._functorch.peek_interpreter_stack
_watchers: tuple[Callable[[], Any], ...] = (
    torch._C._len_torch_dispatch_stack,
    torch._C._len_torch_function_stack,
    _interpreter,
    torch._C._is_any_autocast_enabled,
    torch.autograd._profiler_enabled,
    torch._C._get_tracing_state,
)
_forward_mode = torch.autograd.forward_ad


def is_unwatched(*tensors: MaybeTensor) -> bool:
    """Is each an ordinary tensor in memory, and does no tracing, transform, mode, autocast or
    profiler want to see the op? The first is q.
    """
    if _is_compiling():
        return False
    for x in tensors:
        if x is not None and (type(x) is not Tensor or x.is_neg()):
            return False
    for watcher in _watchers:
        if watcher():
            return False
    q = tensors[0]
    assert q is not None
    has_kernel: bool = q.is_cpu or q.is_cuda
    return has_kernel and _forward_mode._current_level < 0


def needs_gradients(*tensors: MaybeTensor) -> bool:
    """Does autograd want to know of a call with these?"""
    if _is_grad_enabled():
        for x in tensors:
            if x is not None and x.requires_grad:
                return True
    return False


def is_plain(*tensors: MaybeTensor) -> bool:
    """May a kernel be called with them, and nothing else be done?"""
    return not needs_gradients(*tensors) and is_unwatched(*tensors)


def refuse_transforms(*tensors: MaybeTensor) -> None:
    """What PyTorch would pass by in silence, or refuse without saying what: forward-mode gradients
    and torch.func.grad and its like. (vmap is refused by the ops themselves.)
    """
    if _is_compiling():
        return
    level = _interpreter()
    if level is None and _forward_mode._current_level < 0:
        return
    kinds = torch._C._functorch.TransformType
    is_func = level is not None and level.key() in (kinds.Grad, kinds.Jvp)
    is_dual = _forward_mode._current_level >= 0 and any(
        _forward_mode.unpack_dual(x).tangent is not None
        for x in tensors
        if x is not None and x.is_floating_point()
    )
    if is_func or is_dual:
        raise RuntimeError(
            "raggeddnn: torch.func.grad, vjp, jvp and forward-mode gradients are not supported: "
            "use backward() or torch.autograd.grad"
        )
