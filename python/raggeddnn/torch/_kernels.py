"""What the custom ops compute: a call's tensors become a graph, and its plan runs on their memory.

Nothing of a device tensor is read on the host. Tensors that the graph cannot address as they lie
are copied; offsets and lengths are always used in place.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import raggeddnn as rd

from .._core import PlanCall, TensorFacts
from .._plans import PLAN_CACHE_SIZE, PlanCache, build, plans
from ._statements import (
    DENSE_BACKWARD,
    DENSE_FORWARD,
    VARLEN_BACKWARD,
    VARLEN_FORWARD,
    Kind,
    MaybeTensor,
    Options,
    Statement,
    addressable,
    bshd_strides,
    check,
    stats_dtype,
    words_of,
)

_NO_SEEDS = (None, None)


@dataclass(frozen=True)
class _Call:
    """A plan ready to run, or (None) which inputs must be copied before there can be one."""

    plan: PlanCall | None
    copies: tuple[int, ...] = ()


_calls: PlanCache[_Call] = PlanCache(PLAN_CACHE_SIZE)
_engine: str | None = None


def set_engine(name: str | None) -> None:
    """Run all later calls, of every thread, on this engine; None lets the library choose.

    Raises ``raggeddnn.InvalidValueError`` for anything but a name or None. An engine that refuses a
    call raises ``raggeddnn.NotSupportedError`` then.
    """
    global _engine  # noqa: PLW0603
    if name is not None and not isinstance(name, str):
        raise rd.InvalidValueError(f"[set_engine] name is {name!r}, expected a name or None")
    _engine = name


def clear_plan_cache() -> None:
    """Forget all plans, for instance after adding an engine that should be chosen from now on."""
    _calls.clear()
    plans.clear()


def _make(kind: Kind, tensors: Sequence[MaybeTensor], options: Options, caller: str) -> _Call:
    """Check a call of a kind not seen before, and build its plan."""
    check(kind, tensors, caller)
    statement = Statement(kind, tensors, options)
    copies = statement.copies()
    if copies:
        return _Call(None, copies)
    q = statement.tensors["q"]
    with contextlib.nullcontext() if q.is_cpu else torch.cuda.device(q.device):
        built = plans.get(statement.problem(), build)
    outputs = [built.uid(name) for name in kind.outputs[: options.outputs]]
    plan = PlanCall(
        built.plan,
        [built.uid(name) for name in kind.inputs],
        [uid for uid in outputs if uid is not None],
        built.tensors["scale"].get_uid(),
    )
    return _Call(plan)


def _find(
    kind: Kind,
    tensors: Sequence[MaybeTensor],
    facts: TensorFacts,
    options: tuple[Any, ...],
    caller: str,
) -> tuple[PlanCall, TensorFacts]:
    """The plan of a call, built if need be, and the facts of what it is to run on. ``options`` are
    the fields of :class:`Options`.
    """
    key = (kind.name, facts.key, options)
    found = _calls.find(key)
    if found is None:
        found = _calls.add(key, _make(kind, tensors, Options(*options), caller))
    if found.plan is not None:
        return found.plan, facts
    changed = tuple(
        x if x is None or index not in found.copies else addressable(x)
        for index, x in enumerate(tensors)
    )
    return _find(kind, changed, TensorFacts(changed, _free(kind)), options, caller)


def _free(kind: Kind) -> int:
    return kind.rows if kind.is_varlen else 0


def _run(
    plan: PlanCall,
    facts: TensorFacts,
    outputs: tuple[int, ...],
    scale: float,
    q: Tensor,
    sizes: tuple[int, ...] = (),
) -> None:
    """``sizes``: bytes of the outputs, where the plan is to clear rows of no sequence."""
    if q.is_cpu:
        plan.run(facts, outputs, scale, 0, 0, sizes)
        return
    with torch.cuda.device(q.device):
        workspace = torch.empty(plan.workspace_size, dtype=torch.uint8, device=q.device)
        stream = torch.cuda.current_stream(q.device).cuda_stream
        plan.run(facts, outputs, scale, workspace.data_ptr(), stream, sizes)


def _tables(
    cu_q: Tensor, cu_k: Tensor, used_q: MaybeTensor, used_k: MaybeTensor, philox: MaybeTensor
) -> tuple[MaybeTensor, ...]:
    """Offsets, lengths of both sides or of neither, as a graph wants them, seed and offset."""
    if (used_q is None) != (used_k is None):
        used_q = cu_q.diff() if used_q is None else used_q
        used_k = cu_k.diff() if used_k is None else used_k
    return (cu_q, cu_k, used_q, used_k, *_seeds(philox))


def _seeds(philox: MaybeTensor) -> Sequence[MaybeTensor]:
    if philox is None:
        return _NO_SEEDS
    if philox.shape != (2,):
        raise rd.InvalidValueError(
            f"[dropout] philox has shape {tuple(philox.shape)}, expected (2,): seed and offset"
        )
    seed, offset = philox.unbind()
    return seed, offset


def _new(like: Tensor, shape: Sequence[int], is_full: bool) -> Tensor:
    """Memory that an engine writes whole, or zeros where it may leave rows as they are."""
    return like.new_empty(shape) if is_full else like.new_zeros(shape)


def varlen_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    seqused_q: MaybeTensor,
    seqused_k: MaybeTensor,
    philox: MaybeTensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    scale: float,
    left: int,
    right: int,
    is_top_left: bool,
    dropout: float,
    is_deterministic: bool,
    caller: str,
) -> tuple[Tensor, Tensor]:
    """out (total_q, Hq, Dv) and the log-sum-exp (Hq, total_q), whose memory is token-major."""
    tables = _tables(cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, philox)
    tensors = (q, k, v, *tables)
    facts = TensorFacts(tensors, 3)
    capacity_q, capacity_k, is_full, _, has_work = facts.check_sequences(
        3, max_seqlen_q, max_seqlen_k, words_of(caller)
    )
    if has_work:
        capacities = (capacity_q, capacity_k)
        options = (left, right, is_top_left, dropout, False, 2, _engine, capacities)
        plan, facts = _find(VARLEN_FORWARD, tensors, facts, options, caller)
    else:
        check(VARLEN_FORWARD, tensors, caller)
    rows, heads, _ = q.shape
    is_cleared = not is_full and has_work and plan.clears
    is_written = is_full or is_cleared
    out = _new(q, (rows, heads, v.shape[2]), is_written)
    lse = q.new_empty_strided((heads, rows), (1, heads), dtype=stats_dtype(q))
    if not is_written:
        lse.fill_(-math.inf)
    if has_work:
        sizes = (out.nbytes, lse.nbytes) if is_cleared else ()
        _run(plan, facts, (out.data_ptr(), lse.data_ptr()), scale, q, sizes)
    return out, lse


def varlen_backward(
    dout: MaybeTensor,
    dlse: MaybeTensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    seqused_q: MaybeTensor,
    seqused_k: MaybeTensor,
    philox: MaybeTensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    scale: float,
    left: int,
    right: int,
    is_top_left: bool,
    dropout: float,
    is_deterministic: bool,
    caller: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v from those of out (None: zero) and of the log-sum-exp."""
    if dout is None:
        dout = torch.zeros_like(out)
    tables = _tables(cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, philox)
    tensors = (q, k, v, out, lse, dout, dlse, *tables)
    facts = TensorFacts(tensors, 7)
    capacity_q, capacity_k, is_full_q, is_full_k, has_work = facts.check_sequences(
        7, max_seqlen_q, max_seqlen_k, words_of(caller)
    )
    if has_work:
        capacities = (capacity_q, capacity_k)
        is_fixed = is_deterministic or torch.are_deterministic_algorithms_enabled()
        options = (left, right, is_top_left, dropout, is_fixed, 3, _engine, capacities)
        plan, facts = _find(VARLEN_BACKWARD, tensors, facts, options, caller)
    is_cleared = not (is_full_q and is_full_k) and has_work and plan.clears
    dq = _new(q, q.shape, is_full_q or is_cleared)
    is_written = is_full_k or is_cleared
    dk, dv = _new(k, k.shape, is_written), _new(v, v.shape, is_written)
    if has_work:
        sizes = (dq.nbytes, dk.nbytes, dv.nbytes) if is_cleared else ()
        _run(plan, facts, (dq.data_ptr(), dk.data_ptr(), dv.data_ptr()), scale, q, sizes)
    return dq, dk, dv


