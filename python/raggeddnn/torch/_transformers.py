"""``attn_implementation="raggeddnn"`` for Hugging Face transformers.

Packed batches (position_ids that start anew, or cu_seq_lens_q and its like) and padded ones (a 2-D
attention_mask whose valid tokens are one run, padding left or right) run as packed sequences, in
the memory that the model has: nothing is gathered or scattered, and padding costs nothing.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

import raggeddnn as rd

from . import _ops
from ._arguments import checked_dropout, draw_seeds, not_supported
from ._ops import dense, varlen
from ._sdpa import _bias_of

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


def _require(holds: Tensor, message: str) -> None:
    """Raises unless all of holds is true; on a device later, without making the host wait."""
    if holds.is_cpu and not torch.compiler.is_compiling():
        if not bool(holds.all()):
            raise rd.InvalidValueError(f"[{CALLER}] {message}")
    else:
        torch._assert_async(holds.all(), f"[{CALLER}] {message}")


def _is_cross_attention(module: torch.nn.Module, causal: bool) -> bool | None:
    """Whether the keys are of other tokens than the queries; None where nothing tells."""
    if causal:
        return False
    if getattr(module, "is_cross_attention", False):
        return True
    # Layers of a decoder are not told apart.
    return False if getattr(module, "is_decoder", None) is False else None


def _is_causal(module: torch.nn.Module, is_causal: bool | None) -> bool:
    if is_causal is not None:
        return is_causal
    if getattr(module, "is_cross_attention", False):
        return False
    known: bool | None = getattr(module, "is_causal", None)
    if known is None:
        raise not_supported(
            CALLER,
            f"is_causal is None and {type(module).__name__} has no attribute is_causal, "
            "expected True or False",
        )
    return known


def _given_lengths(options: dict[str, Any], mask: Tensor | None) -> list[Any] | None:
    """cu_seq_lens_q, cu_seq_lens_k, max_length_q and max_length_k: all of them, or None."""
    names = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")
    found = [options.get(name) for name in names]
    given = [name for name, x in zip(names, found, strict=True) if x is not None]
    if not given:
        return None
    if len(given) < len(names):
        raise rd.InvalidValueError(
            f"[{CALLER}] got {', '.join(given)}, expected all of {', '.join(names)} or none"
        )
    if mask is not None:
        raise rd.InvalidValueError(
            f"[{CALLER}] attention_mask and {', '.join(given)} are given, expected only one of "
            "these two"
        )
    return found


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
    _require(
        begins <= 1,
        "attention_mask has valid tokens on both sides of padding, expected one run of them in "
        "each batch",
    )
    starts = valid.argmax(1) + torch.arange(batch, device=mask.device) * rows
    zero, end = starts.new_zeros(1), starts.new_full((1,), batch * rows)
    return torch.cat((zero, starts, end)), torch.cat((zero, valid.sum(1)))


def _packed_offsets(position_ids: Tensor | None, q: Tensor, k: Tensor) -> Tensor | None:
    """Cumulative lengths, in rows of the flattened batches, of the sequences that position_ids
    tell; None where each batch is one sequence.
    """
    batch, rows = q.shape[0], q.shape[2]
    if position_ids is None or position_ids.dim() != 2:
        return None
    if rows != k.shape[2] or position_ids.shape[1] != rows:
        return None
    begins = position_ids.diff(dim=1) != 1
    if begins.shape[0] == 1 and not bool(begins.any()):
        return None
    if begins.shape[0] not in (1, batch):
        raise rd.InvalidValueError(
            f"[{CALLER}] position_ids has {begins.shape[0]} rows, expected 1 or {batch}"
        )
    begins = F.pad(begins, (1, 0), value=True).expand(batch, rows)
    starts = begins.reshape(-1).nonzero()[:, 0]
    if starts.shape[0] == batch:
        return None
    return torch.cat((starts, starts.new_full((1,), batch * rows)))


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

    ``attention_mask``: None, or [B,n] (true: valid) of the first n of L keys, the last S of which
    are the rows' own when causal, or [B,L+S] of the keys and then of the rows, or a prepared
    [B,1 or Hq,S,L] mask, which is then all that masks. ``sliding_window``: how many keys up to its
    own a row sees (as many to the right unless causal). ``is_causal``: None reads
    ``module.is_causal``. ``options``: position_ids, or all of cu_seq_lens_q, cu_seq_lens_k,
    max_length_q and max_length_k, which no mask may accompany; whatever else would change the
    result raises ``raggeddnn.NotSupportedError``.

    Without a mask, position_ids make the host wait for them in every layer on a device, and break
    a graph that torch.compile traces; cu_seq_lens_q and its like do not.

    Returns ([B,S,Hq,Dv], None). Padding rows are exactly 0 in self-attention that is known to be
    so: causal, or in a module whose ``is_decoder`` is False. All rows of other calls are computed,
    since nothing tells which of them are padding.
    """
    _check(options)
    given = _given_lengths(options, attention_mask)
    is_prepared = attention_mask is not None and attention_mask.dim() != 2
    causal = not is_prepared and _is_causal(module, is_causal)
    crosses = _is_cross_attention(module, causal)
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
        return _padded((query, key, value), attention_mask, causal, crosses, philox, tail), None
    if attention_mask is not None:
        bias = _bias_of(attention_mask, query, query.shape[:2])
        unmasked = (tail[0], -1, -1, *tail[3:])
        out, _ = dense(query, key, value, bias, None, None, philox, *unmasked)
        return out.transpose(1, 2), None
    if given is not None:
        cu_q, cu_k, limits = given[0], given[1], (_int(given[2]), _int(given[3]))
    else:
        positions = None if crosses else options.get("position_ids")
        cu_q = cu_k = _packed_offsets(positions, query, key)
        if cu_q is None:
            out, _ = dense(query, key, value, None, None, None, philox, *tail)
            return out.transpose(1, 2), None
        if not causal and getattr(module, "is_decoder", False):
            raise not_supported(
                CALLER,
                "position_ids tell packed sequences to a decoder's attention that is not causal",
            )
        limits = (query.shape[2], key.shape[2])
    rows = (_flat(x) for x in (query, key, value))
    out, _ = varlen(*rows, cu_q, cu_k, None, None, philox, *limits, *tail)
    return out.reshape(query.shape[0], query.shape[2], *out.shape[1:]), None


