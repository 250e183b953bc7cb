"""``attn_implementation="raggeddnn"`` for Hugging Face transformers.

Packed batches (position_ids that start anew, or cu_seq_lens_q and its like) and padded ones (a 2-D
attention_mask whose valid tokens are one run, padding left or right) run as packed sequences, in
the memory that the model has: nothing is gathered or scattered, and padding costs nothing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import raggeddnn as rd

from . import _ops
from ._arguments import checked_dropout, draw_seeds, not_supported
from ._sdpa import _bias_of, dense
from ._varlen import varlen

NAME = "raggeddnn"
CALLER = "transformers"

# Arguments that change the result and cannot be read here.
_UNREAD = (
    "softcap",
    "s_aux",
    "sinks",
    "position_bias",
    "head_mask",
    "layer_head_mask",
    "block_table",
    "k_cache",
    "v_cache",
    "cache_seqlens",
    "block_mask",
)


def _check(options: dict[str, Any]) -> None:
    for name in _UNREAD:
        if options.get(name) is not None:
            raise not_supported(CALLER, f"{name} is given, expected None")
    if options.get("output_attentions"):
        raise not_supported(CALLER, "output_attentions is True: weights are never stored")


def _int(x: Any) -> int:
    return x if isinstance(x, (int, torch.SymInt)) else int(x)


def _flat(x: Tensor) -> Tensor:
    """[B,H,S,D] as the (B * S, H, D) rows it mostly is in memory."""
    x = x.transpose(1, 2)
    return x.reshape(-1, *x.shape[2:])


def _runs(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Offsets (B + 2,) and lengths (B + 1,) in rows of the flattened [B,S] mask: an empty sequence
    up to the first valid token, then one per batch from its first valid token on.
    """
    batch, rows = mask.shape
    valid = mask.to(torch.int64)
    begins = (valid.diff(dim=1) > 0).sum(1) + valid[:, 0]
    message = (
        "[transformers] attention_mask has valid tokens on both sides of padding, expected one run "
        "of them in each batch"
    )
    if mask.is_cpu and not torch.compiler.is_compiling():
        if bool((begins > 1).any()):
            raise rd.InvalidValueError(message)
    else:
        torch._assert_async((begins <= 1).all(), message)
    starts = valid.argmax(1) + torch.arange(batch, device=mask.device) * rows
    zero, end = starts.new_zeros(1), starts.new_full((1,), batch * rows)
    return torch.cat((zero, starts, end)), torch.cat((zero, valid.sum(1)))


def _packed_offsets(position_ids: Tensor | None, q: Tensor, k: Tensor) -> Tensor | None:
    """Cumulative lengths of the sequences that position_ids of one batch tell, or None for one."""
    if position_ids is None or q.shape[0] != 1 or position_ids.dim() != 2:
        return None
    if q.shape[2] != k.shape[2] or position_ids.shape[1] != q.shape[2]:
        return None
    starts = (position_ids[0].diff() != 1).nonzero()[:, 0] + 1
    if starts.shape[0] == 0:
        return None
    zero = starts.new_zeros(1)
    return torch.cat((zero, starts, zero + q.shape[2]))


