"""Packages that an example needs and the library does not."""

from __future__ import annotations

from importlib.util import find_spec

from .._usage import UsageError


def require(*names: str) -> None:
    """Raise UsageError where one of these packages is not installed; none of them is imported."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{', '.join(missing)} not installed: pip install raggeddnn[examples] brings what the "
            "examples need"
        )
