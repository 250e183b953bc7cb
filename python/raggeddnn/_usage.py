"""Mistakes of whoever calls a command, and the exit status that they give it."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

from .errors import Error


class UsageError(Exception):
    """A mistake of the caller: printed as one line, exit status 2."""


def exit_status(program: str, call: Callable[[], int]) -> int:
    """What ``call`` returns; 2 for a mistake of the caller, 1 for a wrong result, each with a line
    on standard error.
    """
    try:
        return call()
    except (UsageError, Error) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except AssertionError as error:
        print(f"{program}: wrong result: {error}", file=sys.stderr)
        return 1


def while_read(call: Callable[[], int]) -> int:
    """What ``call`` returns; 141 when the reader of standard output has gone away."""
    try:
        try:
            return call()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _quiet_output()
        return 141


def _quiet_output() -> None:
    """Point standard output at nothing, so that Python's last flush does not complain either."""
    with contextlib.suppress(OSError, ValueError):  # raised when standard output is not a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_target(option: str, file: str | None) -> None:
    """Refuse a file that cannot be written, before anything is computed for it."""
    if file is None:
        return
    if not file:
        raise UsageError(f"{option} '': expected the name of a file")
    folder = Path(file).parent
    if not folder.is_dir():
        raise UsageError(f"{option} {file}: there is no folder {folder}")
    if Path(file).is_dir():
        raise UsageError(f"{option} {file}: is a folder, expected a file")


def check_distinct(files: dict[str, str]) -> None:
    """Refuse options that name the same file, however they spell it."""
    seen: dict[str, tuple[str, str]] = {}
    for option, file in files.items():
        # One file of several names (hard links) is known by its number.
        path = os.path.realpath(file)
        key = str(os.stat(path)[1:3]) if os.path.exists(path) else path
        if key in seen:
            other, name = seen[key]
            raise UsageError(f"{option} {file}: is the file of {other} {name}, expected another")
        seen[key] = (option, file)


def _integer(text: str, least: int, most: int) -> int:
    value = int(text)
    if value < least:
        raise argparse.ArgumentTypeError(f"expected {least} or more, got {value}")
    if value > most:
        raise argparse.ArgumentTypeError(f"expected at most {most}, got {value}")
    return value


def tokens(text: str) -> int:
    """An option's value: a length or a sum of lengths, 1 or more."""
    return _integer(text, 1, 2**31 - 1)


def count(text: str) -> int:
    """An option's value: how many of what is held in memory one by one, 1 or more."""
    return _integer(text, 1, 10**6)


def seed(text: str) -> int:
    """An option's value: what random numbers start from, 0 or more."""
    return _integer(text, 0, 2**63 - 1)


def _positive(text: str, unit: str) -> float:
    value = float(text)
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"expected more than 0{unit}, got {text}")
    return value


def seconds(text: str) -> float:
    """An option's value: seconds, more than 0."""
    return _positive(text, " seconds")


def rate(text: str) -> float:
    """An option's value: a learning rate, more than 0."""
    return _positive(text, "")