def attention_forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    is_causal: bool | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """What a model calls: query [B,Hq,S,D], key [B,Hk,L,D], value [B,Hk,L,Dv].

    ``attention_mask``: None, [B,L] (true: valid), or a prepared [B,1 or Hq,S,L] mask, which is then
    all that masks. ``sliding_window``: how many keys up to its own a row sees (as many to the right
    unless causal). ``options``: position_ids, cu_seq_lens_q, cu_seq_lens_k, max_length_q,
    max_length_k; whatever else would change the result raises ``raggeddnn.NotSupportedError``.

    On a device, position_ids make the host wait for them in every layer, as other attentions do;
    cu_seq_lens_q and its like do not.

    Returns ([B,S,Hq,Dv], None); padding rows are exactly 0.
    """
    _check(options)
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    reach = -1 if sliding_window is None else sliding_window - 1
    tail = (
        _ops.default_scale(query) if scaling is None else float(scaling),
        reach,
        0 if causal else reach,
        False,
        dropout,
        False,
        CALLER,
    )
    philox = draw_seeds(query) if checked_dropout(CALLER, dropout) else None
    if attention_mask is not None and attention_mask.dim() == 2:
        return _padded((query, key, value), attention_mask, causal, philox, tail), None
    if attention_mask is not None:
        bias = _bias_of(attention_mask, query, query.shape[:2])
        unmasked = (tail[0], -1, -1, *tail[3:])
        out, _ = dense(query, key, value, bias, None, None, philox, *unmasked)
        return out.transpose(1, 2), None
    names = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")
    given = [options.get(name) for name in names]
    if all(x is not None for x in given):
        cu_q, cu_k, limits = given[0], given[1], (_int(given[2]), _int(given[3]))
    else:
        cu_q = cu_k = _packed_offsets(options.get("position_ids"), query, key)
        if cu_q is None:
            out, _ = dense(query, key, value, None, None, None, philox, *tail)
            return out.transpose(1, 2), None
        limits = (query.shape[2], key.shape[2])
    rows = (_flat(x) for x in (query, key, value))
    out, _ = varlen(*rows, cu_q, cu_k, None, None, philox, *limits, *tail)
    return out.reshape(query.shape[0], query.shape[2], *out.shape[1:]), None


def _padded(
    tensors: tuple[Tensor, Tensor, Tensor],
    mask: Tensor,
    causal: bool,
    philox: Tensor | None,
    tail: tuple[Any, ...],
) -> Tensor:
    query, key, value = tensors
    batch, rows = query.shape[0], query.shape[2]
    # A static cache has room behind the tokens that the mask speaks of.
    if key.shape[2] > mask.shape[1]:
        key, value = key[:, :, : mask.shape[1]], value[:, :, : mask.shape[1]]
    mask = mask.to(torch.bool)
    cu_k, used_k = _runs(mask)
    if rows == mask.shape[1]:
        cu_q, used_q = cu_k, used_k
    else:  # the queries are the last tokens; or those of a decoder that looks at an encoder's
        own = mask[:, -rows:] if causal else mask.new_ones((batch, rows))
        cu_q, used_q = _runs(own)
    flat = (_flat(x) for x in (query, key, value))
    # From one batch's first token to the next one's may be nearly two batches' rows.
    limits = (2 * rows, 2 * key.shape[2])
    out, _ = varlen(*flat, cu_q, cu_k, used_q, used_k, philox, *limits, *tail)
    return out.reshape(batch, rows, *out.shape[1:])


def _mask(*arguments: Any, **options: Any) -> Any:
    """The 2-D mask of padding, or None; refuses what a 2-D mask cannot say."""
    from transformers.masking_utils import flash_attention_mask

    if options.get("use_vmap"):
        raise not_supported(CALLER, "the model adds a mask function of its own")
    config, length = options.get("config"), options.get("kv_length", 0)
    chunk = getattr(config, "attention_chunk_size", None)
    if chunk is not None and length > chunk:
        first, later = torch.tensor(0), torch.tensor(chunk)
        sees = options["mask_function"](first, first, later, first)
        if not bool(sees):
            raise not_supported(CALLER, f"chunked attention of {chunk} tokens")
    return flash_attention_mask(*arguments, **options)


def register_transformers_attention() -> None:
    """Make ``attn_implementation="raggeddnn"`` known to transformers (5 or later).

    Then ``AutoModel.from_pretrained(..., attn_implementation="raggeddnn")``. Works for packed
    batches, padded ones, caches, sliding windows, GQA and dropout; refuses by name what it cannot
    read (softcap, attention sinks, position bias, output_attentions). May be called again.

    Raises ImportError without transformers. Source: its ``AttentionInterface`` and
    ``AttentionMaskInterface``.
    """
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(NAME, attention_forward)
    ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, _mask)
