"""What raggeddnn raises."""

from __future__ import annotations


class Error(RuntimeError):
    """Any failure of raggeddnn.

    `status` is the name of the failure's kind: "INVALID_VALUE", "ATTRIBUTE_NOT_SET",
    "NOT_SUPPORTED", "PLUGIN_ERROR", "EXECUTION_FAILED", "ALLOC_FAILED" or "INTERNAL_ERROR".
    """

    status: str = "INTERNAL_ERROR"


class InvalidValueError(Error, ValueError):
    """The caller's input is wrong; the message names it, what was got, and what was expected."""

    status = "INVALID_VALUE"


class NotSupportedError(Error):
    """No engine can run the graph; the message lists each engine and its reason."""

    status = "NOT_SUPPORTED"


class PluginError(Error):
    """An engine plugin could not be loaded, or failed."""

    status = "PLUGIN_ERROR"