def _newbshd_strides(like: Tensor, shape: Sequence[int], is_full: bool) -> Tensor:
    """Of :func:`_new`, [B,H,S,D] whose memory is [B,S,H,D]."""
    x = like.new_empty_strided(shape, bshd_strides(shape))
    return x if is_full else x.zero_()


def _lengths(
    q: Tensor, k: Tensor, seq_len_q: MaybeTensor, seq_len_kv: MaybeTensor
) -> tuple[MaybeTensor, MaybeTensor]:
    """Lengths of both sides or of neither."""
    if (seq_len_q is None) != (seq_len_kv is None):
        if seq_len_q is None:
            seq_len_q = q.new_full((q.shape[0],), q.shape[2], dtype=torch.int32)
        else:
            seq_len_kv = k.new_full((k.shape[0],), k.shape[2], dtype=torch.int32)
    return seq_len_q, seq_len_kv


def dense_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: MaybeTensor,
    seq_len_q: MaybeTensor,
    seq_len_kv: MaybeTensor,
    philox: MaybeTensor,
    scale: float,
    left: int,
    right: int,
    is_top_left: bool,
    dropout: float,
    is_deterministic: bool,
    caller: str,
) -> tuple[Tensor, Tensor]:
    """out [B,Hq,Sq,Dv], whose memory is [B,Sq,Hq,Dv], and the log-sum-exp [B,Hq,Sq]."""
    lengths = _lengths(q, k, seq_len_q, seq_len_kv)
    tensors = (q, k, v, bias, *lengths, *_seeds(philox))
    has_work = q.numel() > 0 and k.numel() > 0
    if has_work:
        options = (left, right, is_top_left, dropout, False, 2, _engine)
        facts = TensorFacts(tensors, 0)
        plan, facts = _find(DENSE_FORWARD, tensors, facts, options, caller)
    else:
        check(DENSE_FORWARD, tensors, caller)
    is_full = has_work and lengths[0] is None
    out = _newbshd_strides(q, (*q.shape[:3], v.shape[3]), is_full)
    lse = q.new_empty(q.shape[:3], dtype=stats_dtype(q))
    if not is_full:
        lse.fill_(-math.inf)
    if has_work:
        _run(plan, facts, (out.data_ptr(), lse.data_ptr()), scale, q)
    return out, lse


