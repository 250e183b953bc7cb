"""The custom ops ``torch.ops.raggeddnn.*``: schemas and what PyTorch wants to know of each.

``varlen_fwd`` and ``dense_fwd`` compute attention of packed and of dense tensors, ``varlen_bwd``
and ``dense_bwd`` their gradients. All are pure functions; the log-sum-exp is an output whose
gradient counts. The public functions call them, and so may anybody: checks are in the ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import raggeddnn as rd

from . import _flops, _kernels, _plain, _statements
from ._statements import MaybeTensor

_OPTIONS = (
    "float scale, int left, int right, bool is_top_left, float dropout, bool is_deterministic, "
    "str caller"
)
_VARLEN = (
    "Tensor cu_seqlens_q, Tensor cu_seqlens_k, Tensor? seqused_q, Tensor? seqused_k, "
    "Tensor? philox, SymInt max_seqlen_q, SymInt max_seqlen_k, " + _OPTIONS
)
_DENSE = "Tensor? seq_len_q, Tensor? seq_len_kv, Tensor? philox, "
_QKV = "Tensor q, Tensor k, Tensor v, "
_GRADIENTS = "Tensor? dout, Tensor? dlse, "

_library = torch.library.Library("raggeddnn", "DEF")
_library.define(f"varlen_fwd({_QKV}{_VARLEN}) -> (Tensor out, Tensor lse)")
_library.define(
    f"varlen_bwd({_GRADIENTS}{_QKV}Tensor out, Tensor lse, {_VARLEN}) "
    "-> (Tensor dq, Tensor dk, Tensor dv)"
)
_library.define(f"dense_fwd({_QKV}Tensor? bias, {_DENSE}{_OPTIONS}) -> (Tensor out, Tensor lse)")
_library.define(
    f"dense_bwd({_GRADIENTS}{_QKV}Tensor? bias, Tensor out, Tensor lse, {_DENSE}"
    f"bool with_dbias, {_OPTIONS}) -> (Tensor dq, Tensor dk, Tensor dv, Tensor dbias)"
)

varlen_fwd = torch.ops.raggeddnn.varlen_fwd.default
varlen_bwd = torch.ops.raggeddnn.varlen_bwd.default
dense_fwd = torch.ops.raggeddnn.dense_fwd.default
dense_bwd = torch.ops.raggeddnn.dense_bwd.default

_KERNELS: dict[str, Callable[..., Any]] = {
    "varlen_fwd": _kernels.varlen_forward,
    "varlen_bwd": _kernels.varlen_backward,
    "dense_fwd": _kernels.dense_forward,
    "dense_bwd": _kernels.dense_backward,
}
for _name, _kernel in _KERNELS.items():
    for _key in ("CPU", "CUDA"):
        _library.impl(_name, _kernel, _key)


# Shapes and types of the results, for tracing and meta tensors. Lengths may be symbols.


def _new_bshd(x: Tensor, width: Any) -> Tensor:
    batch, heads, rows, _ = x.shape
    return x.new_empty((batch, rows, heads, width)).transpose(1, 2)


def _check_devices(caller: str, *tensors: Any) -> None:
    """PyTorch asks for shapes also where only one of the tensors is without memory."""
    devices = sorted({str(x.device) for x in tensors if isinstance(x, Tensor)})
    if len(devices) > 1:
        raise rd.InvalidValueError(f"[{caller}] tensors are on {devices}, expected one device")


def _fake_varlen_forward(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    _check_devices(rest[-1], q, k, v, *rest)
    _statements.check_data(rest[-1], q, k, v)
    rows, heads, _ = q.shape
    lse = q.new_empty((rows, heads), dtype=_statements.stats_dtype(q)).t()
    return q.new_empty((rows, heads, v.shape[2])), lse


def _fake_varlen_backward(
    dout: MaybeTensor, dlse: MaybeTensor, q: Tensor, k: Tensor, v: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    _check_devices(rest[-1], dout, dlse, q, k, v, *rest)
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _fake_dense_forward(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    _check_devices(rest[-1], q, k, v, *rest)
    _statements.check_data(rest[-1], q, k, v)
    lse = q.new_empty(q.shape[:3], dtype=_statements.stats_dtype(q))
    return _new_bshd(q, v.shape[3]), lse


def _fake_dense_backward(
    dout: MaybeTensor, dlse: MaybeTensor, q: Tensor, k: Tensor, v: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    _check_devices(rest[-1], dout, dlse, q, k, v, *rest)
    dq, dk, dv = (_new_bshd(x, x.shape[3]) for x in (q, k, v))
    bias, with_dbias = rest[0], rest[6]
    if not with_dbias:
        return dq, dk, dv, q.new_empty(0)
    assert bias is not None
    return dq, dk, dv, bias.new_empty(bias.shape)


_FAKES: dict[str, Callable[..., Any]] = {
    "varlen_fwd": _fake_varlen_forward,
    "varlen_bwd": _fake_varlen_backward,
    "dense_fwd": _fake_dense_forward,
    "dense_bwd": _fake_dense_backward,
}
for _name, _fake in _FAKES.items():
    torch.library.register_fake(f"raggeddnn::{_name}", _fake, lib=_library)


# Gradients. Those that nobody asked for stay None instead of becoming zeros.


def _varlen_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:3], *output, *inputs[3:8])
    ctx.rest = inputs[8:]
    ctx.set_materialize_grads(False)


def _varlen_gradients(ctx: Any, dout: MaybeTensor, dlse: MaybeTensor) -> tuple[MaybeTensor, ...]:
    nothing = (None,) * (5 + len(ctx.rest))
    if dout is None and dlse is None:
        return (None, None, None, *nothing)
    saved = ctx.saved_tensors
    is_plain = _plain.is_plain(*saved, dout, dlse)
    backward: Callable[..., Any] = _kernels.varlen_backward if is_plain else varlen_bwd
    return (*backward(dout, dlse, *saved, *ctx.rest), *nothing)


def _dense_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:4], *output, *inputs[4:7])
    ctx.rest = inputs[7:]
    ctx.set_materialize_grads(False)


def _dense_gradients(ctx: Any, dout: MaybeTensor, dlse: MaybeTensor) -> tuple[MaybeTensor, ...]:
    nothing = (None,) * (3 + len(ctx.rest))
    if dout is None and dlse is None:
        return (None, None, None, None, *nothing)
    with_dbias = ctx.needs_input_grad[3]
    saved = ctx.saved_tensors
    is_plain = _plain.is_plain(*saved, dout, dlse)
    backward: Callable[..., Any] = _kernels.dense_backward if is_plain else dense_bwd
    dq, dk, dv, dbias = backward(dout, dlse, *saved, with_dbias, *ctx.rest)
    return (dq, dk, dv, dbias if with_dbias else None, *nothing)


def _no_double_backward(ctx: Any, *gradients: Tensor) -> None:
    raise RuntimeError(
        "raggeddnn: double backward is not supported: the gradients of attention cannot be "
        "differentiated again (create_graph=True)"
    )


def _save_nothing(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """A backward op has no formula that would need anything."""


_FORMULAS = {
    "varlen_fwd": (_varlen_gradients, _varlen_setup),
    "dense_fwd": (_dense_gradients, _dense_setup),
    "varlen_bwd": (_no_double_backward, _save_nothing),
    "dense_bwd": (_no_double_backward, _save_nothing),
}
for _name, (_backward, _setup) in _FORMULAS.items():
    torch.library.register_autograd(
        f"raggeddnn::{_name}", _backward, setup_context=_setup, lib=_library
    )


def _refuse_vmap(info: Any, in_dims: Any, *arguments: Any) -> None:
    raise RuntimeError(
        "raggeddnn: torch.vmap is not supported: give the mapped axis as batches, or as more "
        "sequences of a packed batch"
    )


for _name in _KERNELS:
    torch.library.register_vmap(f"raggeddnn::{_name}", _refuse_vmap, lib=_library)


# Autocast: as F.scaled_dot_product_attention, in the region's type; float64 stays.


def _cast(x: Any, device_type: str, dtype: torch.dtype) -> Any:
    if not isinstance(x, Tensor) or x.device.type != device_type:
        return x
    return x.to(dtype) if x.is_floating_point() and x.dtype != torch.float64 else x


def _autocast(op: Any, device_type: str) -> Callable[..., Any]:
    key = getattr(torch._C.DispatchKey, f"Autocast{device_type.upper()}")
    excluded = torch._C.DispatchKeySet(key)

    def kernel(*arguments: Any) -> Any:
        dtype = torch.get_autocast_dtype(device_type)
        with torch._C._ExcludeDispatchKeyGuard(excluded):
            return op(*(_cast(x, device_type, dtype) for x in arguments))

    return kernel


for _name, _op in (("varlen_fwd", varlen_fwd), ("dense_fwd", dense_fwd)):
    for _device in ("cpu", "cuda"):
        _library.impl(_name, _autocast(_op, _device), f"Autocast{_device.upper()}")

_flops.register()


def default_scale(q: Tensor) -> float:
    """1/sqrt(D) for q [..., D]."""
    return 1.0 / math.sqrt(q.shape[-1])


class _Varlen(torch.autograd.Function):
    """``varlen_fwd`` and its formula, for plain tensors."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        output = _kernels.varlen_forward(*inputs)
        _varlen_setup(ctx, inputs, output)
        return output

    backward = staticmethod(_varlen_gradients)


