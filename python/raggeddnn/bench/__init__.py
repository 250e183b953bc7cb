"""Ragged attention against padded attention, on the lengths of real documents.

``presets`` names what is measured, ``layouts`` turns lengths into the three layouts compared,
``runner`` times and checks them, ``report`` prints. The command line is ``raggeddnn bench``.
"""

from .presets import PRESETS, Preset, preset_named
from .runner import BenchOptions, Measurement, run_bench

__all__ = ["PRESETS", "BenchOptions", "Measurement", "Preset", "preset_named", "run_bench"]
