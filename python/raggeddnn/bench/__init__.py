"""Ragged attention against padded attention and against other libraries.

``presets`` and ``lengths`` name what is measured, ``work`` counts it; ``layouts``, ``ours`` and
``peers`` are the contenders; ``device``, ``runner`` and ``checking`` time and check them;
``report``, ``charts``, ``plot`` and ``page`` show the results. ``command`` is ``raggeddnn bench``.
"""

from .ours import check_engine, host_engines
from .presets import DEFAULT_PRESET, PRESETS, Preset, preset_named, preset_names
from .runner import BenchOptions, Measurement, run_bench
from .work import Workload

__all__ = [
    "DEFAULT_PRESET",
    "PRESETS",
    "BenchOptions",
    "Measurement",
    "Preset",
    "Workload",
    "check_engine",
    "host_engines",
    "preset_named",
    "preset_names",
    "run_bench",
]
