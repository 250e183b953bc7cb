"""Ragged attention against padded attention, on the lengths of real documents.

``presets`` names what is measured, ``layouts`` turns lengths into the three layouts compared,
``runner`` times and checks them, ``report`` prints. The command line is ``raggeddnn bench``.
"""

from .presets import DEFAULT_PRESET, PRESETS, Preset, preset_named, preset_names
from .runner import BenchOptions, Measurement, check_engine, run_bench

__all__ = [
    "DEFAULT_PRESET",
    "PRESETS",
    "BenchOptions",
    "Measurement",
    "Preset",
    "check_engine",
    "preset_named",
    "preset_names",
    "run_bench",
]
