"""A problem whose rows' largest scores grow from block to block of keys by little and by much."""

from __future__ import annotations

import numpy as np
from raggeddnn.testing import Case, Problem, make_problem

# Of 64 keys each, in powers of 2. A row in three has their negatives.
LEVELS = [0, 3, 6, 7.5, 9, 20, 27, 36, 300, 301, 150, 309, 330, 330, 460, 461]


def growing_scores(width: int, dtype: str) -> Problem:
    keys = 64 * len(LEVELS)
    problem = make_problem(
        Case("growing", (3, 70), (keys, keys), heads=(2, 1, 1), d=width, dtype=dtype)
    )
    problem.k[..., 0] = np.tile(np.repeat(LEVELS, 64), 2)[:, np.newaxis]
    problem.q[..., 0] = np.sqrt(width) / np.log2(np.e)
    problem.q[::3] *= -1
    return problem
