"""What a measurement depends on besides the code: machine, versions, threads, the command."""

from __future__ import annotations

import datetime
import os
import platform
from pathlib import Path

import numpy as np

import raggeddnn as rd

from .device import CPU, last_level_cache, optional_module, usable_cores

# Makes OpenBLAS take another machine's kernels; it reads it once, when it is loaded.
CORETYPE = "OPENBLAS_CORETYPE"
BUSY = 0.5  # of the cores, in runnable processes


def cpu_name() -> str:
    """The processor's name, as Linux or Python states it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def release_coretype() -> str | None:
    """Unset OPENBLAS_CORETYPE for the libraries loaded from now on; a sentence if it was set."""
    value = os.environ.pop(CORETYPE, None)
    if value is None:
        return None
    return (
        f"{CORETYPE} was {value}; it is unset for this run. NumPy, which is not measured, had read "
        "it."
    )


def busy_note() -> str | None:
    """A sentence when other programs keep the cores busy."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load <= BUSY * usable_cores():
        return None
    return (
        f"The machine was busy before the run (load {load:.1f} on {usable_cores()} cores): "
        "contenders with several threads suffer most."
    )


def machine_notes() -> list[str]:
    """Sentences about the machine before a run; to be called before PyTorch is loaded."""
    return [note for note in (release_coretype(), busy_note()) if note is not None]


def machine_facts(device: str, command: str) -> dict[str, str]:
    """Columns that every line of a CSV file begins with."""
    torch = optional_module("torch")
    facts = {
        "date": datetime.date.today().isoformat(),
        "command": command,
        "device": device,
        "processor": cpu_name(),
        "cores": str(usable_cores()),
        "last_level_cache_bytes": str(last_level_cache()),
        "system": platform.platform(),
        "raggeddnn": rd.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": "-" if torch is None else str(torch.__version__),
        "torch_threads": "-" if torch is None else str(torch.get_num_threads()),
        "load": f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "-",
        "omp_num_threads": os.environ.get("OMP_NUM_THREADS", "-"),
    }
    if device != CPU and torch is not None:
        properties = torch.cuda.get_device_properties(0)
        facts["device"] = f"{device}: {properties.name}"
        facts["torch"] += (
            f" (HIP {torch.version.hip})"
            if torch.version.hip
            else (f" (CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()})")
        )
    return facts
