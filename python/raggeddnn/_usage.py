"""Mistakes of whoever calls the command line."""

from __future__ import annotations

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