class _Dense(torch.autograd.Function):
    """``dense_fwd`` and its formula, for plain tensors."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        output = _kernels.dense_forward(*inputs)
        _dense_setup(ctx, inputs, output)
        return output

    backward = staticmethod(_dense_gradients)


def varlen(*arguments: Any) -> tuple[Tensor, Tensor]:
    """``varlen_fwd``, without the dispatcher where nobody would notice."""
    tensors = arguments[:8]
    if _plain.is_plain(*tensors):
        return _kernels.varlen_forward(*arguments)
    result: tuple[Tensor, Tensor]
    if _plain.is_unwatched(*tensors):
        result = _Varlen.apply(*arguments)
        return result
    refuse_transforms(*arguments[:3])
    result = varlen_fwd(*arguments)
    return result


def dense(q: Tensor, k: Tensor, v: Tensor, bias: MaybeTensor, *rest: Any) -> tuple[Tensor, Tensor]:
    """``dense_fwd``, likewise."""
    tensors = (q, k, v, bias, *rest[:3])
    if _plain.is_plain(*tensors):
        return _kernels.dense_forward(q, k, v, bias, *rest)
    result: tuple[Tensor, Tensor]
    if _plain.is_unwatched(*tensors):
        result = _Dense.apply(q, k, v, bias, *rest)
        return result
    refuse_transforms(q, k, v, *(() if bias is None else (bias,)))
    result = dense_fwd(q, k, v, bias, *rest)
    return result


_forward_mode = torch.autograd.forward_ad


def refuse_transforms(*tensors: Tensor) -> None:
    """What PyTorch would pass by in silence, or refuse without saying what: forward-mode gradients
    and torch.func.grad and its like. (vmap is refused by the ops themselves.)
    """
    if torch.compiler.is_compiling():
        return
    level = torch._C._functorch.peek_interpreter_stack()
    if level is None and _forward_mode._current_level < 0:
        return
    kinds = torch._C._functorch.TransformType
    is_func = level is not None and level.key() in (kinds.Grad, kinds.Jvp)
    is_dual = _forward_mode._current_level >= 0 and any(
        _forward_mode.unpack_dual(x).tangent is not None for x in tensors
    )
    if is_func or is_dual:
        raise RuntimeError(
            "raggeddnn: torch.func.grad, vjp, jvp and forward-mode gradients are not supported: "
            "use backward() or torch.autograd.grad"
        )
