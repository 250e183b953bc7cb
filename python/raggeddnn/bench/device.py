"""Clocks and caches of the two kinds of memory measured: the host's, and that of torch's GPU."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy as np

FALLBACK_CACHE = 64 << 20  # bytes, where the machine does not say
CPU, CUDA = "cpu", "cuda"


def optional_module(name: str) -> Any:
    """The module, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def last_level_cache() -> int:
    """Bytes of the largest cache of the first core, as Linux states it."""
    sizes = [0]
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text().strip()
        unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
        sizes.append(int(text.rstrip("KMG")) * unit)
    return max(sizes) or FALLBACK_CACHE


class Clock(Protocol):
    """Times calls on one kind of device."""

    def seconds(self, call: Callable[[], None]) -> float:
        """From the start of the call to the end of its work on the device."""

    def host_seconds(self, call: Callable[[], None]) -> float:
        """How long the call keeps the host."""

    def evict(self) -> None:
        """Replace what the caches hold."""


class HostClock:
    """Host memory: a call returns when its work is done."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._buffer = np.zeros(0)

    def seconds(self, call: Callable[[], None]) -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    host_seconds = seconds

    def evict(self) -> None:
        """Every core walks a buffer of twice the last-level cache, so that the caches that a core
        has for itself are replaced as well.
        """
        if self._pool is None:
            self._pool = ThreadPoolExecutor(usable_cores())
            self._buffer = np.zeros(2 * last_level_cache() // 8)
        walks = [self._pool.submit(self._buffer.sum) for _ in range(usable_cores())]
        for walk in walks:
            walk.result()


class CudaClock:
    """The GPU that torch calls ``cuda``, NVIDIA's or AMD's: device time between two events."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._buffer: Any = None

    def seconds(self, call: Callable[[], None]) -> float:
        cuda = self._torch.cuda
        start, end = (cuda.Event(enable_timing=True) for _ in range(2))
        cuda.synchronize()
        start.record()
        call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    def host_seconds(self, call: Callable[[], None]) -> float:
        self._torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        passed = time.perf_counter() - start
        self._torch.cuda.synchronize()
        return passed

    def evict(self) -> None:
        if self._buffer is None:
            properties = self._torch.cuda.get_device_properties(0)
            size = getattr(properties, "L2_cache_size", 0) or FALLBACK_CACHE
            # AMD's Infinity Cache lies behind the L2 and is not stated: at least 512 MiB.
            count = max(2 * int(size), 512 << 20)
            self._buffer = self._torch.zeros(count, dtype=self._torch.uint8, device=CUDA)
        self._buffer.add_(1)


def clock_for(device: str) -> Clock:
    """The clock of ``cpu`` or ``cuda``; raises ValueError when there is no such device here."""
    if device == CPU:
        return HostClock()
    torch = optional_module("torch")
    if torch is None:
        raise ValueError(f"--device {device} needs PyTorch, which is not installed")
    if not torch.cuda.is_available():
        raise ValueError(f"--device {device}: PyTorch {torch.__version__} finds no GPU")
    return CudaClock(torch)