def _padded(
    tensors: tuple[Tensor, Tensor, Tensor],
    mask: Tensor,
    causal: bool,
    crosses: bool | None,
    philox: Tensor | None,
    tail: tuple[Any, ...],
) -> Tensor:
    query, key, value = tensors
    batch, rows, length = query.shape[0], query.shape[2], key.shape[2]
    columns = mask.shape[1]
    if mask.shape[0] != batch:
        raise rd.InvalidValueError(
            f"[{CALLER}] attention_mask has {mask.shape[0]} batches, expected {batch}"
        )
    mask = mask.to(torch.bool)
    if columns == length + rows:
        mask, own = mask[:, :length], mask[:, length:]
    elif columns > length or (causal and columns < rows):
        least = f"{rows} to " if causal else ""
        raise rd.InvalidValueError(
            f"[{CALLER}] attention_mask has {columns} columns, expected {least}{length} for "
            f"{rows} rows and {length} keys"
        )
    elif causal or (crosses is False and columns == rows):
        own = mask if columns == rows else mask[:, -rows:]
    else:
        own = mask.new_ones((batch, rows))
    # A static cache has room behind the tokens that the mask speaks of.
    if length > mask.shape[1]:
        key, value = key[:, :, : mask.shape[1]], value[:, :, : mask.shape[1]]
    cu_k, used_k = _runs(mask)
    cu_q, used_q = (cu_k, used_k) if own is mask else _runs(own)
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
    # What a function is made of cannot be read while torch.compile traces.
    if not torch.compiler.is_compiling() and _is_union(options.get("mask_function")):
        raise not_supported(CALLER, "block_sequence_ids is given, expected None")
    config, length = options.get("config"), options.get("kv_length", 0)
    chunk = getattr(config, "attention_chunk_size", None)
    if chunk is not None and length > chunk:
        first, later = torch.tensor(0), torch.tensor(chunk)
        sees = options["mask_function"](first, first, later, first)
        if not bool(sees):
            raise not_supported(CALLER, f"chunked attention of {chunk} tokens")
    # Only masks of bidirectional attention have this option: no key is still to come in them.
    if "allow_is_bidirectional_skip" in options:
        return flash_attention_mask(*arguments, **options)
    mask, filled = options.get("attention_mask"), _filled(options)
    if isinstance(filled, Tensor):
        return _mask_of_slots(mask, filled, options)
    if mask is not None:
        begin = options.get("kv_offset", 0)
        # Once prepared by this function, a mask no longer has what precedes kv_offset.
        mask = mask[:, : begin + filled][:, -filled:]
        if mask.shape[1] < filled:
            raise rd.InvalidValueError(
                f"[{CALLER}] attention_mask has {mask.shape[1]} columns, expected {filled}: those "
                "of cached tokens and of new ones"
            )
    elif filled < length:
        mask = torch.ones(
            (options["batch_size"], filled), dtype=torch.bool, device=options.get("device")
        )
    return flash_attention_mask(*arguments, **{**options, "attention_mask": mask})


