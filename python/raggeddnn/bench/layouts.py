"""The same sequences in the layouts compared: ragged, padded under a mask, padded with lengths."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..testing import Case, Problem, lay_out, make_problem, numpy_dtype
from ..testing.oracle import Array
from .presets import Preset

RAGGED, PADDED, PADDED_LENGTHS = "ragged", "padded", "padded with lengths"


@dataclass(frozen=True)
class Layout:
    """One way to hold the batch. ``problem`` is what runs, ``lens`` the true lengths in rows."""

    name: str
    problem: Problem
    lens: tuple[int, ...]

    @property
    def tokens(self) -> int:
        return sum(self.lens)

    @property
    def padding_share(self) -> float:
        """The part of the stored rows that belongs to no sequence, 0 to 1."""
        rows = self.problem.side_q.rows
        return 1.0 - self.tokens / rows if rows else 0.0

    def packed_rows(self, o: Array) -> Array:
        """The valid rows of an output (Rq, Hq, Dv) of this layout, one sequence after another."""
        starts = self.problem.side_q.starts
        return np.concatenate(
            [o[start : start + n] for start, n in zip(starts, self.lens, strict=True)]
        )


def _scatter(packed: Problem, case: Case) -> Problem:
    """The packed problem's numbers in the padded rows of ``case``; padding is zero."""
    side = lay_out(case.lens_q, case.layout, case.capacity)

    def spread(rows: Array) -> Array:
        wide = np.zeros((side.rows, *rows.shape[1:]), dtype=rows.dtype)
        places = zip(side.starts, packed.side_q.starts, packed.side_q.lens, strict=True)
        for start, source, length in places:
            wide[start : start + length] = rows[source : source + length]
        return wide

    q, k, v = (spread(rows) for rows in (packed.q, packed.k, packed.v))
    return Problem(case=case, q=q, k=k, v=v, bias=None, side_q=side, side_kv=side)


def _mask(lens: tuple[int, ...], s_max: int, *, causal: bool, dtype: str) -> Array:
    """Additive mask [B,1,1,S], or [B,1,S,S] when causal: -inf hides padding keys and later keys."""
    hidden = np.arange(s_max)[None, :] >= np.asarray(lens)[:, None]
    if not causal:
        mask = np.where(hidden[:, None, None, :], -np.inf, 0)
    else:
        later = np.arange(s_max)[None, :] > np.arange(s_max)[:, None]
        mask = np.where(hidden[:, None, None, :] | later, -np.inf, 0)
    return mask.astype(numpy_dtype(dtype))


def make_layouts(preset: Preset, dtype: str, causal: bool, seed: int) -> list[Layout]:
    """The preset's batch, with random values, in each of the layouts; all hold the same numbers."""
    lens = preset.lengths(seed)
    s_max = max(lens)
    base = Case(
        preset.name,
        lens,
        lens,
        heads=preset.heads,
        d=preset.head_dim,
        dtype=dtype,
        causal=causal,
        stats="none",
        seed=seed,
    )
    packed = make_problem(base)
    with_lengths = replace(base, layout="padded", memory="bhsd", capacity=s_max)
    full = (s_max,) * len(lens)
    masked = replace(
        with_lengths,
        layout="dense",
        lens_q=full,
        lens_kv=full,
        causal=False,
        bias="b1qk" if causal else "b11k",
    )
    masked_problem = _scatter(packed, masked)
    masked_problem.bias = _mask(lens, s_max, causal=causal, dtype=dtype)
    return [
        Layout(RAGGED, packed, lens),
        Layout(PADDED, masked_problem, lens),
        Layout(PADDED_LENGTHS, _scatter(packed, with_lengths), lens),
    ]


def padded_work(layout: Layout) -> float:
    """Floating-point operations of the dense batch: ``4 * B * S^2 * H * D``."""
    case, side = layout.problem.case, layout.problem.side_q
    return 4.0 * len(layout.lens) * side.s_max**2 * case.heads[0] * case.d
