"""The same sequences as they can be held: ragged, padded under a mask, padded with lengths, or as
one batch per sequence.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from ..testing import Case, Problem, lay_out, numpy_dtype
from ..testing.oracle import Array
from .work import Batch

RAGGED, PADDED, PADDED_LENGTHS, LOOP = (
    "ragged",
    "padded",
    "padded with lengths",
    "loop over sequences",
)
LAYOUTS = (RAGGED, PADDED, PADDED_LENGTHS, LOOP)


@dataclass(frozen=True)
class Layout:
    """One way to hold the batch. ``parts`` are run one after another, each holding the sequences
    that follow those of the part before; ``lens`` are the true lengths in rows.
    """

    name: str
    parts: tuple[Problem, ...]
    lens: tuple[int, ...]

    @property
    def padding_share(self) -> float:
        """The part of the stored rows that belongs to no sequence, 0 to 1."""
        return 1.0 - sum(self.lens) / sum(part.side_q.rows for part in self.parts)

    def packed_rows(self, rows_of_parts: list[Array]) -> Array:
        """The valid rows of each part's result (R, H, D), one sequence after another."""
        lens = iter(self.lens)
        found = []
        for part, rows in zip(self.parts, rows_of_parts, strict=True):
            starts = part.side_q.starts
            here = itertools.islice(lens, len(starts))
            found += [rows[start : start + n] for start, n in zip(starts, here, strict=True)]
        return np.concatenate(found)

    def spread(self, packed: Array) -> list[Array]:
        """Packed rows (T, H, D) as each part holds them; padding is zero."""
        lens, source, found = iter(self.lens), 0, []
        for part in self.parts:
            starts = part.side_q.starts
            wide = np.zeros((part.side_q.rows, *packed.shape[1:]), dtype=packed.dtype)
            for start, n in zip(starts, itertools.islice(lens, len(starts)), strict=True):
                wide[start : start + n] = packed[source : source + n]
                source += n
            found.append(wide)
        return found


def _fill(name: str, cases: list[Case], packed: Problem, biases: list[Array | None]) -> Layout:
    """A layout of such cases that holds the packed problem's numbers."""
    sides = [lay_out(case.lens_q, case.layout, case.capacity) for case in cases]
    empty = [
        Problem(case, packed.q[:0], packed.k[:0], packed.v[:0], bias, side, side)
        for case, side, bias in zip(cases, sides, biases, strict=True)
    ]
    layout = Layout(name, tuple(empty), packed.side_q.lens)
    q, k, v = (layout.spread(rows) for rows in (packed.q, packed.k, packed.v))
    parts = [_with_arrays(part, *arrays) for part, *arrays in zip(empty, q, k, v, strict=True)]
    return replace(layout, parts=tuple(parts))


def _with_arrays(part: Problem, q: Array, k: Array, v: Array) -> Problem:
    return Problem(part.case, q, k, v, part.bias, part.side_q, part.side_kv)


def _mask(lens: tuple[int, ...], s_max: int, *, causal: bool, dtype: str) -> Array:
    """Additive mask [B,1,1,S], or [B,1,S,S] when causal: -inf hides padding keys and later keys."""
    hidden = np.arange(s_max)[None, :] >= np.asarray(lens)[:, None]
    if not causal:
        mask = np.where(hidden[:, None, None, :], -np.inf, 0)
    else:
        later = np.arange(s_max)[None, :] > np.arange(s_max)[:, None]
        mask = np.where(hidden[:, None, None, :] | later, -np.inf, 0)
    return mask.astype(numpy_dtype(dtype))


def make_layout(name: str, batch: Batch) -> Layout:
    """The batch in the layout of that name; all hold the same numbers."""
    packed, work = batch.problem, batch.work
    lens, base = work.lens, batch.problem.case
    if name == RAGGED:
        return Layout(name, (packed,), lens)
    stats = "none" if base.stats == "none" else "dense"
    if name == LOOP:
        cases = [
            replace(base, layout="dense", lens_q=(n,), lens_kv=(n,), stats=stats) for n in lens
        ]
        return _fill(name, cases, packed, [None] * len(cases))
    s_max = work.s_max
    padded = replace(base, layout="padded", memory="bhsd", capacity=s_max, stats=stats)
    if name == PADDED_LENGTHS:
        return _fill(name, [padded], packed, [None])
    full = (s_max,) * len(lens)
    masked = replace(
        padded,
        layout="dense",
        lens_q=full,
        lens_kv=full,
        causal=False,
        bias="b1qk" if work.causal else "b11k",
    )
    mask = _mask(lens, s_max, causal=work.causal, dtype=work.dtype)
    return _fill(name, [masked], packed, [mask])
