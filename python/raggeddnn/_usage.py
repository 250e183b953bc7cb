"""Mistakes of whoever calls the command line."""

from __future__ import annotations

import argparse
import math
from pathlib import Path


class UsageError(Exception):
    """A mistake of the caller: printed as one line, exit status 2."""


def check_target(option: str, file: str | None) -> None:
    """Refuse a file that cannot be written, before anything is computed for it."""
    if not file:
        return
    folder = Path(file).parent
    if not folder.is_dir():
        raise UsageError(f"{option} {file}: there is no folder {folder}")
    if Path(file).is_dir():
        raise UsageError(f"{option} {file}: is a folder, expected a file")


def positive(text: str) -> int:
    """An option's value: an integer, 1 or more."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {value}")
    return value


def seconds(text: str) -> float:
    """An option's value: seconds, more than 0."""
    value = float(text)
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"expected more than 0 seconds, got {text}")
    return value
