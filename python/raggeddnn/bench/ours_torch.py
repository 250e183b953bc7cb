"""Our contenders in a GPU's memory: the layouts as calls of ``raggeddnn.torch``, timed and checked
as the peers are. The library chooses the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .device import optional_module
from .layouts import LOOP, PADDED, PADDED_LENGTHS, RAGGED
from .peers import Form, Peer, Tensors, looped


def _functions() -> Any:
    return optional_module("raggeddnn.torch")


def ragged(t: Tensors) -> Form:
    """Packed rows and cumulative lengths."""
    cu, limit = t.cumulative(), t.work.s_max
    attend = _functions().flash_attn_varlen_func

    def forward() -> list[Any]:
        return [attend(t.q, t.k, t.v, cu, cu, limit, limit, causal=t.work.causal)]

    return Form((t.q, t.k, t.v), forward, [t.do], lambda found: found[0])


def _dense(t: Tensors, mask: Any, **options: Any) -> Form:
    inputs = (t.padded(t.q), t.padded(t.k), t.padded(t.v))
    attend = _functions().scaled_dot_product_attention
    options |= {"is_causal": t.work.causal and mask is None, "enable_gqa": t.grouped}

    def forward() -> list[Any]:
        return [attend(*inputs, mask, **options)]

    return Form(inputs, forward, [t.padded(t.do)], lambda found: t.unpadded(found[0]), mask)


def padded(t: Tensors) -> Form:
    """Every row computed; padding is hidden by causality, else by an additive mask."""
    return _dense(t, None if t.work.causal else t.padding_mask())


def padded_with_lengths(t: Tensors) -> Form:
    """Rows of padding stored, not computed."""
    lens = t.torch.tensor(t.lens, dtype=t.torch.int32, device=t.device)
    return _dense(t, None, seq_len_q=lens, seq_len_kv=lens)


def one_by_one(t: Tensors) -> Form:
    """One call per sequence, on slices of the packed rows."""
    attend = _functions().scaled_dot_product_attention
    return looped(t, partial(attend, is_causal=t.work.causal, enable_gqa=t.grouped))


FORMS: dict[str, Callable[[Tensors], Form]] = {
    RAGGED: ragged,
    PADDED: padded,
    PADDED_LENGTHS: padded_with_lengths,
    LOOP: one_by_one,
}


def torch_contenders(engine: str, device: str) -> list[Peer]:
    """Every layout on a torch device; ``engine`` is what their measurements are listed under."""
    return [
        Peer(engine, layout, form, device, None, layout in (PADDED, PADDED_LENGTHS), is_ours=True)
        for layout, form in FORMS.items()
    ]
