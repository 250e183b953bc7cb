"""Distributions of lengths: real documents, log-uniform, one long among many short, fixed."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable

from .._corpus import docstrings
from .presets import DOCUMENTS, FIXED, LOG_UNIFORM, ONE_LONG

# The shortest of log-uniform lengths, and the short ones beside a long one, relative to the
# longest.
RANGE, SHORT = 64, 16


@functools.lru_cache(maxsize=1)
def docstring_lengths() -> tuple[int, ...]:
    """Words in each docstring of the standard library."""
    return tuple(len(text.split()) for text in docstrings())


def _documents(rng: random.Random, count: int, longest: int) -> list[int]:
    known = [n for n in docstring_lengths() if n <= longest]
    return rng.sample(known, count) if count <= len(known) else rng.choices(known, k=count)


def _log_uniform(rng: random.Random, count: int, longest: int) -> list[int]:
    """The first is the longest, so that the padded size does not depend on the seed."""
    low, high = math.log(max(1, longest // RANGE)), math.log(longest)
    return [longest, *(round(math.exp(rng.uniform(low, high))) for _ in range(count - 1))]


def _one_long(_: random.Random, count: int, longest: int) -> list[int]:
    return [longest, *[max(1, longest // SHORT)] * (count - 1)]


def _fixed(_: random.Random, count: int, longest: int) -> list[int]:
    return [longest] * count


DISTRIBUTIONS: dict[str, Callable[[random.Random, int, int], list[int]]] = {
    DOCUMENTS: _documents,
    LOG_UNIFORM: _log_uniform,
    ONE_LONG: _one_long,
    FIXED: _fixed,
}


def draw_lengths(
    kind: str, count: int, longest: int, seed: int, tokens: int | None = None
) -> tuple[int, ...]:
    """``count`` lengths of 1 to ``longest``; the same arguments and Python version give the same.

    ``tokens`` bounds their sum: the sequence that crosses it is cut short, those after it are
    dropped.
    """
    drawn = DISTRIBUTIONS[kind](random.Random(seed), count, longest)
    if tokens is None:
        return tuple(drawn)
    kept: list[int] = []
    left = tokens
    for length in drawn:
        if left > 0:
            kept.append(min(length, left))
            left -= length
    return tuple(kept)
