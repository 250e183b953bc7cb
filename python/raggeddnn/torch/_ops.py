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


def _call_backward(
    ctx: Any, name: str, op: Any, dout: MaybeTensor, dlse: MaybeTensor, *options: Any
) -> Any:
    """A backward op of what a call saved, without the dispatcher where nobody would notice."""
    saved = ctx.saved_tensors
    is_plain = _plain.is_plain(*saved, dout, dlse)
    return (_KERNELS[name] if is_plain else op)(dout, dlse, *saved, *options, *ctx.rest)


def _varlen_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:3], *output, *inputs[3:8])
    ctx.rest = inputs[8:]
    ctx.set_materialize_grads(False)


def _varlen_gradients(ctx: Any, dout: MaybeTensor, dlse: MaybeTensor) -> tuple[MaybeTensor, ...]:
    nothing = (None,) * (5 + len(ctx.rest))
    if dout is None and dlse is None:
        return (None, None, None, *nothing)
    return (*_call_backward(ctx, "varlen_bwd", varlen_bwd, dout, dlse), *nothing)


def _dense_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:4], *output, *inputs[4:7])
    ctx.rest = inputs[7:]
    ctx.set_materialize_grads(False)


def _dense_gradients(ctx: Any, dout: MaybeTensor, dlse: MaybeTensor) -> tuple[MaybeTensor, ...]:
    nothing = (None,) * (3 + len(ctx.rest))
    if dout is None and dlse is None:
        return (None, None, None, None, *nothing)
    with_dbias = ctx.needs_input_grad[3]
    dq, dk, dv, dbias = _call_backward(ctx, "dense_bwd", dense_bwd, dout, dlse, with_dbias)
    return (dq, dk, dv, dbias if with_dbias else None, *nothing)


def _no_double_backward(ctx: Any, *gradients: Tensor) -> None:
    raise RuntimeError(
        "raggeddnn: double backward is not supported: the gradients of attention cannot be "
        "differentiated again (create_graph=True)"
    )


def _save_nothing(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """A backward op has no formula that would need anything."""


_FORMULAS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
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


def _differentiable(name: str) -> Any:
    """The function of autograd of a forward op: its kernel and its formula, for plain tensors."""
    kernel, (gradients, setup) = _KERNELS[name], _FORMULAS[name]

    class Direct(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            output = kernel(*inputs)
            setup(ctx, inputs, output)
            return output

        backward = staticmethod(gradients)

    return Direct


_DIRECT = {name: _differentiable(name) for name in ("varlen_fwd", "dense_fwd")}


def _call(name: str, op: Any, tensors: tuple[Any, ...], arguments: tuple[Any, ...]) -> Any:
    """A forward op, without the dispatcher where nobody would notice."""
    if _plain.is_unwatched(*tensors):
        if _plain.needs_gradients(*tensors):
            return _DIRECT[name].apply(*arguments)
        return _KERNELS[name](*arguments)
    _plain.refuse_transforms(*tensors)
    return op(*arguments)


def varlen(*arguments: Any) -> tuple[Tensor, Tensor]:
    """``varlen_fwd``, by the shortest way."""
    result: tuple[Tensor, Tensor] = _call("varlen_fwd", varlen_fwd, arguments[:8], arguments)
    return result


def dense(*arguments: Any) -> tuple[Tensor, Tensor]:
    """``dense_fwd``, by the shortest way."""
    result: tuple[Tensor, Tensor] = _call("dense_fwd", dense_fwd, arguments[:7], arguments)
    return result
