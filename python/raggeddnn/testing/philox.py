"""Which attention probabilities dropout keeps, drawn again in NumPy.

Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). The key is ``seed
+ offset * 0x9E3779B97F4A7C15`` modulo 2**64, low word first; the counter is (batch, head, row,
column), rows and columns counted within the sequence; the first word drawn decides: a probability
is dropped where that word is below ``floor(p * 2**32)``.
"""

from __future__ import annotations

import numpy as np

from .oracle import Array

_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox4x32_10(counter: tuple[Array, Array, Array, Array], key: tuple[int, int]) -> list[Array]:
    """The four words drawn for a counter of four words (arrays that broadcast) and a key of two."""
    c = [np.asarray(word, dtype=np.uint64) for word in counter]
    low, high = key
    for _ in range(10):
        first, second = c[0] * _MULTIPLIERS[0], c[2] * _MULTIPLIERS[1]
        c = [
            (second >> _HALF) ^ c[1] ^ np.uint64(low),
            second & _LOW,
            (first >> _HALF) ^ c[3] ^ np.uint64(high),
            first & _LOW,
        ]
        low, high = (low + _KEY_STEPS[0]) % 2**32, (high + _KEY_STEPS[1]) % 2**32
    return [word.astype(np.uint32) for word in c]


def dropout_factors(
    probability: float, seed: int, offset: int, batch: int, shape: tuple[int, int, int]
) -> Array:
    """What the probabilities [heads, rows, cols] of one sequence are multiplied with: 0, or ``1 /
    (1 - p)``. ``probability`` is rounded to float32, as graphs store it.
    """
    p = float(np.float32(probability))
    key = (seed + offset * 0x9E3779B97F4A7C15) % 2**64
    heads, rows, cols = (np.arange(n) for n in shape)
    drawn = philox4x32_10(
        (np.array(batch), heads[:, None, None], rows[None, :, None], cols[None, None, :]),
        (key % 2**32, key >> 32),
    )[0]
    kept: Array = drawn >= int(p * 2**32)
    return np.where(kept, 1 / (1 - p), 0.0)
