"""What is called with PyTorch's tensors: the peers, PyTorch's attention and flash-attn, each in the
form that suits a ragged batch best.

What a form prepares once is not timed: padded copies, masks, cumulative lengths. Its results are
left as the form gives them (the loop's outputs are not joined), which favours the peer.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..testing.gradients import GRADIENTS
from ..testing.oracle import Array
from .device import CPU, CUDA, optional_module
from .work import BACKWARD, FORWARD, Batch, UnavailableError, Workload

PADDED_LAYOUT = "SDPA padded"


def _tensor(torch: Any, x: Array, device: str) -> Any:
    """A tensor of the array's data type; torch cannot read ml_dtypes' bfloat16 by itself."""
    if x.dtype.name != "bfloat16":
        return torch.from_numpy(np.ascontiguousarray(x)).to(device)
    return torch.from_numpy(np.ascontiguousarray(x).view(np.int16)).view(torch.bfloat16).to(device)


def _array(torch: Any, x: Any) -> Array:
    """The reverse of :func:`_tensor`."""
    x = x.detach().contiguous().cpu()
    if x.dtype != torch.bfloat16:
        found: Array = x.numpy()
        return found
    import ml_dtypes

    return np.asarray(x.view(torch.int16).numpy().view(ml_dtypes.bfloat16))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's remarks about prototypes and about kernels that do not suit."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


class Tensors:
    """A batch as tensors on a device. ``q``, ``k``, ``v`` (T,H,D) require a gradient unless the
    pass is forward; ``do`` is (T,Hq,Dv).
    """

    def __init__(self, batch: Batch, device: str) -> None:
        self.torch = optional_module("torch")
        self.work, self.device = batch.work, device
        self.lens = list(batch.work.lens)
        problem = batch.problem
        self.q, self.k, self.v, self.do = (
            _tensor(self.torch, x, device) for x in (problem.q, problem.k, problem.v, batch.do)
        )
        if batch.work.pass_name != FORWARD:
            for x in (self.q, self.k, self.v):
                x.requires_grad_()
        self.grouped = len(set(batch.work.preset.heads)) > 1

    def cumulative(self) -> Any:
        """(B+1,) int32 offsets in rows."""
        cu = np.cumsum([0, *self.lens]).astype(np.int32)
        return self.torch.from_numpy(cu).to(self.device)

    def padded(self, x: Any) -> Any:
        """(T,H,D) rows as a leaf [B,H,S,D]; padding is zero."""
        wide = x.new_zeros((len(self.lens), self.work.s_max, *x.shape[1:]))
        for b, rows in enumerate(x.detach().split(self.lens)):
            wide[b, : len(rows)] = rows
        leaf = wide.transpose(1, 2).contiguous()
        return leaf.requires_grad_() if x.requires_grad else leaf

    def unpadded(self, x: Any) -> Any:
        """The valid rows (T,H,D) of [B,H,S,D]."""
        rows = [x[b, :, :n].transpose(0, 1) for b, n in enumerate(self.lens)]
        return self.torch.cat(rows)

    def padding_mask(self) -> Any:
        """An additive mask [B,1,1,S] that hides padding."""
        hidden = np.arange(self.work.s_max)[None, :] >= np.asarray(self.lens)[:, None]
        mask = self.torch.zeros(hidden.shape, dtype=self.q.dtype)
        mask[self.torch.from_numpy(hidden)] = -np.inf
        return mask.to(self.device)[:, None, None, :].contiguous()

    def attention(self, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        """PyTorch's function on [B,H,S,D]; causal by the workload unless a mask says so."""
        return self.torch.nn.functional.scaled_dot_product_attention(
            q, k, v, mask, is_causal=self.work.causal and mask is None, enable_gqa=self.grouped
        )


@dataclass
class Form:
    """A way to call a peer. ``inputs`` are leaves; ``forward`` gives the outputs that belong to
    ``grads``; ``rows`` turns outputs, or one input's gradient, into packed rows (T,H,D).
    """

    inputs: tuple[Any, Any, Any]
    forward: Callable[[], list[Any]]
    grads: list[Any]
    rows: Callable[[list[Any]], Any]
    mask: Any = None


