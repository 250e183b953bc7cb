"""A problem whose rows' largest scores grow from one 16 keys to the next by little and by much."""

from __future__ import annotations

import numpy as np
from raggeddnn.testing import Case, Problem, make_problem

# In powers of 2. A row in three has their negatives.
LEVELS = [0, 3, 6, 7.5, 9, 20, 27, 36, 300, 301, 150, 309, 330, 330, 460, 461]


def growing_scores(dtype: str) -> Problem:
    keys = 16 * len(LEVELS)
    problem = make_problem(
        Case("growing", (3, 70), (keys, keys), heads=(2, 1, 1), d=64, dtype=dtype)
    )
    problem.k[..., 0] = np.tile(np.repeat(LEVELS, 16), 2)[:, np.newaxis]
    problem.q[..., 0] = 8 / np.log2(np.e)  # the scale is 1 / 8
    problem.q[::3] *= -1
    return problem