def _is_union(function: Any) -> bool:
    """Whether transformers made this mask function of an ``or_masks``, on its own or in an
    ``and_masks``.
    """
    name = getattr(function, "__name__", "")
    if name == "and_mask":
        return any(_is_union(x) for x in function.__closure__[0].cell_contents)
    return bool(name == "or_mask")


def _filled(options: dict[str, Any]) -> Any:
    """How many of the kv_length keys hold tokens: the others are a static cache's free slots."""
    end = options.get("q_offset", 0) + options.get("q_length", 0)
    return end - options.get("kv_offset", 0)


def _mask_of_slots(mask: Tensor | None, filled: Tensor, options: dict[str, Any]) -> Tensor:
    """The mask of a static cache whose count of tokens is on a device, which the host must not wait
    for: [B,kv_length + q_length], of the keys and then of the rows.
    """
    batch, rows, length = (options[x] for x in ("batch_size", "q_length", "kv_length"))
    if mask is not None and mask.shape[1] == length + rows:
        return mask  # made by an earlier call of this function
    _require(
        filled <= length,
        f"the static cache has {length} slots, expected room for cached tokens and for new ones",
    )
    if mask is None:
        mask = torch.ones((batch, length), dtype=torch.bool, device=filled.device)
    columns = mask.shape[1]
    if columns > length:
        raise rd.InvalidValueError(
            f"[{CALLER}] attention_mask has {columns} columns, expected at most {length}: the "
            "cache's slots"
        )
    _require(
        filled <= columns,
        f"attention_mask has {columns} columns, expected those of cached tokens and of new ones",
    )
    keys = F.pad(mask, (0, length - columns))
    keys = keys & (torch.arange(length, device=keys.device) < filled)
    at = filled - rows + torch.arange(rows, device=keys.device)
    return torch.cat((keys, keys[:, at]), dim=1)


def register_transformers_attention() -> None:
    """Make ``attn_implementation="raggeddnn"`` known to transformers (5 or later).

    Then ``AutoModel.from_pretrained(..., attn_implementation="raggeddnn")``. Works for packed
    batches, padded ones, caches (static ones too), sliding windows, GQA and dropout; refuses by
    name what it cannot read (softcap, attention sinks, position bias, output_attentions). May be
    called again.

    Raises ImportError without transformers. Source: its ``AttentionInterface`` and
    ``AttentionMaskInterface``.
    """
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(NAME, attention_forward)
    ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, _mask)