def padded_sdpa(t: Tensors) -> Form:
    """Padded, causal by ``is_causal`` (padding follows the last row, so no row sees it), else under
    an additive mask [B,1,1,S], the form that is not converted at each call.
    """
    inputs = (t.padded(t.q), t.padded(t.k), t.padded(t.v))
    mask = None if t.work.causal else t.padding_mask()
    return Form(
        inputs,
        lambda: [t.attention(*inputs, mask)],
        [t.padded(t.do)],
        lambda found: t.unpadded(found[0]),
        mask,
    )


def cudnn_sdpa(t: Tensors) -> Form:
    """The same, by cuDNN through torch's choice of a backend."""
    kernels = optional_module("torch.nn.attention")
    form = padded_sdpa(t)
    plain = form.forward

    def forward() -> list[Any]:
        with kernels.sdpa_kernel(kernels.SDPBackend.CUDNN_ATTENTION):
            return plain()

    form.forward = forward
    return form


def looped(t: Tensors, attend: Callable[..., Any]) -> Form:
    """One call per sequence over ``q.split(lens)``: slicing makes the backward pass slower."""

    def forward() -> list[Any]:
        parts = zip(t.q.split(t.lens), t.k.split(t.lens), t.v.split(t.lens), strict=True)
        return [attend(*(x.transpose(0, 1)[None] for x in part)) for part in parts]

    def rows(found: list[Any]) -> Any:
        if found[0].dim() == 3:  # a gradient
            return found[0]
        return t.torch.cat([x[0].transpose(0, 1) for x in found])

    grads = [x.transpose(0, 1)[None] for x in t.do.split(t.lens)]
    return Form((t.q, t.k, t.v), forward, grads, rows)


def looped_sdpa(t: Tensors) -> Form:
    return looped(t, t.attention)


def nested_sdpa(t: Tensors) -> Form:
    """Jagged nested tensors over the packed rows; the smallest and largest length are given. They
    take no groups of heads, so the heads of k and v are repeated.
    """
    group = t.q.shape[1] // t.k.shape[1]
    offsets = t.cumulative().long()
    limits = {"min_seqlen": min(t.lens), "max_seqlen": max(t.lens)}

    def forward() -> list[Any]:
        jagged = t.torch.nested.nested_tensor_from_jagged
        rows = (t.q, *(x.repeat_interleave(group, 1) if group > 1 else x for x in (t.k, t.v)))
        parts = [jagged(x, offsets, **limits).transpose(1, 2) for x in rows]
        o = t.torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=t.work.causal)
        return [o.transpose(1, 2).values()]

    return Form((t.q, t.k, t.v), forward, [t.do], lambda found: found[0])


def varlen(t: Tensors) -> Form:
    """``torch.nn.attention.varlen.varlen_attn``; older versions take ``is_causal``."""
    module = optional_module("torch.nn.attention.varlen")
    if module is None:
        raise UnavailableError(f"PyTorch {t.torch.__version__} has no torch.nn.attention.varlen")
    known = inspect.signature(module.varlen_attn).parameters
    options: dict[str, Any] = {}
    if "is_causal" in known:
        options["is_causal"] = t.work.causal
    else:
        options["window_size"] = (-1, 0) if t.work.causal else (-1, -1)
    if t.grouped and "enable_gqa" in known:
        options["enable_gqa"] = True
    cu, limit = t.cumulative(), t.work.s_max

    def forward() -> list[Any]:
        return [module.varlen_attn(t.q, t.k, t.v, cu, cu, limit, limit, **options)]

    return Form((t.q, t.k, t.v), forward, [t.do], lambda found: found[0])


def flash_attn(t: Tensors) -> Form:
    """``flash_attn_varlen_func`` of the newest of the packages that is installed."""
    places = ("flash_attn.cute", "flash_attn_interface", "flash_attn")
    found = (getattr(optional_module(place), "flash_attn_varlen_func", None) for place in places)
    function = next((f for f in found if f is not None), None)
    if function is None:
        raise UnavailableError("flash-attn is not installed")
    cu, limit = t.cumulative(), t.work.s_max
    options = {
        "cu_seqlens_q": cu,
        "cu_seqlens_k": cu,
        "max_seqlen_q": limit,
        "max_seqlen_k": limit,
        "causal": t.work.causal,
    }

    def forward() -> list[Any]:
        o = function(t.q, t.k, t.v, **options)
        return [o[0] if isinstance(o, tuple) else o]

    return Form((t.q, t.k, t.v), forward, [t.do], lambda found: found[0])


