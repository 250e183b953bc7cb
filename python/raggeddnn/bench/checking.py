"""Comparing what contenders computed with the float64 oracle, by the derived tolerances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..testing import BackwardProblem, Problem, assert_sdpa_close, lay_out
from ..testing.gradients import check_sequence_gradients
from ..testing.oracle import Array
from .work import FORWARD, Batch, Workload

CHECKED_SEQUENCES = 4
# Scores of one sequence, over all heads, that are checked unasked: half a gigabyte in the oracle.
CHECKED_SCORES = 1 << 26


def sequences_to_check(work: Workload, check_all: bool) -> list[int]:
    """All of them, or a few from the shortest to the longest that the oracle does quickly."""
    order = sorted(range(len(work.lens)), key=lambda batch: work.lens[batch])
    if check_all:
        return order
    quick = [b for b in order if work.preset.heads[0] * work.lens[b] ** 2 <= CHECKED_SCORES]
    if len(quick) <= CHECKED_SEQUENCES:
        return quick
    third = len(quick) // 3
    return [quick[0], quick[third], quick[2 * third], quick[-1]]


class Checker:
    """Some sequences of a batch, with their oracle."""

    def __init__(self, batch: Batch, chosen: list[int]) -> None:
        packed = batch.problem
        lens = tuple(packed.side_q.lens[b] for b in chosen)
        self.count = len(chosen)
        starts = (packed.side_q.starts[b] for b in chosen)
        spans = [np.arange(start, start + n) for start, n in zip(starts, lens, strict=True)]
        self._rows = np.concatenate([np.zeros(0, dtype=np.int64), *spans])
        case = replace(packed.case, lens_q=lens, lens_kv=lens)
        side = lay_out(lens, "packed")
        q, k, v = (x[self._rows] for x in (packed.q, packed.k, packed.v))
        self._problem = Problem(case, q, k, v, None, side, side)
        self._back = None
        if batch.work.pass_name != FORWARD:
            o, lse, _ = self._problem.expected()
            stored = o.astype(packed.q.dtype), lse.astype(np.float32)
            self._back = BackwardProblem(self._problem, batch.do[self._rows], *stored, None)

    def check(self, results: dict[str, Array], label: str) -> None:
        """Raise AssertionError naming the worst element beyond its bound."""
        rows = {name: packed[self._rows] for name, packed in results.items()}
        assert_sdpa_close(rows["o"], None, self._problem, label=label)
        if self._back is not None:
            check_sequence_gradients(self._back, rows, label)
