"""Checks of single arguments, and the seeds of dropout."""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch import Tensor

import raggeddnn as rd


def not_supported(caller: str, text: str) -> rd.NotSupportedError:
    return rd.NotSupportedError(f"[{caller}] {text}: not supported")


def bounds_of(caller: str, window_size: Any) -> tuple[int, int]:
    """(left, right); negative is open."""
    try:
        left, right = window_size
        return operator.index(left), operator.index(right)
    except (TypeError, ValueError) as error:
        raise rd.InvalidValueError(
            f"[{caller}] window_size is {window_size!r}, expected two integers"
        ) from error


def checked_scale(caller: str, scale: Any) -> float:
    value = float(scale)
    if not math.isfinite(value):
        raise rd.InvalidValueError(f"[{caller}] scale is {value}, expected a finite number")
    return value


def checked_dropout(caller: str, probability: float) -> bool:
    """Is anything dropped?"""
    if not 0.0 <= probability < 1.0:
        raise rd.InvalidValueError(
            f"[{caller}] dropout_p is {probability}, expected at least 0 and less than 1"
        )
    return probability > 0.0


def draw_seeds(like: Tensor) -> Tensor:
    """Seed and offset of dropout (2,) int64 from the default generator of a tensor's device."""
    return torch.randint(0, 2**62, (2,), dtype=torch.int64, device=like.device)