def dense_backward(
    dout: MaybeTensor,
    dlse: MaybeTensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: MaybeTensor,
    out: Tensor,
    lse: Tensor,
    seq_len_q: MaybeTensor,
    seq_len_kv: MaybeTensor,
    philox: MaybeTensor,
    with_dbias: bool,
    scale: float,
    left: int,
    right: int,
    is_top_left: bool,
    dropout: float,
    is_deterministic: bool,
    caller: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of q, k, v and, where asked for, of bias (else an empty tensor)."""
    if dout is None:
        dout = torch.zeros_like(out)
    lengths = _lengths(q, k, seq_len_q, seq_len_kv)
    tensors = (q, k, v, bias, out, lse, dout, dlse, *lengths, *_seeds(philox))
    has_work = q.numel() > 0 and k.numel() > 0
    if has_work:
        outputs = 3 + with_dbias
        is_fixed = is_deterministic or torch.are_deterministic_algorithms_enabled()
        options = (left, right, is_top_left, dropout, is_fixed, outputs, _engine)
        facts = TensorFacts(tensors, 0)
        plan, facts = _find(DENSE_BACKWARD, tensors, facts, options, caller)
    is_full = has_work and lengths[0] is None
    gradients = [_newbshd_strides(x, x.shape, is_full) for x in (q, k, v)]
    if with_dbias:
        assert bias is not None
        gradients.append(_new(bias, bias.shape, is_full))
    if has_work:
        _run(plan, facts, tuple(x.data_ptr() for x in gradients), scale, q)
    if not with_dbias:
        gradients.append(q.new_empty(0))
    dq, dk, dv, dbias = gradients
    return dq, dk, dv, dbias