class PeerJob:
    """A form, run with or without autograd as the pass asks."""

    def __init__(self, form: Form, tensors: Tensors) -> None:
        self._form, self._torch, self._pass = form, tensors.torch, tensors.work.pass_name
        self._outputs: list[Any] = []
        self._gradients: tuple[Any, ...] = ()
        if self._pass == BACKWARD:
            self._outputs = form.forward()
        self._on_gpu = tensors.device != CPU
        self.memory = self._measure_memory()

    def run(self) -> None:
        if self._pass == FORWARD:
            with self._torch.no_grad():
                self._outputs = self._form.forward()
            return
        if self._pass != BACKWARD:
            self._outputs = self._form.forward()
        self._gradients = self._torch.autograd.grad(
            self._outputs, self._form.inputs, self._form.grads, retain_graph=self._pass == BACKWARD
        )

    def results(self) -> dict[str, Array]:
        rows = self._form.rows
        found = {"o": _array(self._torch, rows(self._outputs))}
        for name, gradient in zip(GRADIENTS, self._gradients, strict=False):
            found[name] = _array(self._torch, rows([gradient]))
        return found

    def _measure_memory(self) -> int:
        """Inputs, mask and outputs; on a GPU also the most that a run held beyond its inputs."""
        held = [*self._form.inputs, *(self._form.grads if self._pass != FORWARD else [])]
        held += [] if self._form.mask is None else [self._form.mask]
        size = sum(int(x.nbytes) for x in held)
        if self._on_gpu:
            cuda = self._torch.cuda
            self.run()
            cuda.synchronize()
            self._gradients = ()
            if self._pass != BACKWARD:
                self._outputs = []
            cuda.reset_peak_memory_stats()
            before = cuda.memory_allocated()
            self.run()
            cuda.synchronize()
            return size + int(cuda.max_memory_allocated() - before)
        self.run()
        return size + sum(int(x.nbytes) for x in (*self._outputs, *self._gradients))


@dataclass(frozen=True)
class Peer:
    """One form on a device. ``only`` names the device it exists for, if it is just one."""

    engine: str
    layout: str
    form: Callable[[Tensors], Form]
    device: str = CPU
    only: str | None = None
    is_padded: bool = False
    is_ours: bool = False

    def stored_padding(self, work: Workload) -> float:
        return work.padding_share if self.is_padded else 0.0

    def prepare(self, batch: Batch) -> PeerJob:
        if optional_module("torch") is None:
            raise UnavailableError("PyTorch is not installed")
        if self.only is not None and self.only != self.device:
            raise UnavailableError(
                f"needs --device {self.only}, there is no kernel for {self.device}"
            )
        try:
            with _quiet():
                tensors = Tensors(batch, self.device)
                return PeerJob(self.form(tensors), tensors)
        # Whatever a foreign library raises is its reason.
        except Exception as error:
            if isinstance(error, UnavailableError):
                raise
            lines = (str(error).strip() or type(error).__name__).splitlines()
            reason = " ".join(line.strip() for line in lines) if self.is_ours else lines[0]
            raise UnavailableError(f"refused: {reason[: 400 if self.is_ours else 160]}") from error


PEERS: tuple[Peer, ...] = (
    Peer("torch", PADDED_LAYOUT, padded_sdpa, is_padded=True),
    Peer("torch", "SDPA loop over split", looped_sdpa),
    Peer("torch", "SDPA nested, jagged", nested_sdpa),
    Peer("torch", "SDPA padded, cuDNN", cudnn_sdpa, only=CUDA, is_padded=True),
    Peer("torch", "varlen_attn", varlen, only=CUDA),
    Peer("flash-attn", "varlen", flash_attn, only=CUDA),
)
