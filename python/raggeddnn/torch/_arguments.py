"""Checks of single arguments, and the seeds of dropout."""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch import Tensor

import raggeddnn as rd

_INT64 = 2**63
# The least double that becomes 1, and the least that becomes infinite, when rounded to float32.
_FLOAT32_ONE = 1.0 - 2.0**-25
_FLOAT32_OVERFLOW = 2.0**128 - 2.0**103
# Rows of such a capacity have more bytes than 64 bits can count, or soon would.
_LONGEST = 2**40


def not_supported(caller: str, text: str) -> rd.NotSupportedError:
    return rd.NotSupportedError(f"[{caller}] {text}: not supported")


def bounds_of(caller: str, window_size: Any) -> tuple[int, int]:
    """(left, right); negative is open."""
    try:
        left, right = window_size
        left, right = operator.index(left), operator.index(right)
    except (TypeError, ValueError) as error:
        raise rd.InvalidValueError(
            f"[{caller}] window_size is {window_size!r}, expected two integers"
        ) from error
    if not (-_INT64 <= left < _INT64 and -_INT64 <= right < _INT64):
        raise rd.InvalidValueError(
            f"[{caller}] window_size is {window_size!r}, expected two integers of 64 bits"
        )
    return left, right


def _refuse_gradient(caller: str, name: str, number: Any) -> None:
    if isinstance(number, Tensor) and number.requires_grad:
        raise rd.InvalidValueError(
            f"[{caller}] {name} is a tensor that requires grad, expected a number: it would get no "
            "gradient"
        )


def checked_scale(caller: str, name: str, scale: Any, q: Tensor) -> float:
    """The scale as a number, finite in the type that it is computed in with q."""
    _refuse_gradient(caller, name, scale)
    try:
        value = float(scale)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise rd.InvalidValueError(
            f"[{caller}] {name} is {scale!r}, expected a finite number"
        ) from error
    if not math.isfinite(value):
        raise rd.InvalidValueError(f"[{caller}] {name} is {value}, expected a finite number")
    if abs(value) >= _FLOAT32_OVERFLOW and q.dtype != torch.float64:
        raise rd.InvalidValueError(
            f"[{caller}] {name} is {value}, expected a number that is finite as a float32"
        )
    return value


def checked_dropout(caller: str, probability: float) -> bool:
    """Is anything dropped?"""
    try:
        is_valid = 0.0 <= probability < _FLOAT32_ONE
    except (TypeError, ValueError, RuntimeError) as error:
        raise rd.InvalidValueError(
            f"[{caller}] dropout_p is {probability!r}, expected a number"
        ) from error
    if not is_valid:
        raise rd.InvalidValueError(
            f"[{caller}] dropout_p is {probability}, expected at least 0 and less than 1 as a "
            "float32"
        )
    if probability > 0.0:
        _refuse_gradient(caller, "dropout_p", probability)
        return True
    return False


def explain(
    caller: str,
    tensors: dict[str, Any],
    maybe_tensors: dict[str, Any],
    limits: dict[str, Any],
) -> None:
    """Of a call that has failed: raise a clearer error where an argument's kind is the reason.

    ``tensors`` begin with the queries; ``maybe_tensors`` may be None; ``limits`` are longest
    lengths.
    """
    given = {name: x for name, x in maybe_tensors.items() if x is not None}
    for name, x in {**tensors, **given}.items():
        if not isinstance(x, Tensor):
            raise rd.InvalidValueError(
                f"[{caller}] {name} is {'None' if x is None else 'of type ' + type(x).__name__}, "
                "expected a tensor"
            ) from None
    name, q = next(iter(tensors.items()))
    if q.dim() == 0 or q.shape[-1] == 0:
        raise rd.InvalidValueError(
            f"[{caller}] {name} has shape {tuple(q.shape)}, expected heads and a head_dim"
        ) from None
    for name, limit in limits.items():
        try:
            fits = operator.index(limit) < _LONGEST
        except TypeError:
            fits = False
        if not fits:
            raise rd.InvalidValueError(
                f"[{caller}] {name} is {limit!r}, expected an integer below {_LONGEST}"
            ) from None


def draw_seeds(like: Tensor) -> Tensor:
    """Seed and offset of dropout (2,) int64 from the default generator of a tensor's device."""
    return torch.randint(0, 2**62, (2,), dtype=torch.int64, device=like.device)
