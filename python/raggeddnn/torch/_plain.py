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
_watchers: tuple[Callable[[], Any], ...] = (
    torch._C._len_torch_dispatch_stack,
    torch._C._len_torch_function_stack,
    torch._C._functorch.peek_interpreter_stack,
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


def is_plain(*tensors: MaybeTensor) -> bool:
    """The same, and nobody asks for gradients either: a kernel may be called with them."""
    if _is_grad_enabled():
        for x in tensors:
            if x is not None and x.requires_grad:
                return False
    return is_unwatched(*tensors)
