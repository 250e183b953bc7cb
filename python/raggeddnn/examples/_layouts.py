"""A batch of sequences of unequal length, padded or packed: what a model needs to know of either.

A model that does everything but attention row by row, as transformers do, runs on both as it is:
its rows are [B, S] of a padded batch and [T] of a packed one. Only ``attend`` and ``mean`` look
across rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from raggeddnn.torch import flash_attn_varlen_func


class Batch(Protocol):
    """Sequences in one of the layouts. ``ids`` and ``positions`` (from 0 in each sequence): int64,
    of the shape of its rows.
    """

    ids: Tensor
    positions: Tensor

    def arrange(self, sequences: Sequence[Tensor], fill: int = 0) -> Tensor:
        """Other values, one for each token, at the tokens' places; ``fill`` where there is none."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention within each sequence, [rows, heads, width] each."""

    def mean(self, x: Tensor) -> Tensor:
        """The mean over each sequence's tokens: (sequences, width) of [rows, width]."""


class Padded:
    """Sequences side by side, each filled up to the longest on its right."""

    def __init__(self, sequences: Sequence[Tensor], *, causal: bool) -> None:
        self._causal = causal
        self._lengths = torch.tensor([len(x) for x in sequences])
        self.ids = self.arrange(sequences)
        self.positions = torch.arange(self.ids.shape[1]).expand_as(self.ids)
        self._is_token = self.positions < self._lengths[:, None]

    def arrange(self, sequences: Sequence[Tensor], fill: int = 0) -> Tensor:
        return torch.nn.utils.rnn.pad_sequence(
            list(sequences), batch_first=True, padding_value=fill
        )

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        # Padding comes last, so that no token would see it under a causal mask anyway.
        mask = None if self._causal else self._is_token[:, None, None, :]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self._causal)
        return out.transpose(1, 2)

    def mean(self, x: Tensor) -> Tensor:
        return (x * self._is_token[..., None]).sum(1) / self._lengths[:, None]


class Packed:
    """Sequences one after the other."""

    def __init__(self, sequences: Sequence[Tensor], *, causal: bool) -> None:
        lengths = torch.tensor([len(x) for x in sequences])
        self._causal = causal
        self._longest = int(lengths.max())
        self._lengths = lengths
        self._offsets = F.pad(lengths.cumsum(0), (1, 0)).int()
        self.ids = self.arrange(sequences)
        self.positions = self.arrange([torch.arange(len(x)) for x in sequences])

    def arrange(self, sequences: Sequence[Tensor], fill: int = 0) -> Tensor:
        return torch.cat(list(sequences))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        offsets, longest = self._offsets, self._longest
        return flash_attn_varlen_func(
            q, k, v, offsets, offsets, longest, longest, causal=self._causal
        )

    def mean(self, x: Tensor) -> Tensor:
        sequence = torch.arange(len(self._lengths)).repeat_interleave(self._lengths)
        sums = x.new_zeros((len(self._lengths), x.shape[1])).index_add_(0, sequence, x)
        return sums / self._lengths[:, None]
